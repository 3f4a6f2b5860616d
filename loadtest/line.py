"""The asyncio shell of one call: a connection, its handshake, and a talker at its end."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import msgspec

from loadtest.habits import Network
from loadtest.talker import Talker
from loadtest.websocket import (
    CLOSE,
    PING,
    TEXT,
    Address,
    Answer,
    Inbox,
    close_frame,
    handshake,
    pong_frame,
)
from loadtest.wires import Wire

ANSWER_S: Final = 15.0
"""A handshake that takes longer has no answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to call, and how."""

    address: Address
    wire: Wire
    headers: Mapping[str, str]


class Refused(Exception):  # noqa: N818 - it is an answer
    """The server did not take the call. ``status`` 0: there was no answer at all."""

    def __init__(self, why: str, status: int = 0, retry_s: float = 1.0) -> None:
        super().__init__(why)
        self.status = status
        self.retry_s = retry_s


class Line(asyncio.Protocol):
    """One connection. ``answered`` is done with the handshake's answer, ``closed`` when the line
    is; ``left`` says that it was the caller who hung up."""

    def __init__(self, target: Target, talker: Talker, network: Network) -> None:
        self.frames = 0
        self.left = False
        self.why = ""
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[Answer] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._target = target
        self._wire = target.wire.leg()
        self._talker = talker
        self._network = network
        self._inbox = Inbox()
        self._open = False
        self._transport: asyncio.Transport | None = None
        talker.send = self._write

    # --- the caller's side --------------------------------------------------------------

    def tick(self, due: float) -> None:
        """Send the frame that is due."""
        frame = self._talker.frame(due)
        if frame is None:
            self.leave(in_mid_word=True)
            return
        self.frames += 1
        if self._network.perfect:
            self._write(frame)
        elif (arrival := self._network.arrival(due)) is not None:
            self._loop.call_later(max(0.0, arrival - time.monotonic()), self._write, frame)

    def leave(self, *, in_mid_word: bool = False) -> None:
        """Hang up: properly, or as a phone that loses its network does."""
        self.left = True
        if self._transport is None:
            return
        if in_mid_word:
            self._transport.abort()
        else:
            self._write(close_frame())
            self._transport.close()

    def _write(self, message: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message)

    # --- the connection -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(handshake(self._target.address, self._target.headers))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(Refused("the server hung up before it answered"))
        self.why = self.why or ("" if exc is None else str(exc))
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self._open:
            self._take_answer(data, now)
            data = b""
        if not self._open:
            return
        for opcode, message in self._inbox.messages(data):
            if opcode == TEXT:
                self._wire.take(message, now, self._talker)
            elif opcode == PING:
                self._write(pong_frame(message))
            elif opcode == CLOSE:
                self._closing(message)

    def _take_answer(self, data: bytes, now: float) -> None:
        answer = self._inbox.answer(data)
        if answer is None or self.answered.done():
            return
        self.answered.set_result(answer)
        self._open = answer.status == 101
        if self._open:
            self._write(self._wire.hello())
            if self._wire.ready_at_once:
                self._talker.ready(now)

    def _closing(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big")
        reason = payload[2:].decode("utf-8", "replace")
        self.why = f"the server closed the call with {code} {reason}".rstrip()
        if self._transport is not None:
            self._transport.close()


async def dial(target: Target, talker: Talker, network: Network) -> tuple[Line, float]:
    """An open line, and how long its answer took (s). Raises Refused."""
    loop, address = asyncio.get_running_loop(), target.address
    context = ssl.create_default_context() if address.secure else None
    began = time.monotonic()
    make = partial(Line, target, talker, network)
    line: Line | None = None
    try:
        async with asyncio.timeout(ANSWER_S):
            _, line = await loop.create_connection(make, address.host, address.port, ssl=context)
            answer = await line.answered
    except TimeoutError:
        if line is not None:
            line.leave(in_mid_word=True)
        raise Refused(f"no answer within {ANSWER_S:.0f} s") from None
    except OSError as error:
        raise Refused(
            f"{address.host}:{address.port} cannot be called: {error.strerror or error}"
        ) from error
    if answer.status != 101:
        line.leave(in_mid_word=True)
        raise _refusal(answer)
    return line, time.monotonic() - began


def _refusal(answer: Answer) -> Refused:
    try:
        error = msgspec.json.decode(answer.body)["error"]
        why = f"{error['code']}: {error['message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        why = answer.body[:200].decode("utf-8", "replace").strip() or "no reason given"
    wait = answer.headers.get("retry-after", "")
    return Refused(why, answer.status, float(wait) if wait.isdigit() else 1.0)
