"""The short cut past ASGI: messages as they are parsed, writes at once, and bounded in all."""

import asyncio
import random
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from voice.server import _uvicorn_config
from voice.socket import AT_ONCE, EXTENSION, MOST_FRAGMENTS, SLICE_BYTES, CallSocket, Turnstile

LONG = "x" * 9_000
HANDSHAKE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YW50aXBob24gbG9hZHRlcw==\r\n\r\n"
)


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


def frames_of(draw: random.Random, count: int) -> list[bytes]:
    """Frames as a client may send them: text long and short, whole and in fragments, pings."""
    made = []
    for number in range(count):
        text = f"{number} ü ".encode() * draw.choice([1, 20, 100, 1_600])
        kind = draw.choice(["text", "text", "text", "fragments", "ping"])
        frames = [Frame(Opcode.TEXT, text)]
        if kind == "fragments":
            middle = [Frame(Opcode.CONT, text, fin=False), Frame(Opcode.PING, b"?")]
            frames = [Frame(Opcode.TEXT, text, fin=False), *middle, Frame(Opcode.CONT, b"end")]
        elif kind == "ping":
            frames = [Frame(Opcode.PING, text[:100])]
        made += [frame.serialize(mask=True) for frame in frames]
    return made


@pytest.mark.parametrize("seed", range(5))
async def test_however_messages_are_cut_into_packets_they_are_the_same(
    serve: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A packet that is one message is read at once, all others by websockets' parser."""
    draw = random.Random(seed)
    frames = frames_of(draw, 60)
    data, packets = b"".join(frames), list(frames)
    for _ in range(30):  # some cut anywhere, some joined, most as they are
        at = draw.randrange(len(packets))
        if len(packets[at]) > 1 and draw.random() < 0.7:
            cut = draw.randrange(1, len(packets[at]))
            packets[at : at + 1] = [packets[at][:cut], packets[at][cut:]]
        else:
            packets[at : at + 2] = [b"".join(packets[at : at + 2])]

    async def received(packets: list[bytes]) -> list[bytes]:
        server = await serve()
        async with server.call() as client:
            got: list[bytes] = []
            socket = socket_of(server)
            socket.on_message = got.append
            for packet in packets:
                socket.data_received(packet)
            assert client.socket.close_code is None
        return got

    at_once: list[bytes | None] = []
    only = CallSocket._only_message

    def noted(self: CallSocket, data: bytes) -> bytes | None:
        at_once.append(only(self, data))
        return at_once[-1]

    monkeypatch.setattr(CallSocket, "_only_message", noted)
    got = await received(packets)
    assert any(at_once), "none took the short way"
    assert not all(at_once)
    monkeypatch.setattr(CallSocket, "_only_message", lambda *_: None)
    assert got == await received([data])


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


async def test_a_client_that_does_not_answer_a_close_is_cut_off(
    serve: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted = []
    abort = CallSocket.abort
    monkeypatch.setattr(CallSocket, "abort", lambda self: (aborted.append(self), abort(self)))
    server = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"session.created")
    socket = socket_of(server)
    socket.close_timeout = 0.01
    await socket.send({"type": "websocket.close", "code": 1000, "reason": ""})
    await eventually(lambda: not server.connections)
    assert aborted == [socket]
    writer.transport.abort()


async def test_the_answer_to_a_ping_is_a_sign_of_life(serve: Any, eventually: Any) -> None:
    server = await serve()
    async with server.call():
        socket = socket_of(server)
        socket.heard_at = 0.0
        socket.send_keepalive_ping()
        await eventually(lambda: socket.heard_at > 0)


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
        socket.on_frame = None  # they would wait otherwise
        client.socket.transport.pause_reading()
        ping = Frame(Opcode.PING, b"x" * 125)
        for _ in range(200):
            client.socket.transport.write(ping.serialize(mask=True) * 500)
            await eventually(lambda: not client.socket.transport.get_write_buffer_size())
        buffered = socket.transport.get_write_buffer_size()
        client.socket.transport.abort()
    assert buffered < 1_000_000


async def test_a_flood_lets_the_others_have_their_turn(serve: Any, eventually: Any) -> None:
    """All of it is there before the loop reads it: uvloop and asyncio hand over what they find."""
    server = await serve()
    async with server.call():
        socket, taken = socket_of(server), [0]
        socket.on_message = lambda _: taken.append(taken.pop() + 1)
        flood = Frame(Opcode.TEXT, b"{}").serialize(mask=True) * 20_000
        socket.data_received(flood)
        assert taken[0] <= SLICE_BYTES / 8
        await eventually(lambda: taken[0] == 20_000)


async def test_a_message_in_too_many_fragments_closes_the_call(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        piece = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)
        begin = Frame(Opcode.TEXT, b"{", fin=False).serialize(mask=True)
        client.socket.transport.write(begin + piece * (MOST_FRAGMENTS + 100))
        await client.socket.wait_closed()
        assert client.socket.close_code == 1009
    await server.is_empty()


@pytest.mark.parametrize(
    "request_line", [f"/{'x' * 9_000}", f"/ HTTP/1.1\r\nX: {'x' * 9_000}\r\nY: "]
)
async def test_a_handshake_that_is_too_long_is_answered(serve: Any, request_line: str) -> None:
    server = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    headers = "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    writer.write(f"GET {request_line} HTTP/1.1\r\n{headers}".encode())
    async with asyncio.timeout(5):
        assert (await reader.read()).startswith(b"HTTP/1.1 4")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
async def test_a_client_that_never_finishes_its_request_is_cut_off(
    serve: Any, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr("voice.socket.HANDSHAKE_S", 0.05)
    server = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
    writer.write(said)
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


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


# --- the doorstep ---------------------------------------------------------------------------


async def test_a_crowd_is_let_through_a_few_at_a_time_in_its_order() -> None:
    turnstile, done, seen = Turnstile(), list[int](), list[int]()
    for number in range(10):
        turnstile.do(partial(done.append, number))
    while len(done) < 10:
        await asyncio.sleep(0)
        seen.append(len(done))
    assert done == list(range(10))
    assert max(after - before for before, after in pairwise([0, *seen])) == AT_ONCE
    turnstile.do(partial(done.append, 10))  # it turns again
    for _ in range(3):
        await asyncio.sleep(0)
    assert done[-1] == 10


async def test_one_who_stumbles_at_the_door_does_not_block_it() -> None:
    turnstile, done, told = Turnstile(), list[int](), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    turnstile.do(lambda: 1 / 0)
    for number in range(AT_ONCE):
        turnstile.do(partial(done.append, number))
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == list(range(AT_ONCE))
    assert isinstance(told[0]["exception"], ZeroDivisionError)


@pytest.mark.parametrize("cuts", [[1], [20], [60, 61], list(range(1, 120, 7))])
async def test_a_handshake_may_come_in_pieces(serve: Any, cuts: list[int]) -> None:
    server = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for start, stop in pairwise([0, *cuts, len(HANDSHAKE)]):
        writer.write(HANDSHAKE[start:stop])
        await asyncio.sleep(0)
    assert (await reader.readline()).startswith(b"HTTP/1.1 101")
    writer.transport.abort()


async def test_who_goes_in_the_crowd_is_not_answered(serve: Any, eventually: Any) -> None:
    server = await serve()
    writers = []
    for _ in range(3 * AT_ONCE):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        writers.append(writer)
    for writer in writers:
        writer.transport.abort()
    await eventually(lambda: not server.connections)
    await server.assert_works()


async def test_who_was_turned_away_is_none_of_those_whom_a_shutdown_waits_for(serve: Any) -> None:
    server = await serve()
    config = _uvicorn_config(server.house)
    config.load()
    state = ServerState()
    doorstep: Any = config.http_protocol_class(config=config, server_state=state, app_state={})
    transport = FakeTransport()
    doorstep.connection_made(transport)
    assert state.connections == {doorstep}
    server.house.closing = True
    doorstep.data_received(HANDSHAKE)
    for _ in range(3):
        await asyncio.sleep(0)
    assert transport.sent.startswith(b"HTTP/1.1 503")
    assert transport.closing
    assert state.connections == set()
    doorstep.connection_lost(None)
    server.house.closing = False


class FakeTransport:
    """Takes what is sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def test_who_is_held_is_read_no_further_and_loses_nothing(
    serve: Any, eventually: Any
) -> None:
    """Whatever comes in one packet: whole slices, the rest of one, and the short cut."""
    server = await serve()
    async with server.call() as client:
        socket = socket_of(server)
        got: list[bytes] = []

        def take(message: bytes) -> None:
            got.append(message)
            if len(got) in (1, 5):
                socket.hold(0.05)

        socket.on_message = take
        loop = asyncio.get_running_loop()
        began = loop.time()
        frames = [Frame(Opcode.TEXT, f"{n} {'x' * 9_000}".encode()).serialize(mask=True)
                  for n in range(8)]  # fmt: skip
        socket.data_received(b"".join(frames))
        assert 1 <= len(got) < 4
        await eventually(lambda: len(got) == 8)
        assert loop.time() - began >= 0.1
        assert [int(message.split()[0]) for message in got] == list(range(8))
        socket.hold(0.05)
        socket.data_received(Frame(Opcode.TEXT, b"y" * 200).serialize(mask=True))
        assert not socket.transport.is_reading()
        await eventually(socket.transport.is_reading)
        await client.socket.send("last")
        await eventually(lambda: got[-1] == b"last")
        assert len(got) == 10


async def test_pings_pongs_and_fragments_are_told_of(serve: Any) -> None:
    server = await serve()
    async with server.call():
        socket, told = socket_of(server), list[int]()
        socket.on_message = lambda _: None
        socket.on_frame = lambda: told.append(1)
        for frame in (
            Frame(Opcode.PING, b"?"), Frame(Opcode.PONG, b"!"), Frame(Opcode.TEXT, b"whole"),
            Frame(Opcode.TEXT, b"in", fin=False), Frame(Opcode.CONT, b" "), Frame(Opcode.PING, b""),
        ):  # fmt: skip
            socket.data_received(frame.serialize(mask=True))
        assert len(told) == 4


async def test_of_a_client_that_has_gone_nothing_more_is_taken(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    async with server.call():
        socket, taken = socket_of(server), list[Any]()
        monkeypatch.setattr(socket, "data_received", taken.append)
        for gone in (False, True):
            if gone:
                socket.transport.abort()
            socket._read_on(memoryview(b"the rest"))
            assert len(taken) == 1
