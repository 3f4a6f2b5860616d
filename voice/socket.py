"""uvicorn's WebSocket protocol with a short cut for calls.

ASGI hands each message over through a queue and a task switch, and pauses the socket in
between; at 50 messages a second and call that is a third of the server's work. A door that
finds a ``CallSocket`` in its scope takes messages as they are parsed and writes at once. All
else (handshake, ping, close, limits) stays uvicorn's and websockets' own.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Final

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import State

EXTENSION: Final = "antiphon.socket"
"""Where a connection's scope holds its CallSocket, under ``extensions``."""


class CallSocket(WebSocketsSansIOProtocol):
    """One client's connection.

    ``on_message`` is called on the loop with each whole message, text as UTF-8 bytes; it must
    not raise. ``on_writable`` is called when a full transport has room again.
    """

    on_message: Callable[[bytes], None] | None = None
    on_writable: Callable[[], None] | None = None

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

    def write_text(self, message: bytes) -> None:
        """Send a text message now; ``message`` is UTF-8. Of no effect on a closed connection, nor
        on one that the client is closing: messages may stand right before its close."""
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return
        self.conn.send_text(message)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def abort(self) -> None:
        """Drop the connection, unsent data and all: a client that does not read never closes."""
        self.transport.abort()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # a refusal is an answer: uvicorn would log an error

    def handle_ping(self) -> None:
        """Answer, unless the client reads so slowly that answers would pile up."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, object] = self.scope["extensions"]  # type: ignore[assignment]
            extensions[EXTENSION] = self

    def send_receive_event_to_app(self) -> None:
        if self.on_message is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        self.on_message(frames[0] if len(frames) == 1 else b"".join(frames))

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()
