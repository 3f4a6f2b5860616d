"""A leg: what comes in is told, what goes out keeps time, and nothing that comes can break it."""

import asyncio
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from pipelines.conversation.dialogue import AgentItem
from tests.voice.doors.phoning import RATE, PlainCodec, PlainLine, now_ms
from voice.doors.phone_leg import MOST_UNSENT, Leg
from voice.doors.phone_pacer import STEADY

pytestmark = pytest.mark.virtual_clock


class Ear:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def heard(self, pcm: Pcm) -> None:
        self.told.append(pcm.duration_ms)

    def pressed(self, digit: str) -> None:
        self.told.append(f"pressed {digit}")

    def typed(self, digits: str) -> None:
        self.told.append((digits, now_ms()))


def leg_of(codec: PlainCodec | None = None, line: PlainLine | None = None, **more: Any) -> Leg:
    codec, line = codec or PlainCodec(), line or PlainLine()
    leg = line.leg = Leg(line, lambda _first: codec, quiet_ms=2_000, **more)
    leg.take("start")
    leg.ear = Ear()
    return leg


def voice(milliseconds: int, rate: int = RATE) -> Pcm:
    return Pcm(np.full(rate * milliseconds // 1000, 5_000, np.int16), rate)


async def test_audio_goes_out_on_time_with_one_timer() -> None:
    leg, loop = leg_of(), asyncio.get_running_loop()
    began, late = now_ms(), []
    leg._tell_late = late.append
    leg.begin(1, None)
    leg.speak(voice(10_000))
    leg.finish()
    timers = 0
    while leg.line.sent_ms < 10_000:
        await asyncio.sleep(0.001)
        timers = max(timers, sum(not timer.cancelled() for timer in loop._scheduled))
    heard_ms = 0.0
    for at, frame in leg.line.audio:
        assert len(frame) == 320
        assert 0 <= heard_ms - (at - began) <= 180 + 0.01  # never dry, never far ahead
        heard_ms += 20
    assert now_ms() - began == pytest.approx(10_000 - 180, abs=70)
    assert timers == 1
    assert max(late) == pytest.approx(0, abs=1e-6)
    leg.close()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


async def test_a_wire_that_takes_nothing_back_is_given_one_frame_at_a_time() -> None:
    leg = leg_of(PlainCodec(clears=False, marks=False, paced=True), lead=STEADY)
    leg.begin(1)
    leg.speak(voice(1_000))
    await asyncio.sleep(0.5)
    times = [at for at, _ in leg.line.audio]
    assert leg.line.sent_ms <= 500 + 60
    assert max(times.count(at) for at in times[3:]) <= 2
    leg.close()


async def test_who_keeps_time_itself_is_given_all_at_once_where_that_is_wanted() -> None:
    leg = leg_of(send_ahead=True)
    leg.begin(1)
    leg.speak(voice(3_000))
    assert leg.line.sent_ms == 3_000
    other = leg_of(PlainCodec(paced=True), send_ahead=True)
    other.begin(1)
    other.speak(voice(3_000))
    assert other.line.sent_ms == 180
    leg.close(), other.close()


async def test_falling_silent_clears_the_wire_in_the_same_step() -> None:
    leg = leg_of()
    item = AgentItem("item", spoken=True)
    item.say("some words that are said")
    item.sound(2_000)
    leg.begin(7, item)
    leg.speak(voice(2_000))
    await asyncio.sleep(0.5)
    before = len(leg.line.written)
    leg.stop()
    assert leg.line.written[before:] == [(now_ms(), "clear")]
    await asyncio.sleep(3)
    assert len(leg.line.written) == before + 1
    assert item.played_ms == pytest.approx(500, abs=21)
    leg.close()


async def test_audio_is_held_while_the_carrier_takes_none_and_control_is_not() -> None:
    class Flow(PlainCodec):
        def take(self, message: Any) -> Any:
            from voice.wire.phone import Answer, FlowChanged

            events = {"xoff": FlowChanged(False), "xon": FlowChanged(True), "ping": Answer(("pong",))}  # fmt: skip  # noqa: E501
            return (events[message],) if message in events else super().take(message)

    leg = leg_of(Flow())
    leg.begin(1)
    leg.take("xoff")
    leg.speak(voice(1_000))
    leg.take("ping")
    await asyncio.sleep(0.3)
    assert leg.line.written == [(pytest.approx(now_ms() - 300), "pong")]
    leg.take("xon")
    assert leg.line.sent_ms == 180
    leg.line.is_writable = False
    await asyncio.sleep(1)
    assert leg.line.sent_ms == 180
    leg.line.is_writable = True
    leg.pump()
    assert leg.line.sent_ms == 360
    leg.close()


async def test_keys_stand_beside_the_audio() -> None:
    leg = leg_of()
    began = now_ms()
    for digit in "12":
        leg.take(f"digit {digit}")
    leg.take("audio 20 8000")
    await asyncio.sleep(5)
    leg.take("digit 3")
    leg.take("digit #")
    assert leg.ear.told == [
        *("pressed 1", "pressed 2", 20.0),
        ("12", pytest.approx(began + 2_000, abs=1.5)),
        *("pressed 3", "pressed #"),
        ("3#", now_ms()),
    ]
    leg.close()


async def test_keys_that_were_pressed_before_the_call_was_there_are_kept() -> None:
    leg = leg_of()
    ear, leg.ear = leg.ear, None
    for digit in "42#":
        leg.take(f"digit {digit}")
    leg.ear = ear
    leg.pump()
    assert ear.told == [("42#", now_ms())]
    leg.close()


@pytest.mark.parametrize(("message", "misbehaved"), [("bad", True), ("stop it ended", False)])
async def test_a_wire_s_end_is_told_with_its_reason(message: str, misbehaved: bool) -> None:
    leg = leg_of()
    leg.begin(1)
    leg.speak(voice(1_000))
    leg.take(message)
    assert leg.ended.result()
    assert leg.misbehaved is misbehaved
    sent = len(leg.line.written)
    leg.take("audio 20 8000")
    leg.take("bug")
    leg.stop()
    leg.speak(voice(1_000))
    assert leg.hang_up() is False
    await asyncio.sleep(2)
    assert len(leg.line.written) == sent
    leg.close()


async def test_a_bug_ends_the_leg_and_raises_nothing_at_whoever_called() -> None:
    leg = leg_of()
    leg.take("bug")
    with pytest.raises(KeyError):
        leg.ended.result()
    other = leg_of()
    other.ear.typed = lambda _digits: 1 / 0
    other.take("digit #")
    with pytest.raises(ZeroDivisionError):
        other.ended.result()


async def test_who_does_not_read_is_given_up() -> None:
    leg = leg_of()
    leg.begin(1)
    leg.line.unsent = MOST_UNSENT + 1
    leg.speak(voice(1_000))
    assert "reads none" in leg.ended.result()
    other = leg_of()
    other.begin(1)
    other.line.is_writable = False
    other.pump()
    for _ in range(130):
        other.speak(voice(1_000))
    assert "takes none" in other.ended.result()
    leg.close(), other.close()


@pytest.mark.parametrize("lag_ms", [0.0, 250.0])
async def test_all_is_played_out_before_the_end(lag_ms: float) -> None:
    """The last mark says when; where it never comes, the clock does, and the deadline anyway."""
    line = PlainLine(lag_ms)
    leg = leg_of(line=line)
    began = now_ms()
    leg.begin(1)
    leg.speak(voice(1_000))
    leg.finish()
    await leg.play_out(asyncio.get_running_loop().time() + 10)
    assert now_ms() - began == pytest.approx(1_000 + lag_ms, abs=2)
    assert leg.hang_up() is True
    leg.close()


async def test_what_cannot_be_played_out_ends_at_the_deadline() -> None:
    leg, loop = leg_of(line=PlainLine(None)), asyncio.get_running_loop()
    leg.begin(1)
    leg.speak(voice(1_000))
    leg.finish()
    began = loop.time()
    await leg.play_out(began + 10)
    assert loop.time() - began == pytest.approx(1.5, abs=0.01)  # no mark: its grace is over
    leg.line.is_writable = False
    leg.speak(voice(1_000))
    began = loop.time()
    await leg.play_out(began + 3)
    assert loop.time() - began == pytest.approx(3, abs=0.01)
    asyncio.get_running_loop().call_later(1, leg.end, "gone")
    await leg.play_out(began + 60)
    assert loop.time() - began == pytest.approx(4, abs=0.01)
    leg.close()


async def test_a_leg_whose_wire_is_not_known_yet_waits_for_more() -> None:
    codec = PlainCodec()
    leg = Leg(PlainLine(), lambda first: codec if len(first) > 1 else None, quiet_ms=2_000)
    leg.take("digit 1")
    assert leg.codec is None
    await leg.wait_begun(1)
    leg.take("start")
    await leg.wait_begun(1)
    assert leg.started.result().rate == RATE
    leg.begin(1)
    leg.speak(voice(100))
    assert leg.line.sent_ms == 100
    leg.close()
    leg.speak(voice(100))
    leg.finish()
    leg.stop()
