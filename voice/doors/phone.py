"""The phone door: carriers' WebSockets. ``/phone`` finds out whose it is, ``/phone/NAME`` is told.

What a carrier asks for is answered before anybody is let in, for the call is there already: who
cannot be let in hears the busy tone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from starlette.datastructures import Headers

from voice.auth import KEY_SUBPROTOCOL
from voice.doors.connection import Receive, Send, close
from voice.doors.handshake import Scope, asks_for_recording
from voice.doors.phone_access import Access, judge
from voice.doors.phone_call import serve_leg
from voice.doors.phone_leg import Leg
from voice.doors.refusals import Answer
from voice.house import House
from voice.rates import Bucket
from voice.socket import CallSocket
from voice.wire.phone import Message, PhoneCodec, PhoneWireError
from voice.wire.phone_wires import WIRES, detect

logger = logging.getLogger(__name__)

PATHS: Final = ("/phone", "/phone/{wire}", "/phone/{wire}/{key}")
ANY: Final = "any"
"""Stands for the name of a wire that is to be found out, where a key follows it."""

START_S: Final = 10.0
"""A carrier that has not said by then what call this is has none."""

_BURST_S: Final = 2.0
"""Of messages may come at once: a network that was held up brings them all together."""
_MOST_FIRST: Final = 2
"""Messages after which a wire is known, or is none of ours."""
_OVER, _MISBEHAVED, _STRANGER, _BUG = 1000, 1002, 1008, 1011


class PhoneDoor:
    """An ASGI application for ``PATHS``."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake, which is in the scope
        wire = scope.get("path_params", {}).get("wire", ANY)
        wire = None if wire == ANY else wire
        if wire is not None and wire not in WIRES:
            told = f"There is no phone wire of this name. Known: {', '.join(sorted(WIRES))}."
            await Answer(404, "unknown_wire", told).response()(scope, receive, send)
            return
        judged = judge(self._house, scope, wire)
        if isinstance(judged, Answer):
            await judged.response()(scope, receive, send)
            return
        await self._answer(judged, wire, scope, receive, send)

    async def _answer(
        self, access: Access, wire: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        socket, phone = CallSocket.of(scope), self._house.config.phone
        leg = Leg(
            SocketLine(socket),
            _finder(wire),
            quiet_ms=phone.digits_quiet_ms,
            send_ahead=phone.send_ahead,
            tell_late=self._house.metrics.phone_lateness.observe,
        )
        pace = self._house.config.server.messages_per_s
        with _connected(socket, leg, receive, pace):
            await _accept(scope, send)
            code = await self._serve(leg, access, scope)
        if not socket.disconnected:
            await close(send, socket, code)

    async def _serve(self, leg: Leg, access: Access, scope: Scope) -> int:
        """The code that the connection is to be closed with."""
        code = _OVER
        try:
            await leg.wait_begun(START_S)
            if leg.started.done() and leg.codec is not None:
                code = await self._admit(leg, leg.codec.name, access, scope)
            elif leg.ended.done():
                logger.log(leg.log_level, "a connection was no phone call: %s", leg.ended.result())
            else:
                leg.end(f"the carrier has not said within {START_S:.0f} s what call this is")
                leg.misbehaved = True
        except* Exception:
            logger.exception("a phone call ended by a bug")
            code = _BUG
        finally:
            leg.close()
        return _MISBEHAVED if leg.misbehaved and code == _OVER else code

    async def _admit(self, leg: Leg, wire: str, access: Access, scope: Scope) -> int:
        caller = access.caller_for(wire)
        if caller is None:
            logger.warning("a call over %s has not shown that it may", wire)
            self._house.metrics.calls_opened.labels("refused").inc()
            return _STRANGER
        headers, record = Headers(scope=scope), asks_for_recording(scope)
        await serve_leg(self._house, leg, caller, headers, record=record)
        return _OVER


class SocketLine:
    """A WebSocket as a ``PhoneLine``."""

    def __init__(self, socket: CallSocket) -> None:
        self._socket = socket

    @property
    def heard_at(self) -> float:
        return self._socket.heard_at

    @property
    def is_writable(self) -> bool:
        return self._socket.is_writable

    @property
    def unsent(self) -> int:
        return self._socket.unsent

    def write(self, message: Message) -> None:
        if isinstance(message, str):
            self._socket.write_text(message.encode())
        else:
            self._socket.write_binary(message)

    def abort(self) -> None:
        self._socket.abort()


def _finder(wire: str | None) -> Callable[[Sequence[Message]], PhoneCodec | None]:
    """Which codec: that of the wire, or of whoever begins like this."""

    def find(first: Sequence[Message]) -> PhoneCodec | None:
        name = wire or detect(first)
        if name is None and len(first) >= _MOST_FIRST:
            raise PhoneWireError(
                f"No carrier begins like this: {str(first[0])[:80]!r}. Point it at /phone/NAME."
            )
        return WIRES[name]() if name is not None else None

    return find


@contextmanager
def _connected(
    socket: CallSocket, leg: Leg, receive: Receive, messages_per_s: float
) -> Iterator[None]:
    """Messages go straight from the parser to the leg, and it learns when the line is gone. Who
    sends more than anyone speaks waits, so that others need not."""
    bucket, now = Bucket(_BURST_S * messages_per_s, messages_per_s), socket.loop.time

    def spend() -> None:
        if wait_s := bucket.spend(1, now()):
            socket.hold(wait_s)

    def take(message: Message) -> None:
        spend()
        leg.take(message)

    socket.on_message = lambda message: take(message.decode("utf-8", "replace"))
    socket.on_binary = take
    socket.on_writable, socket.on_frame = leg.pump, spend
    gone = asyncio.ensure_future(receive())  # messages take the short cut
    gone.add_done_callback(lambda _: leg.end("the line is gone"))
    try:
        yield
    finally:
        gone.cancel()
        socket.on_message = socket.on_binary = socket.on_writable = socket.on_frame = None


async def _accept(scope: Scope, send: Send) -> None:
    """With the subprotocol that was offered, if any: some hang up without."""
    accept: dict[str, Any] = {"type": "websocket.accept"}
    offered = [name for name in scope["subprotocols"] if not name.startswith(KEY_SUBPROTOCOL)]
    if offered:
        accept["subprotocol"] = offered[0]
    await send(accept)
