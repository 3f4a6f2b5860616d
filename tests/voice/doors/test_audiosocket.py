"""AudioSocket over a real connection: a call, its end from both sides, and who may come."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import numpy as np
import pytest

from tests.voice.conftest import eventually
from voice.doors import audiosocket
from voice.doors.audiosocket import (
    SLICE_BYTES,
    AudioSocketLine,
    audiosocket_listener,
    serve_audiosocket,
)
from voice.phone_settings import PhoneSettings

SILENT = "phone.greeting="


def frame(kind: int, payload: bytes = b"") -> bytes:
    return bytes([kind]) + len(payload).to_bytes(2, "big") + payload


def audio(milliseconds: int = 20, level: int = 0) -> bytes:
    return frame(0x10, np.full(8 * milliseconds, level, "<i2").tobytes())


@asynccontextmanager
async def listening(house: Any) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(serve_audiosocket(house, listener))
    try:
        yield port
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def call(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame(0x01, uuid4().bytes) + audio())
    return reader, writer


async def next_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(10):
        head = await reader.readexactly(3)
        return head[0], await reader.readexactly(int.from_bytes(head[1:], "big"))


async def test_a_call_is_greeted_and_answered_frame_by_frame(serve: Any) -> None:
    server = await serve("phone.greeting=Hello there.")
    async with listening(server.house) as port:
        reader, writer = await call(port)
        kind, sound = await next_frame(reader)
        assert (kind, len(sound)) == (0x10, 320)
        assert server.house.calls == 1
        writer.write(frame(0x00))
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
        await server.is_empty()


async def test_a_line_that_is_lost_frees_its_place(serve: Any) -> None:
    server = await serve("phone.greeting=Hello there.")
    async with listening(server.house) as port:
        reader, writer = await call(port)
        await next_frame(reader)
        writer.transport.abort()
        await server.is_empty()


async def test_the_end_of_the_server_hangs_up(serve: Any) -> None:
    server = await serve("phone.greeting=Hello there.")
    async with listening(server.house) as port:
        reader, writer = await call(port)
        await next_frame(reader)
    kinds = [0x10]
    while kinds[-1] == 0x10:
        kinds.append((await next_frame(reader))[0])
    assert kinds[-1] == 0x00
    assert await reader.read() == b""
    writer.close()
    await server.is_empty()


@pytest.mark.parametrize("said", [frame(0x42, b"x"), b"GET / HTTP/1.1\r\n\r\n", frame(0x00), b""])
async def test_what_is_no_call_is_hung_up_on(
    serve: Any, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audiosocket, "START_S", 0.05)
    server = await serve(SILENT)
    async with listening(server.house) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
    assert server.house.calls == 0


async def test_who_comes_from_elsewhere_is_dropped(serve: Any) -> None:
    server = await serve(SILENT, "phone.audiosocket_from=10.0.0.0/8")
    async with listening(server.house) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(10):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


async def test_a_line_that_is_full_holds_its_leg_and_one_that_is_gone_takes_nothing() -> None:
    told: list[AudioSocketLine] = []
    line = AudioSocketLine(told.append, 500)
    line.write(b"before")
    assert line.unsent == 0
    transport = Mock(get_extra_info=Mock(return_value=None), is_closing=Mock(return_value=False))
    transport.get_write_buffer_size.return_value = 7
    line.connection_made(transport)
    assert (told, line.peer, line.unsent) == ([line], "", 7)
    line.leg = Mock()
    line.pause_writing()
    assert not line.is_writable
    line.resume_writing()
    assert line.is_writable
    line.leg.pump.assert_called_once()
    line.write(b"audio")
    transport.write.assert_called_once_with(b"audio")
    transport.is_closing.return_value = True
    line.write(b"more")
    line.abort()
    line.close()
    assert transport.write.call_count == 1
    line.connection_lost(None)
    line.leg.end.assert_called_once()


def reading(line: AudioSocketLine, data: bytes) -> None:
    """As a transport does it: a buffer at a time."""
    for at in range(0, len(data), SLICE_BYTES):
        piece = data[at : at + SLICE_BYTES]
        line.get_buffer(-1)[: len(piece)] = piece
        line.buffer_updated(len(piece))


@pytest.mark.virtual_clock
async def test_who_sends_more_frames_than_anyone_speaks_waits() -> None:
    loop = asyncio.get_running_loop()
    line = AudioSocketLine(lambda _: None, 100)
    transport = Mock(get_extra_info=Mock(return_value=None))
    transport.is_closing.return_value = False
    line.connection_made(transport)
    line.leg = Mock(take=line.codec.take)
    reading(line, frame(0x01, uuid4().bytes) + audio() * 100)
    transport.pause_reading.assert_not_called()
    reading(line, frame(0x03, b"1") * 100)
    transport.pause_reading.assert_called_once()
    transport.resume_reading.assert_not_called()
    resumed = asyncio.Event()
    transport.resume_reading.side_effect = resumed.set
    began = loop.time()
    await resumed.wait()
    assert loop.time() - began == pytest.approx(0.01, abs=1e-3)  # one too many, of 100 a second
    reading(line, frame(0x03, b"1") * 50)
    transport.is_closing.return_value = True
    await asyncio.sleep(1)
    transport.resume_reading.assert_called_once()  # nobody is there any more


async def test_a_flood_of_empty_frames_holds_nobody_else_up(serve: Any) -> None:
    server = await serve("phone.greeting=Hello there.", "server.messages_per_s=100")
    async with listening(server.house) as port:
        _, flood = await call(port)
        flood.write(frame(0x10) * 200_000)
        reader, writer = await call(port)
        kind, _ = await next_frame(reader)
        assert kind == 0x10
        flood.transport.abort()
        writer.transport.abort()
        await server.is_empty()


def test_nobody_listens_unless_there_is_a_port() -> None:
    assert audiosocket_listener(PhoneSettings()) is None
    listener = audiosocket_listener(PhoneSettings(audiosocket_port=0))
    assert listener is not None
    with listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=r"for AudioSocket.*phone.audiosocket_port"):
            audiosocket_listener(PhoneSettings(audiosocket_port=port))


async def test_who_reads_nothing_is_cut_off_and_not_waited_for(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audiosocket, "CLOSE_S", 0.05)
    server, lines = await serve(SILENT), list[AudioSocketLine]()
    made = AudioSocketLine.connection_made
    monkeypatch.setattr(
        AudioSocketLine, "connection_made", lambda line, to: lines.append(line) or made(line, to)
    )
    async with listening(server.house) as port:
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.sendall(frame(0x01, uuid4().bytes) + audio())
            await eventually(lambda: server.house.calls == 1)
            [line] = lines
            while not line.unsent:
                line.write(bytes(1_000_000))
            lost = asyncio.Event()
            monkeypatch.setattr(line, "connection_lost", lambda _: lost.set())
            assert line.leg is not None
            line.leg.end("enough")
            async with asyncio.timeout(10):
                await lost.wait()
    await server.is_empty()
