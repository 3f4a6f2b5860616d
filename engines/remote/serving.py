"""The engine's side: one warm engine served to any number of gateways over one socket.

Each request is a task, and each may be as many items ahead of its reader as it has credits: a
gateway that stops reading holds its requests back and nobody else's. What a gateway has open
ends when it goes away, falls silent or talks nonsense.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import zmq

from engines.ports import Engine, EngineError, Load, Measured
from engines.remote import wire
from engines.remote.channel import Channel, Disconnected, Outbox, router
from engines.remote.endpoints import obstacle
from engines.remote.spec import ProcessSpec

logger = logging.getLogger(__name__)

MOST_REQUESTS: Final = 1024
"""Open at once, of all gateways together."""

_FAREWELL_S: Final = 1.0


class _Gateway:
    """One that said Hello: its requests, and how many beats it has been silent for."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        self.name = name
        self.answers: dict[int, _Answer] = {}
        self.missed = 0
        self._outbox = outbox

    def tell(self, message: wire.FromEngine) -> None:
        self._outbox.put(wire.encode(message))


class _Answer:
    """A request that is open: its task, and how many items may still go."""

    def __init__(self, credits: int) -> None:
        self.credits = credits
        self._more = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.unwanted = False

    def add(self, credits: int) -> None:
        self.credits += credits
        self._more.set()

    async def wait_credit(self) -> None:
        while self.credits <= 0:
            self._more.clear()
            await self._more.wait()

    def cancel(self) -> None:
        self.unwanted = True
        if self.task is not None:
            self.task.cancel()


class EngineServer:
    """Serves ``engine``, which is warm, at the endpoint of ``spec``."""

    def __init__(self, engine: Engine[Any, Any], spec: ProcessSpec) -> None:
        self._engine = engine
        self._spec = spec
        self._gateways: dict[bytes, _Gateway] = {}
        self._answers: set[_Answer] = set()
        self._waiting: set[_Answer] = set()  # for the model, not for credit
        self._idle_beats = 0
        self._leaving = False
        self._departed = asyncio.Event()

    async def serve(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Until ``stop``; then what is open may end, for as long as the spec allows. ``ready``
        is called once the socket is bound.

        Raises EngineError where it cannot be.
        """
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            socket = self._listen(context)
        except BaseException:
            context.term()
            raise
        self._channel = Channel(socket, self._receive)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                beating = tasks.create_task(self._beat())
                ready()
                await stop.wait()
                await self._drain()
                beating.cancel()
        finally:
            self._channel.close()
            context.term()

    def _listen(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        endpoint = self._spec.endpoint
        why, cause = obstacle(endpoint), None
        if not why:
            try:
                return router(context, endpoint)
            except zmq.ZMQError as error:
                why, cause = str(error), error
        told = f"cannot listen at {endpoint}: {why}: choose another endpoint"
        raise EngineError(self._spec.engine.name, "failed", told) from cause

    @property
    def load(self) -> Load:
        """The engine's own word, or else the requests that are open."""
        if isinstance(self._engine, Measured):
            return self._engine.load()
        return Load(busy=len(self._answers))

    async def _drain(self) -> None:
        self._leaving = True
        for gateway in self._gateways.values():
            gateway.tell(wire.Leaving())
        tasks = [answer.task for answer in self._answers if answer.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._spec.patience.drain_s)
        for answer in self._answers:
            answer.cancel()
        for gateway in self._gateways.values():
            gateway.tell(wire.Goodbye())
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                while self._gateways:
                    self._departed.clear()
                    await self._departed.wait()

    # --- gateways -----------------------------------------------------------------------

    def _receive(self, frames: Sequence[bytes]) -> None:
        identity = frames[0]
        try:
            messages = wire.read_gateway(b"".join(frames[1:]))
        except wire.Unreadable as error:
            logger.warning("a gateway is refused: what it says %s", error)
            self._refuse(identity, f"what the gateway says {error}")
            return
        for message in messages:
            self._hear(identity, message)

    def _hear(self, identity: bytes, message: wire.FromGateway) -> None:
        gateway = self._gateways.get(identity)
        if isinstance(message, wire.Hello):
            if not self._leaving:
                self._greet(identity, message)
        elif gateway is None:
            self._tell(identity, wire.Stranger())
        elif isinstance(message, wire.Goodbye):
            self._forget(identity, "it has said goodbye")
        else:
            gateway.missed = 0
            self._obey(gateway, message)

    def _obey(self, gateway: _Gateway, message: wire.FromGateway) -> None:
        if isinstance(message, wire.Open):
            self._open(gateway, message)
        elif isinstance(message, wire.Credit | wire.Cancel):
            answer = gateway.answers.get(message.request)
            if answer is None:  # it has ended, and the gateway does not know yet
                return
            if isinstance(message, wire.Credit):
                answer.add(message.more)
            else:
                answer.cancel()

    def _greet(self, identity: bytes, hello: wire.Hello) -> None:
        self._forget(identity, "it started anew")
        why = self._objection(hello)
        if why:
            self._refuse(identity, why)
            return
        outbox = Outbox(lambda packet: self._send(identity, packet))
        self._gateways[identity] = gateway = _Gateway(hello.gateway, outbox)
        spec = self._spec
        gateway.tell(wire.Welcome(spec.engine.name, spec.place, os.getpid()))
        gateway.tell(wire.Beat(self.load, 0, 0.0))  # a Welcome alone says nothing of slots

    def _objection(self, hello: wire.Hello) -> str:
        if hello.version != wire.VERSION:
            return (
                f"the engine process speaks protocol {wire.VERSION} and the gateway "
                f"{hello.version}: run the same release of both"
            )
        if hello.kind != self._spec.engine.kind:
            return (
                f"{self._spec.endpoint} serves {self._spec.engine.kind} and the gateway wants "
                f"{hello.kind}: give it the endpoint of another engine"
            )
        return ""

    def _refuse(self, identity: bytes, why: str) -> None:
        self._forget(identity, why)
        self._tell(identity, wire.Refused(why))

    def _forget(self, identity: bytes, why: str) -> None:
        gateway = self._gateways.pop(identity, None)
        self._departed.set()
        if gateway is not None:
            if gateway.answers:
                logger.warning(
                    "gateway %s: %d requests are cancelled: %s",
                    gateway.name,
                    len(gateway.answers),
                    why,
                )
            for answer in gateway.answers.values():
                answer.cancel()

    def _tell(self, identity: bytes, message: wire.FromEngine) -> None:
        self._send(identity, wire.pack([wire.encode(message)]))

    def _send(self, identity: bytes, packet: bytes) -> None:
        try:
            self._channel.send((identity, packet))
        except Disconnected:
            self._forget(identity, "it is gone")

    async def _beat(self) -> None:
        while True:
            load = self.load
            stalled_ms = 1000 * self._spec.patience.beat_s * self._idle_beats
            for identity, gateway in list(self._gateways.items()):
                gateway.missed += 1
                if gateway.missed > self._spec.patience.missed_beats:
                    self._forget(identity, "it is silent")
                else:
                    gateway.tell(wire.Beat(load, len(gateway.answers), stalled_ms))
            await asyncio.sleep(self._spec.patience.beat_s)
            # Not by the clock, which goes on while a process is stopped from outside.
            self._idle_beats = self._idle_beats + 1 if self._waiting else 0

    # --- requests -----------------------------------------------------------------------

    def _open(self, gateway: _Gateway, message: wire.Open) -> None:
        why = self._no_room(gateway, message)
        if why:
            gateway.tell(wire.Declined(message.request, why))
            return
        answer = _Answer(message.credits)
        self._answers.add(answer)
        gateway.answers[message.request] = answer
        answer.task = self._tasks.create_task(self._answer(gateway, message, answer))
        answer.task.add_done_callback(lambda _: self._ended(gateway, message.request, answer))

    def _no_room(self, gateway: _Gateway, message: wire.Open) -> str:
        if self._leaving:
            return "the process is about to end"
        if len(self._answers) >= MOST_REQUESTS:
            return f"{MOST_REQUESTS} requests are open already: admit fewer callers"
        if message.request in gateway.answers:
            return f"request {message.request} is open already"
        return ""

    def _ended(self, gateway: _Gateway, request: int, answer: _Answer) -> None:
        self._answers.discard(answer)
        gateway.answers.pop(request, None)

    async def _answer(self, gateway: _Gateway, message: wire.Open, answer: _Answer) -> None:
        number = message.request
        last: wire.End | wire.Failed | wire.Declined
        try:
            await self._relay(gateway, message, answer)
            last = wire.End(number)
        except asyncio.CancelledError:
            if answer.unwanted:
                raise
            last = wire.Declined(number, "the engine itself has cancelled it")
        except wire.Unreadable as error:
            told = f"the request {error}"
            last = wire.Failed(number, self._spec.engine.name, "bad_request", told)
        except EngineError as error:
            last = wire.Failed(number, error.engine, error.code, error.message)
        except Exception as error:
            logger.exception("a request ends by a bug of the engine")
            told = f"ended by a bug, {error!r}: see the log of {self._spec.place}"
            last = wire.Failed(number, self._spec.engine.name, "failed", told)
        finally:
            self._got(answer)
        gateway.tell(last)

    async def _relay(self, gateway: _Gateway, message: wire.Open, answer: _Answer) -> None:
        """Send the engine's items, each asked for only once its reader has room for it."""
        request = wire.request_in(self._spec.engine.kind, message)
        self._wants(answer)
        async with self._engine.open(request) as items:
            async for item in items:
                self._got(answer)
                gateway.tell(wire.item_of(message.request, item))
                answer.credits -= 1
                if answer.credits <= 0:
                    await answer.wait_credit()
                self._wants(answer)

    def _wants(self, answer: _Answer) -> None:
        if not self._waiting:
            self._idle_beats = 0
        self._waiting.add(answer)

    def _got(self, answer: _Answer) -> None:
        self._waiting.discard(answer)
        self._idle_beats = 0
