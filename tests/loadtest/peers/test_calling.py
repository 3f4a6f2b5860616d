"""Callers of the comparison, against a server that keeps what it is sent."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen

from loadtest.peers.calling import Caller, Heard, PlainWire, Program, RealtimeWire, Wire

PROGRAM = Program(np.arange(16_000, dtype=np.int16), 0.4)


@asynccontextmanager
async def server(answer: str | bytes) -> AsyncIterator[tuple[int, asyncio.Queue[str | bytes]]]:
    got: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def talk(socket: ServerConnection) -> None:
        async for message in socket:
            got.put_nowait(message)
            await socket.send(answer)

    async with listen(talk, "127.0.0.1", 0) as listening:
        yield next(iter(listening.sockets)).getsockname()[1], got


async def call(wire: Wire, port: int) -> Caller:
    loop = asyncio.get_running_loop()
    messages = PROGRAM.messages(wire)
    _, caller = await loop.create_connection(
        lambda: Caller(wire, messages, port), "127.0.0.1", port
    )
    await asyncio.wait_for(caller.opened, 5)
    return caller


async def test_plain_audio_goes_over_the_line_as_it_is() -> None:
    async with server(b"\0" * 4_800) as (port, got):
        caller = await call(PlainWire(), port)
        caller.start(asyncio.get_running_loop().time())
        first = await asyncio.wait_for(got.get(), 5)
        second = await asyncio.wait_for(got.get(), 5)
        caller.hang_up()
    assert first == PROGRAM.samples[:320].tobytes()
    assert second == PROGRAM.samples[320:640].tobytes()
    assert not caller.heard.lost
    assert caller.heard.arrivals
    assert caller.heard.arrivals[0][1] == pytest.approx(0.1)


async def test_realtime_begins_with_the_session_and_is_json() -> None:
    audio = base64.b64encode(b"\0" * 4_800).decode()
    delta = json.dumps({"type": "response.output_audio.delta", "delta": audio})
    async with server(delta.replace(": ", ":")) as (port, got):
        caller = await call(RealtimeWire(), port)
        caller.start(asyncio.get_running_loop().time())
        session = json.loads(await asyncio.wait_for(got.get(), 5))
        frame = json.loads(await asyncio.wait_for(got.get(), 5))
        await asyncio.wait_for(got.get(), 5)
        caller.hang_up()
    turns = session["session"]["audio"]["input"]["turn_detection"]
    assert turns["silence_duration_ms"] == 200
    assert len(base64.b64decode(frame["audio"])) == 960  # 20 ms at 24 kHz
    assert caller.heard.arrivals[0][1] == pytest.approx(0.1)


async def test_a_server_that_refuses_is_told_of() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Full\r\n\r\nfull")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listening:
        with pytest.raises(ConnectionError, match="503"):
            await call(PlainWire(), listening.sockets[0].getsockname()[1])


async def test_a_server_that_hangs_up_has_lost_the_call() -> None:
    async with server(b"") as (port, got):
        caller = await call(PlainWire(), port)
        caller.start(asyncio.get_running_loop().time())
        await asyncio.wait_for(got.get(), 5)
    async with asyncio.timeout(5):
        while not caller.heard.lost:  # noqa: ASYNC110 - nobody tells of what is waited for
            await asyncio.sleep(0)


def test_an_answer_is_timed_from_the_last_sound_of_its_own_turn() -> None:
    # Turns of 1 s that end after 0.4 s: answered at once, too late, and not at all.
    heard = Heard(arrivals=[(10.65, 0.1), (12.45, 0.1)])
    assert heard.answers(10.0, PROGRAM, 14.5) == [
        pytest.approx(0.25),
        None,
        pytest.approx(0.05),
        None,
    ]


def test_a_turn_that_is_not_over_yet_owes_no_answer() -> None:
    assert Heard().answers(10.0, PROGRAM, 10.9) == []


def test_a_player_that_holds_back_60_ms_runs_dry_inside_a_reply_only() -> None:
    assert Heard(arrivals=[(0.0, 0.1), (0.15, 0.1), (0.25, 0.1)]).gaps() == 0
    assert Heard(arrivals=[(0.0, 0.1), (0.17, 0.1)]).gaps() == 1
    assert Heard(arrivals=[(0.0, 0.1), (5.0, 0.1)]).gaps() == 0
    assert Heard().gaps() == 0
