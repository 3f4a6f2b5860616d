"""A Realtime client's WebSocket: its messages go to a listener, and what waits for it goes out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from voice.doors.connection import Send
from voice.doors.handshake import Scope
from voice.doors.outbox import Outbox
from voice.doors.realtime_listener import RealtimeListener
from voice.rates import Bucket
from voice.socket import CallSocket

SUBPROTOCOL: Final = "realtime"

_BURST_S: Final = 4.0
"""So much of what a client may send it may send at once: a minute and more of its speech."""

_LARGE_BYTES: Final = 16 * 1024
"""What is longer takes as long to read as two messages, or more."""


def id_source() -> Callable[[str], str]:
    """Ids that are unique over all calls, by the prefix, and readable in one call's log."""
    prefix, numbers = uuid4().hex[:12], itertools.count(1)
    return lambda kind: f"{kind}_{prefix}{next(numbers):04d}"


async def accept(scope: Scope, send: Send) -> None:
    """Take the handshake, with the subprotocol where it was offered."""
    message: dict[str, Any] = {"type": "websocket.accept"}
    if SUBPROTOCOL in scope["subprotocols"]:
        message["subprotocol"] = SUBPROTOCOL
    await send(message)


@contextmanager
def connected(
    socket: CallSocket,
    crash: Callable[[Exception], None],
    listener: RealtimeListener,
    outbox: Outbox,
    messages_per_s: float,
) -> Iterator[None]:
    """Messages go straight from the parser to the call, and what waits goes straight out. Both
    run between other calls' work: what they raise goes to ``crash``, and to no other call. A client
    that sends more than anyone speaks waits, so that others need not."""
    bucket, now = Bucket(_BURST_S * messages_per_s, messages_per_s), socket.loop.time

    def spend(cost: float = 1.0) -> None:
        if wait_s := bucket.spend(cost, now()):
            socket.hold(wait_s)

    def take(message: bytes) -> None:
        spend(1 + len(message) / _LARGE_BYTES)
        try:
            listener.take(message)
        except Exception as bug:  # noqa: BLE001 - handed to the call, which raises it
            crash(bug)

    def flush() -> None:
        try:
            outbox.flush()
        except Exception as bug:  # noqa: BLE001 - handed to the call, which raises it
            crash(bug)

    socket.on_message, socket.on_writable, socket.on_frame = take, flush, spend
    try:
        yield
    finally:
        socket.on_message = socket.on_writable = socket.on_frame = None
