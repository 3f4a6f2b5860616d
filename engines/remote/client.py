"""The gateway's side: an engine in another process, behind the same port.

One socket carries all requests. When the process ends, falls silent or hangs, all of them fail
at once with ProcessLost; the connection is tried again for as long as this side is open.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import zmq

from engines.ports import EngineError, Load
from engines.remote import wire
from engines.remote.channel import Channel, Disconnected, Outbox, dealer
from engines.remote.spec import Kind, Patience

logger = logging.getLogger(__name__)

_KNOCKS: Final = 20
"""So many times a beat the process is asked in, until it answers."""


class ProcessLost(EngineError):  # noqa: N818 - it says what happened
    """The process ended, or never began this request: another one may answer it."""

    def __init__(self, engine: str, message: str) -> None:
        super().__init__(engine, "unavailable", message)


class RemoteStream(AsyncIterator[Any]):
    """The items of one request. ``close`` must be called, and cancels what is left."""

    def __init__(self, engine: RemoteEngine, number: int, credits: int) -> None:
        self.engine = engine
        self._number = number
        self._arrived: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end: EngineError | StopAsyncIteration | None = None
        self._read = 0
        self._credit_every = max(credits // 2, 1)

    async def __anext__(self) -> Any:
        while not self._arrived:
            if self._end is not None:
                raise self._end
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._read += 1
        if self._read == self._credit_every and self._end is None:
            self.engine.tell(wire.Credit(self._number, self._read))
            self._read = 0
        return self._arrived.popleft()

    def put(self, item: Any) -> None:
        """For the connection: the next item."""
        self._arrived.append(item)
        self._wake()

    def end(self, error: EngineError | None = None) -> None:
        """For the connection: there are no more, because of ``error`` or because it is done."""
        if self._end is None:
            self._end = error or StopAsyncIteration()
            self._wake()

    def close(self) -> None:
        """Nobody reads any more: the engine stops, at once."""
        if self._end is None:
            self.engine.tell(wire.Cancel(self._number))
            self._end = StopAsyncIteration()
        self._arrived.clear()
        self.engine.forget(self._number)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class RemoteEngine:
    """An engine of ``kind`` at a ZeroMQ ``endpoint``; ``name`` is its own in errors and logs.

    ``changed`` is called when it comes or goes.
    """

    def __init__(
        self,
        kind: Kind,
        endpoint: str,
        name: str,
        *,
        context: zmq.Context[zmq.Socket[bytes]],
        patience: Patience | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.endpoint = endpoint
        self.name = name
        self.pid: int | None = None
        self._kind: Kind = kind
        self._patience = patience or Patience()
        self._changed = changed
        self._streams: dict[int, RemoteStream] = {}
        self._opened = 0
        self._welcomed = asyncio.Event()
        self._lost = asyncio.Event()
        self._why_lost = "it has not answered yet"
        self._refusal: str | None = None
        self.leaving = False
        self.forgotten = False
        self._missed = 0
        self._heard_at = 0.0
        self._load = Load()
        self._of_others = 0
        self._context = context
        self._channel: Channel | None = None

    # --- the port -----------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Wait for the process to answer, which it does once its engine is warm.

        Raises EngineError where it refuses, or is not there in time.
        """
        self.connect()
        await self.wait_welcome()

    def open(self, request: Any) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """The port's. Raises EngineError, ProcessLost among them; so does iterating."""
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: Any) -> AsyncGenerator[AsyncIterator[Any], None]:
        stream = self.begin(request)
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        """Let go of the process, which cancels what this side had open."""
        if self._channel is not None:
            self.give_up("the gateway closes")
            self._tick.cancel()
            self._channel.close()
            self._channel = None

    # --- the connection -----------------------------------------------------------------

    def connect(self) -> None:
        """Begin to ask for the process, until ``close``."""
        if self._channel is None:
            self._loop = asyncio.get_running_loop()
            self._channel = Channel(dealer(self._context, self.endpoint), self._receive)
            self._outbox = Outbox(self._send)
            self._beat()

    async def wait_welcome(self) -> None:
        """Until it answers. Raises EngineError where it refuses, or is not there in time."""
        if self.pid is None:
            self._welcomed.clear()  # of a refusal that may be out of date
        try:
            async with asyncio.timeout(self._patience.place_s):
                await self._welcomed.wait()
        except TimeoutError:
            raise ProcessLost(
                self.name,
                f"nothing answers at {self.endpoint} for {self._patience.place_s:g} s: start the "
                "engine process there, or take the endpoint out of the configuration",
            ) from None
        if self._refusal is not None:
            raise EngineError(self.name, "unavailable", self._refusal)

    async def wait_lost(self) -> str:
        """Until it is gone; why."""
        await self._lost.wait()
        return self._why_lost

    @property
    def alive(self) -> bool:
        """Whether it may be asked."""
        return self.pid is not None and not self.leaving

    @property
    def beat_age_s(self) -> float:
        """Since it was last heard of."""
        return self._loop.time() - self._heard_at if self._heard_at else float("inf")

    def load(self) -> Load:
        """As of its last beat, with what this side has opened and closed since."""
        return replace(self._load, busy=self.busy)

    @property
    def busy(self) -> int:
        return self._of_others + len(self._streams)

    @property
    def free(self) -> int | None:
        """Requests it has room for; None where there is no bound."""
        return max(self._load.slots - self.busy, 0) if self._load.slots else None

    # --- requests -----------------------------------------------------------------------

    def begin(self, request: Any) -> RemoteStream:
        """Open ``request``; whoever gets the stream must close it. Raises EngineError."""
        if not self.alive:
            raise ProcessLost(self.name, f"its process is not there: {self._why_lost}")
        self._opened += 1
        number = self._opened
        try:
            message = wire.encode(wire.request_of(self._kind, number, request))
        except ValueError as error:
            raise EngineError(
                self.name, "bad_request", f"the request cannot be sent: {error}"
            ) from error
        self._streams[number] = stream = RemoteStream(self, number, wire.CREDITS[self._kind])
        self._outbox.put(message)
        return stream

    def tell(self, message: wire.FromGateway) -> None:
        """For a stream: what concerns it."""
        self._outbox.put(wire.encode(message))

    def forget(self, number: int) -> None:
        """For a stream: it is closed."""
        self._streams.pop(number, None)

    def give_up(self, why: str) -> None:
        """Fail all that is open and take the process for lost, until it answers again."""
        if self.pid is not None:
            self.pid = None
            self._why_lost = why
            self._welcomed.clear()
            self._lost.set()
            self._load = Load(slots=self._load.slots)  # it will have no more room than it had
            self._of_others = 0
            if self._streams:
                logger.warning("%s: %d requests are lost: %s", self.name, len(self._streams), why)
            for stream in self._streams.values():
                stream.end(ProcessLost(self.name, f"its process is lost: {why}"))
            self._changed()

    # --- messages -----------------------------------------------------------------------

    def _beat(self) -> None:
        """Once a beat: say that this side lives, and count how long the other was silent."""
        patience = self._patience
        if self.pid is None:
            self._hello()
            wait_s = patience.beat_s / (1 if self._refusal else _KNOCKS)
        else:
            self.tell(wire.Alive())
            wait_s = patience.beat_s
            self._missed += 1
            if self._missed > patience.missed_beats:
                self.give_up(f"it was silent for {patience.missed_beats * patience.beat_s:g} s")
        self._tick = self._loop.call_later(wait_s, self._beat)

    def _hello(self) -> None:
        self.tell(wire.Hello(wire.VERSION, self._kind, f"of process {os.getpid()}"))

    def _send(self, packet: bytes) -> None:
        try:
            if self._channel is not None:
                self._channel.send((packet,))
        except Disconnected:
            self.give_up("its socket is closed")

    def _receive(self, frames: Sequence[bytes]) -> None:
        try:
            messages = wire.read_engine(b"".join(frames))
        except wire.Unreadable as error:
            self.give_up(f"what it says {error}")
            return
        for message in messages:
            if isinstance(message, wire.Item):
                self._take(message)
            else:
                self._hear(message)

    def _take(self, message: wire.Item) -> None:
        stream = self._streams.get(message.request)
        if stream is None:  # it was left, and the process does not know yet
            return
        try:
            stream.put(wire.item_in(self._kind, message))
        except wire.Unreadable as error:
            self.tell(wire.Cancel(message.request))
            stream.end(EngineError(self.name, "bad_response", f"an item of its answer {error}"))

    def _hear(self, message: wire.FromEngine) -> None:
        match message:
            case wire.End():
                self._end(message.request, None)
            case wire.Failed():
                error = EngineError(message.engine, message.code, message.message)
                self._end(message.request, error)
            case wire.Declined():
                self._end(message.request, ProcessLost(self.name, message.why))
            case wire.Beat():
                self._note(message)
            case wire.Welcome() | wire.Refused():
                self._settle(message)
            case wire.Stranger():
                self.forgotten = True
                self.give_up("it was started again, or this gateway was silent for too long")
            case wire.Leaving() | wire.Goodbye():
                self._take_leave(message)

    def _end(self, number: int, error: EngineError | None) -> None:
        if stream := self._streams.get(number):
            stream.end(error)

    def _settle(self, answer: wire.Welcome | wire.Refused) -> None:
        if isinstance(answer, wire.Refused):
            self._refusal = answer.why
            self.give_up(answer.why)
        else:
            self._refusal = None
            self.pid = answer.pid
            self.leaving = self.forgotten = False
            self._missed = 0
            self._heard_at = self._loop.time()
            self._lost.clear()
            self._changed()
        self._welcomed.set()

    def _take_leave(self, message: wire.Leaving | wire.Goodbye) -> None:
        self.leaving = True
        self._why_lost = "it is about to end"
        if isinstance(message, wire.Goodbye):
            self.give_up("it has ended in order")
            self.tell(message)
        self._changed()

    def _note(self, beat: wire.Beat) -> None:
        self._missed = 0
        self._heard_at = self._loop.time()
        self._load = beat.load
        self._of_others = max(beat.load.busy - beat.yours, 0)
        if beat.stalled_ms > 1000 * self._patience.stalled_s:
            self.give_up(f"no request got anything for {beat.stalled_ms / 1000:.0f} s: it hangs")
