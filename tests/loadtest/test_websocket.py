import pytest
from websockets.frames import Opcode
from websockets.server import ServerProtocol

from loadtest.websocket import (
    CLOSE,
    PING,
    TEXT,
    AddressError,
    Inbox,
    address_of,
    close_frame,
    handshake,
    pong_frame,
    text_frame,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "secure"),
    [
        ("ws://there:8080/v1/realtime", "there", 8080, "/v1/realtime", False),
        ("http://there:8080", "there", 8080, "/v1/realtime", False),
        ("wss://there/", "there", 443, "/v1/realtime", True),
        ("ws://there:1/x?record=1", "there", 1, "/x?record=1", False),
        ("ws://[::1]:8080", "::1", 8080, "/v1/realtime", False),
    ],
)
def test_addresses_are_read_as_people_write_them(url, host, port, path, secure):
    address = address_of(url)
    assert (address.host, address.port, address.path, address.secure) == (host, port, path, secure)


@pytest.mark.parametrize("url", ["", "there:port", "ftp://there", "ws://", "ws://there:99999"])
def test_what_is_no_address_is_told_what_one_looks_like(url):
    with pytest.raises(AddressError, match="ws://HOST:PORT/v1/realtime"):
        address_of(url)


def test_a_server_by_http():
    assert address_of("wss://there:8443/v1/realtime").http == "https://there:8443"
    assert address_of("ws://[::1]:80").http == "http://[::1]:80"


def server_with(data: bytes) -> ServerProtocol:
    server = ServerProtocol()
    server.receive_data(data)
    return server


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_real_server_reads_what_is_sent(size):
    request = handshake(address_of("ws://there:80"), {"Authorization": "Bearer key"})
    server = server_with(request)
    [asked] = server.events_received()
    assert asked.headers["Authorization"] == "Bearer key"
    server.send_response(server.accept(asked))
    server.receive_data(text_frame(b"x" * size))
    [frame] = server.events_received()
    assert (frame.opcode, len(frame.data)) == (Opcode.TEXT, size)
    server.receive_data(pong_frame(b"p") + close_frame())
    opcodes = [event.opcode for event in server.events_received()]
    assert opcodes == [Opcode.PONG, Opcode.CLOSE]


def test_what_a_real_server_sends_is_read_byte_by_byte():
    server = server_with(handshake(address_of("ws://there:80"), {}))
    [asked] = server.events_received()
    server.send_response(server.accept(asked))
    server.send_text(b"short")
    server.send_ping(b"ping")
    server.send_text(b"y" * 70_000)
    server.send_text(b"in ", fin=False)
    server.send_continuation(b"pieces", fin=True)
    server.send_close(1001, "away")
    inbox, answer, read = Inbox(), None, []
    for byte in b"".join(server.data_to_send()):
        if answer is None:
            answer = inbox.answer(bytes([byte]))
        else:
            read += inbox.messages(bytes([byte]))
    assert answer.status == 101
    assert read[:2] == [(TEXT, b"short"), (PING, b"ping")]
    assert read[2][1] == b"y" * 70_000
    assert read[3:] == [(TEXT, b"in pieces"), (CLOSE, b"\x03\xe9away")]


def test_a_refusal_is_read_with_its_whole_body():
    inbox = Inbox()
    head = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 4\r\n\r\n"
    assert inbox.answer(head + b"fu") is None
    answer = inbox.answer(b"ll")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


def test_nonsense_is_no_answer():
    assert Inbox().answer(b"SSH-2.0\r\n\r\n").status == 0
