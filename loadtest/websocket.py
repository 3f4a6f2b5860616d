"""A WebSocket client that costs next to nothing, so that what is measured is the server.

The mask of what it sends is zero, which RFC 6455 (5.3) allows and which leaves the payload as it
is: a message is made once and sent by any number of callers. No extension is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from clients.addresses import websocket_of

TEXT: Final = 1
CLOSE: Final = 8
PING: Final = 9
_PONG: Final = 10
_FINAL: Final = 0x80
_KEY: Final = "YW50aXBob24gbG9hZHRlcw=="


class AddressError(Exception):
    """What was given is no address of a WebSocket; the message says what one looks like."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: ``path`` with its query, ``secure`` for TLS."""

    host: str
    port: int
    path: str
    secure: bool = False

    @property
    def http(self) -> str:
        """The same server by HTTP, without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def address_of(url: str, path: str = "/v1/realtime") -> Address:
    """What a person writes as a server's address, completed by ``clients.addresses``.

    Raises AddressError.
    """
    try:
        parts = websocket_of(url, path)
    except ValueError as error:
        raise AddressError(f"{url} is no address: write it as ws://HOST:PORT{path}") from error
    secure = parts.scheme == "wss"
    query = f"?{parts.query}" if parts.query else ""
    port = parts.port or (443 if secure else 80)
    return Address(str(parts.hostname), port, parts.path + query, secure)


def handshake(address: Address, headers: Mapping[str, str]) -> bytes:
    """The request that opens a WebSocket."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [
        f"GET {address.path} HTTP/1.1",
        f"Host: {host}:{address.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {_KEY}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def text_frame(message: bytes) -> bytes:
    """A text message of the client's as it goes over the line."""
    return _frame(TEXT, message)


def pong_frame(payload: bytes) -> bytes:
    """The answer to a ping."""
    return _frame(_PONG, payload)


def close_frame() -> bytes:
    """A client's proper leave (1000)."""
    return _frame(CLOSE, struct.pack("!H", 1000))


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", _FINAL | opcode, 0x80 | size)
    elif size < 65_536:
        head = struct.pack("!BBH", _FINAL | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", _FINAL | opcode, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload


@dataclass(slots=True)
class Answer:
    """What a server said to the handshake. ``body`` may be cut off."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Inbox:
    """Bytes of a server, cut into messages. Masked or fragmented frames of control are no
    concern of a client's; a fragmented message is put together."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] = []

    def answer(self, data: bytes) -> Answer | None:
        """Feed until the handshake is answered: None while it is not. What follows the answer
        stays here for ``messages``."""
        self._buffer += data
        head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not found:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get("content-length", "")
        if status != 101 and length.isdigit() and len(rest) < int(length):
            return None
        self._buffer = bytearray(rest)
        return Answer(status, headers, b"" if status == 101 else rest)

    def messages(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Opcode and payload of each message that is now complete."""
        buffer, start = self._buffer, 0
        buffer += data
        while (frame := _read(buffer, start)) is not None:
            head, payload, start = frame
            if head & 0x0F >= CLOSE:
                yield head & 0x0F, payload
                continue
            if head & _FINAL and not self._parts:
                yield TEXT, payload
                continue
            self._parts.append(payload)
            if head & _FINAL:
                whole, self._parts = b"".join(self._parts), []
                yield TEXT, whole
        del buffer[:start]


def _read(buffer: bytearray, start: int) -> tuple[int, bytes, int] | None:
    """First byte and payload of the frame at ``start``, and where it ends; None: not whole yet."""
    there = len(buffer) - start
    if there < 2:
        return None
    size, head = buffer[start + 1] & 0x7F, 2
    if size >= 126:
        head = 4 if size == 126 else 10
        if there < head:
            return None
        size = int.from_bytes(buffer[start + 2 : start + head], "big")
    if there < head + size:
        return None
    end = start + head + size
    return buffer[start], bytes(buffer[start + head : end]), end
