"""uvicorn's WebSocket protocol with a short cut for calls.

ASGI hands each message over through a queue and a task switch, and pauses the socket in
between; at 50 messages a second and call that is a third of the server's work. A door that
finds a ``CallSocket`` in its scope takes messages as they are parsed and writes at once. All
else (handshake, ping, close, limits) stays uvicorn's and websockets' own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn._types import ASGISendEvent, HTTPScope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import State
from websockets.streams import StreamReader

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

if TYPE_CHECKING:
    import h11

EXTENSION: Final = "antiphon.socket"
"""Where a connection's scope holds its CallSocket, under ``extensions``."""

SLICE_BYTES: Final = 16 * 1024
"""What is taken of one client's data before the others have their turn: uvloop reads up to 8 MB
at once, which may be hundreds of thousands of messages."""

MOST_FRAGMENTS: Final = 4_096
"""A message in more pieces closes the call: each piece costs memory, however small it is."""

_FINAL_TEXT: Final = 0x81
_MASKED_LONG: Final = 0x80 | 126
_LEAST_LONG: Final = 126
"""A frame's first bytes: whole, text; masked, with a length of 16 bits, which is 126 or more."""

_LONG_HEAD: Final = 8
"""Bytes before the payload of such a frame: two, the length, and a mask of four."""

_BETWEEN_FRAMES: Final = StreamReader.at_eof.__code__
"""Where websockets' parser stands when the next byte begins a frame."""

HANDSHAKE_S: Final = 10.0
"""A client that has not made its request, or its next one, by then is cut off."""


AT_ONCE: Final = 4
"""Handshakes in one turn of the loop: each takes a quarter of a millisecond or more."""


class Turnstile:
    """Does a little in each turn of the loop: a crowd at the door holds up nobody who is inside."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._turning = False

    def do(self, work: Callable[[], None]) -> None:
        """Do this, after what came before, in one of the next turns."""
        self._waiting.append(work)
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(AT_ONCE, len(self._waiting))):
            loop.call_soon(self._waiting.popleft())
        self._turning = bool(self._waiting)
        if self._turning:
            loop.call_soon(self._turn)


class DoorstepProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with a bound on how long a client may take over a request: those
    that never finish one would use up the process's file descriptors.

    ``turn_away`` gives the whole answer to a handshake of which no WebSocket shall be made. What a
    connection begins with goes through the ``turnstile``.
    """

    turn_away: Callable[[Any], bytes | None] = staticmethod(lambda _scope: None)
    turnstile: Turnstile
    _has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HANDSHAKE_S, self._leave_unless_asked, self.scope)

    def data_received(self, data: bytes) -> None:
        if self._has_begun:
            super().data_received(data)
            return
        self._has_begun = True
        self.transport.pause_reading()
        self.turnstile.do(partial(self._begin, data))

    def _begin(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        super().data_received(data)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        answer = self.turn_away(self.scope)
        if answer is None:
            super().handle_websocket_upgrade(event)
        else:
            self.connections.discard(self)  # h11 does not know that this is answered
            self.transport.write(answer)
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.loop.call_later(HANDSHAKE_S, self._leave_unless_asked, self.scope)

    def _leave_unless_asked(self, last: HTTPScope | None) -> None:
        if self.scope is last and not self.transport.is_closing():
            self.transport.abort()


class CallSocket(WebSocketsSansIOProtocol):
    """One client's connection.

    ``on_message`` is called on the loop with each whole message, text as UTF-8 bytes; it must
    not raise. ``on_writable`` is called when a full transport has room again.
    """

    on_message: Callable[[bytes], None] | None = None
    on_binary: Callable[[bytes], None] | None = None
    """Is given binary messages in its place, where somebody tells them apart."""
    on_frame: Callable[[], None] | None = None
    """Is called for each ping, pong and later fragment: they cost time as messages do."""
    on_writable: Callable[[], None] | None = None
    heard_at = 0.0
    """When anything last came from the client, the answer to a ping included; loop seconds."""
    _held_until = 0.0

    @classmethod
    def of(cls, scope: MutableMapping[str, Any]) -> CallSocket:
        """The socket behind an ASGI scope. Raises KeyError where the server is another."""
        socket = scope["extensions"][EXTENSION]
        assert isinstance(socket, cls)
        return socket

    @property
    def is_writable(self) -> bool:
        """The transport has room, and the client is there."""
        return self.writable.is_set() and self.conn.state is State.OPEN

    @property
    def unsent(self) -> int:
        """Bytes that the transport keeps."""
        return self.transport.get_write_buffer_size()

    def write_text(self, message: bytes) -> None:
        """Send a text message now; ``message`` is UTF-8. Of no effect on a closed connection, nor
        on one that the client is closing: messages may stand right before its close."""
        self._write(self.conn.send_text, message)

    def write_binary(self, message: bytes) -> None:
        """Send a binary message now, in the same way."""
        self._write(self.conn.send_binary, message)

    def _write(self, send: Callable[[bytes], None], message: bytes) -> None:
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return
        send(message)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def hold(self, seconds: float) -> None:
        """Read no more for so long: what the client sends meanwhile waits where it is."""
        self._held_until = self.loop.time() + seconds

    def abort(self) -> None:
        """Drop the connection, unsent data and all: a client that does not read never closes."""
        self.transport.abort()

    def data_received(self, data: bytes | memoryview) -> None:
        """Take what came a slice at a time, and read no more until all is taken."""
        self.heard_at = self.loop.time()
        if self.on_message is not None and (message := self._only_message(data)) is not None:
            self.on_message(message)
            if self._held_until:
                self._read_on_later(memoryview(b""))
            return
        super().data_received(bytes(data[:SLICE_BYTES]))
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))  # it tells why
            self.transport.close()
        if self.transport.is_closing():
            return
        if len(data) > SLICE_BYTES or self._held_until:
            self._read_on_later(memoryview(data)[SLICE_BYTES:])
        elif isinstance(data, memoryview) and not self.read_paused:  # the last of several slices
            self.transport.resume_reading()

    def _read_on_later(self, rest: memoryview) -> None:
        """Take the rest in the next turn of the loop, or once the client is not held any more."""
        self.transport.pause_reading()
        held_until, self._held_until = self._held_until, 0.0
        if held_until:
            self.loop.call_at(held_until, self._read_on, rest)
        else:
            self.loop.call_soon(self._read_on, rest)

    def _read_on(self, rest: memoryview) -> None:
        if not self.transport.is_closing():  # a client that has gone is answered no pings
            self.data_received(rest)

    def _only_message(self, data: bytes | memoryview) -> bytes | None:
        """The message, where ``data`` is one whole text frame and nothing else, as nearly all of a
        call's audio is; None leaves it to websockets, which takes twice as long (RFC 6455, 5.2)."""
        size = len(data) - _LONG_HEAD
        if not isinstance(data, bytes) or size < _LEAST_LONG or data[0] != _FINAL_TEXT:
            return None
        if data[1] != _MASKED_LONG or int.from_bytes(data[2:4], "big") != size:
            return None
        conn = self.conn
        if conn.current_size is not None or conn.state is not State.OPEN:
            return None
        if not _is_between_frames(conn.parser):
            return None
        if self.close_sent or size > min(SLICE_BYTES, conn.max_message_size or SLICE_BYTES):
            return None
        return apply_mask(data[_LONG_HEAD:], data[4:_LONG_HEAD])

    async def send(self, message: ASGISendEvent) -> None:
        if not self.handshake_complete and self.transport.is_closing():
            raise ClientDisconnected  # answered by a shutdown: a second answer would be a bug
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # a refusal is an answer: uvicorn would log an error
        if message["type"] == "websocket.close" and self.close_timer is not None:
            # To close, as uvicorn would, waits for all to be sent: for ever, if nobody is there.
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.abort)

    def handle_ping(self) -> None:
        """Answer, unless the client reads so slowly that answers would pile up."""
        self._count()
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_pong(self, event: Frame) -> None:
        self._count()
        super().handle_pong(event)

    def _count(self) -> None:
        if self.on_frame is not None:
            self.on_frame()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, object] = self.scope["extensions"]  # type: ignore[assignment]
            extensions[EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        if self.close_sent:
            return
        self._count()
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MOST_FRAGMENTS} fragments")
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        if self.on_message is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        is_text = self.curr_msg_data_type == "text" or self.on_binary is None
        take = self.on_message if is_text else self.on_binary
        assert take is not None, "one that is not there is never chosen"
        take(frames[0] if len(frames) == 1 else b"".join(frames))

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()


def _is_between_frames(parser: Any) -> bool:
    """Whether a parser of websockets waits for the first byte of a frame."""
    while (inner := parser.gi_yieldfrom) is not None:
        parser = inner
    return parser.gi_code is _BETWEEN_FRAMES
