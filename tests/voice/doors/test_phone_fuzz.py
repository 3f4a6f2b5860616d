"""Whatever a carrier sends: a call or a clean end; never an exception, nor a place that is kept."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import LoudnessVad
from tests.voice.doors.phoning import CALLER, Phone, PlainLine
from tests.voice.wire.phone_transcripts import CODECS, TRANSCRIPTS
from voice.doors.phone_call import serve_leg
from voice.doors.phone_leg import Leg
from voice.wire.phone import Message, PhoneWireError

GARBAGE = st.one_of(st.text(max_size=60), st.binary(max_size=60))


@st.composite
def calls(draw: Any, name: str) -> list[Message]:
    """A call in which messages are missing, doubled, out of order, cut off or something else."""
    messages: list[Any] = list(TRANSCRIPTS[name])
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(messages) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "cut", "garbage"])):
            case "drop" if len(messages) > 1:
                del messages[at]
            case "double":
                messages.insert(at, messages[draw(st.integers(0, len(messages) - 1))])
            case "swap":
                other = draw(st.integers(0, len(messages) - 1))
                messages[at], messages[other] = messages[other], messages[at]
            case "cut":
                messages[at] = messages[at][: draw(st.integers(0, len(messages[at])))]
            case "garbage":
                messages.insert(at, draw(GARBAGE))
    return messages


@pytest.mark.parametrize("name", sorted(CODECS))
def test_no_call_breaks_the_house(name: str, run_virtually: Callable[[Any], Any]) -> None:
    @given(calls(name), st.floats(0, 0.3))
    def each(messages: list[Message], pause_s: float) -> None:
        run_virtually(one_call(name, messages, pause_s))

    each()


async def one_call(name: str, messages: list[Message], pause_s: float) -> None:
    vad = LoudnessVad()
    phone, line = Phone(vad, ["phone.greeting=Hello."]), PlainLine(0)
    leg = line.leg = Leg(line, lambda _first: CODECS[name](), quiet_ms=500)
    serving: asyncio.Task[None] | None = None
    for message in messages:
        leg.take(message)  # type: ignore[arg-type]
        if leg.started.done() and serving is None:
            serving = asyncio.create_task(serve_leg(phone.house, leg, CALLER, {}))
        await asyncio.sleep(pause_s)
    leg.end("the line is gone")
    if serving is not None:
        await serving
    leg.close()
    assert leg.ended.exception() is None
    assert phone.house.calls == 0
    assert vad.slots == set()


def test_what_no_wire_can_be_found_for_is_an_end(run_virtually: Callable[[Any], Any]) -> None:
    def nobody(_first: Any) -> None:
        raise PhoneWireError("nobody")

    async def call() -> None:
        leg = Leg(PlainLine(), nobody, quiet_ms=500)
        leg.take("anything")
        assert leg.ended.result() == "nobody"
        assert leg.misbehaved

    run_virtually(call())
