import asyncio
import time

import pytest

from loadtest.habits import Character, Habits, Network
from loadtest.line import Line, Refused, Target, dial
from loadtest.talker import Repertoire, Talker
from loadtest.websocket import address_of
from loadtest.wires import RealtimeWire
from tests.loadtest.calling import clip
from tests.loadtest.pretended import mute, pretended

WIRE = RealtimeWire()


def talker() -> Talker:
    repertoire = Repertoire(WIRE, [clip()], WIRE.frame(bytes(960)))
    return Talker(0, repertoire, Habits(), Character(Habits(), 1, "1"), start=0.0, until=1e9)


def target(url: str) -> Target:
    return Target(address_of(url), WIRE, {"Authorization": "Bearer key"})


async def test_a_call_is_set_up_and_left_properly():
    async with pretended() as server:
        caller, ready = talker(), asyncio.Event()
        caller.on_ready = ready.set
        line, answer_s = await dial(target(server.url), caller, Network(Habits(), "1"))
        async with asyncio.timeout(5):
            await ready.wait()
            line.tick(time.monotonic())
            line.leave()
            await line.closed
        assert (line.frames, line.left) == (1, True)
        assert 0 < answer_s < 5
        assert server.headers[0]["Authorization"] == "Bearer key"
        assert server.kinds[0] == "session.update"


async def test_a_wire_without_a_session_is_ready_at_once():
    class Simple(RealtimeWire):
        ready_at_once = True

    async with pretended() as server:
        caller, ready = talker(), asyncio.Event()
        caller.on_ready = ready.set
        simple = Target(address_of(server.url), Simple(), {})
        line, _ = await dial(simple, caller, Network(Habits(), "1"))
        assert ready.is_set()
        line.leave(in_mid_word=True)
        async with asyncio.timeout(5):
            await line.closed


async def test_a_refusal_says_why_and_when_to_come_back():
    async with pretended(refuse=503) as server:
        with pytest.raises(Refused, match="server_full: All calls are taken") as refused:
            await dial(target(server.url), talker(), Network(Habits(), "1"))
    assert (refused.value.status, refused.value.retry_s) == (503, 3.0)


async def test_nobody_is_there():
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1 cannot be called") as refused:
        await dial(target("ws://127.0.0.1:1"), talker(), Network(Habits(), "1"))
    assert refused.value.status == 0


async def test_a_server_that_hangs_up_at_once():
    async with mute() as port:
        with pytest.raises(Refused, match="hung up before it answered"):
            await dial(target(f"ws://127.0.0.1:{port}"), talker(), Network(Habits(), "1"))


async def test_a_call_that_is_cut_off_tells_that_it_was_not_the_caller():
    async with pretended(drop_after=1) as server:
        line, _ = await dial(target(server.url), talker(), Network(Habits(), "1"))
        async with asyncio.timeout(5):
            await line.closed
    assert not line.left


async def test_a_frame_for_a_line_that_has_just_broken_stops_nobody_elses():
    class Broken(asyncio.Transport):
        """As uvloop's are until it has told of it."""

        closing = False

        def is_closing(self):
            return self.closing

        def write(self, data):
            if self.closing:
                raise RuntimeError("the handler is closed")

    line, transport = Line(target("ws://there/"), talker(), Network(Habits(), "1")), Broken()
    line.connection_made(transport)
    transport.closing = True
    line.tick(time.monotonic())
    assert (line.frames, line.left) == (1, False)


async def test_lost_frames_are_not_sent_and_late_ones_are():
    async with pretended() as server:
        lossy = Network(Habits(loss=1.0), "1")
        line, _ = await dial(target(server.url), talker(), lossy)
        line.tick(time.monotonic())
        late, _ = await dial(target(server.url), talker(), Network(Habits(jitter_ms=20), "1"))
        late.tick(time.monotonic())
        async with asyncio.timeout(5):
            while "input_audio_buffer.append" not in server.kinds:
                await asyncio.wait([late.closed], timeout=0.01)
        line.leave()
        late.leave()
        async with asyncio.timeout(5):
            await asyncio.gather(line.closed, late.closed)
    assert server.kinds.count("input_audio_buffer.append") == 1
