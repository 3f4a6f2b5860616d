"""The short cut past ASGI: messages as they are parsed, writes at once, and bounded in all."""

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from voice.socket import EXTENSION, CallSocket


def socket_of(server: Any) -> CallSocket:
    """The server's end of the one connection there is."""
    (connection,) = [each for each in server.connections if isinstance(each, CallSocket)]
    return connection


async def test_messages_come_whole_and_in_order(serve: Any, eventually: Any) -> None:
    server = await serve()
    async with server.call() as client:
        got: list[bytes] = []
        socket_of(server).on_message = got.append
        await client.socket.send("one")
        await client.socket.send(["t", "w", "o"])
        await client.socket.send(b"three")
        await client.socket.send("vier ü")
        await eventually(lambda: len(got) == 4)
    assert got == [b"one", b"two", b"three", "vier ü".encode()]


async def test_what_is_written_is_a_text_message(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        socket_of(server).write_text("grüezi".encode())
        assert await client.socket.recv() == "grüezi"


async def test_writing_to_a_client_that_closes_or_has_gone_is_of_no_effect(
    serve: Any, eventually: Any
) -> None:
    server = await serve()
    async with server.call() as client:
        socket = socket_of(server)
        assert socket.is_writable
    await server.is_empty()
    await eventually(lambda: not server.connections)
    assert not socket.is_writable
    socket.write_text(b"too late")
    assert client.socket.close_code == 1000


async def test_what_stands_right_before_a_close_is_taken(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In one packet: the connection is closing when the message is parsed."""
    server = await serve()
    async with server.call() as client:
        message = b'{"type":"conversation.item.retrieve","item_id":"x"}'
        frames = [Frame(Opcode.TEXT, message), Frame(Opcode.CLOSE, b"\x03\xe8")]
        data = b"".join(frame.serialize(mask=True) for frame in frames)
        client.socket.transport.write(data)
        await server.is_empty()
    assert "bug" not in caplog.text


async def test_room_in_the_transport_is_told_of(serve: Any) -> None:
    server = await serve()
    async with server.call():
        socket, told = socket_of(server), []
        socket.pause_writing()
        assert not socket.is_writable
        socket.resume_writing()  # goes to the call's own outbox
        assert socket.is_writable
        socket.on_writable = lambda: told.append("room")
        socket.pause_writing()
        socket.resume_writing()
    assert told == ["room"]


async def test_a_full_transport_drops_pongs_and_no_message(serve: Any, eventually: Any) -> None:
    server = await serve()
    async with server.call() as client:
        socket, taken = socket_of(server), []
        take = socket.on_message
        socket.on_message = lambda message: taken.append(take(message))
        socket.pause_writing()
        lost = await client.socket.ping()
        await client.send("conversation.item.retrieve", item_id="x")
        await eventually(lambda: bool(taken))
        socket.resume_writing()
        assert (await client.until("error"))["error"]["code"] == "item_retrieve_invalid_item_id"
        assert not lost.done()
        async with asyncio.timeout(5):
            await (await client.socket.ping())


async def test_a_client_that_pings_and_never_reads_costs_no_memory(
    serve: Any, eventually: Any
) -> None:
    server = await serve()
    async with server.call(max_queue=1, ping_interval=None) as client:
        socket = socket_of(server)
        client.socket.transport.pause_reading()
        ping = Frame(Opcode.PING, b"x" * 125)
        for _ in range(200):
            client.socket.transport.write(ping.serialize(mask=True) * 500)
            await eventually(lambda: not client.socket.transport.get_write_buffer_size())
        buffered = socket.transport.get_write_buffer_size()
        client.socket.transport.abort()
    assert buffered < 1_000_000


async def test_a_refusal_is_no_error_in_the_log(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(ready=False)
    with pytest.raises(InvalidStatus):
        async with connect(server.url, proxy=None):
            pass
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_another_server_has_no_such_socket() -> None:
    with pytest.raises(KeyError, match=EXTENSION):
        CallSocket.of({"extensions": {}})
