"""Where callers are let in: asyncio around ``voice.admission``.

It tells the admission the time and what the house can hold, lets callers wait, listens whether
those who are in are still there, and tells file jobs to stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from voice.admission import Admission, Caller, FileLease, Lease, Refusal, Room, Ticket
from voice.metrics import Metrics

logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """There is no place now, for the reason in ``refusal``."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason.value)
        self.refusal = refusal


class CallerGoneError(Exception):
    """The caller hung up while waiting."""


class Line(Protocol):
    """A caller's connection."""

    @property
    def heard_at(self) -> float:
        """When anything last came from the caller, by the loop's clock."""

    def abort(self) -> None:
        """Drop it, so that its call ends."""


class Reception:
    """Of one house. ``look`` tells what the house can hold now."""

    def __init__(self, admission: Admission, look: Callable[[], Room], metrics: Metrics) -> None:
        self._admission = admission
        self._look = look
        self._metrics = metrics
        self._lines: dict[Lease, Line] = {}
        self._waiting: dict[Ticket, asyncio.Future[Lease | Refusal]] = {}
        self._stops: dict[FileLease, asyncio.Event] = {}
        self._change = asyncio.Event()
        metrics.watch_admission(self.admission)

    def admission(self) -> Admission:
        """The leases, as the house is now."""
        self._admission.room = self._look()
        return self._admission

    def refuses(self, caller: Caller) -> Refusal | None:
        """What a caller would be told who asks now and gets neither a lease nor a place to wait."""
        self.settle()
        return self._admission.refuses(caller)

    @asynccontextmanager
    async def admit(
        self, caller: Caller, line: Line, gone: Callable[[], Awaitable[object]]
    ) -> AsyncIterator[None]:
        """A lease for as long as the context lasts. ``gone`` returns when a caller hangs up who is
        still waiting. Raises RefusedError, and CallerGoneError."""
        lease = await self._lease(caller, gone)
        self._lines[lease] = line
        self._metrics.calls_opened.labels("admitted").inc()
        try:
            yield
        finally:
            del self._lines[lease]
            self._give_back(lease)

    @contextmanager
    def hold_for_file(self, engines: Iterable[str]) -> Iterator[asyncio.Event]:
        """A slot of each of these engines for a job that nobody listens to, for as long as the
        context lasts; the event is set when calls want them: leave at once. Raises RefusedError."""
        lease = self.admission().ask_for_file(engines)
        if isinstance(lease, Refusal):
            raise RefusedError(lease)
        stop = self._stops[lease] = asyncio.Event()
        try:
            yield stop
        finally:
            self._stops.pop(lease, None)
            self._admission.give_back_file(lease)
            self._tell_change()

    async def wait_changed(self) -> None:
        """Wait until a file may find room where it found none."""
        await self._change.wait()

    def settle(self, now: float | None = None) -> None:
        """Let in who may come in, send away who has waited too long, and stop files: for whenever
        something has changed."""
        admission = self.admission()
        for ticket, answer in admission.settle(_now() if now is None else now):
            self._waiting.pop(ticket).set_result(answer)
        self._stop_files()
        self._tell_change()

    async def watch(self, every_s: float = 1.0) -> None:
        """Look after the leases until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + every_s
            await asyncio.sleep(every_s)
            if loop.time() < due + every_s:  # after a standstill, what has come is still unread
                self.expire()
            self.settle()

    def expire(self) -> None:
        """End the calls whose callers have not been heard of for too long: their connection has
        died without a word, and they would hold their slots until the kernel notices."""
        for lease, line in self._lines.items():
            self._admission.beat(lease, line.heard_at)
        for lease in self._admission.expire(_now()):
            logger.warning("a call was ended: nothing came from its client any more")
            self._metrics.calls_expired.inc()
            if lease in self._lines:  # not if it was given to one who has not come to take it yet
                self._lines[lease].abort()

    # --- within ---------------------------------------------------------------------------

    async def _lease(self, caller: Caller, gone: Callable[[], Awaitable[object]]) -> Lease:
        self.settle()
        answer = self._admission.ask(caller, _now())
        self._stop_files()
        if isinstance(answer, Ticket):
            answer = await self._wait(answer, gone)
        if isinstance(answer, Refusal):
            raise RefusedError(answer)
        return answer

    async def _wait(self, ticket: Ticket, gone: Callable[[], Awaitable[object]]) -> Lease | Refusal:
        told: asyncio.Future[Lease | Refusal] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = told
        began, outcome = _now(), "gone"
        try:
            async with _begun(gone) as left:
                await asyncio.wait(
                    {told, left},
                    timeout=ticket.deadline - began,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                _check_there(left)
                if not told.done():
                    self.settle(max(_now(), ticket.deadline))
            answer = told.result()
            outcome = "admitted" if isinstance(answer, Lease) else "refused"
        except BaseException:
            self._leave(ticket, told)
            raise
        finally:
            self._metrics.waits.labels(outcome).observe(_now() - began)
        return answer

    def _leave(self, ticket: Ticket, told: asyncio.Future[Lease | Refusal]) -> None:
        """The caller takes nothing of what was meant for it."""
        self._admission.withdraw(ticket)
        self._waiting.pop(ticket, None)
        if told.done() and isinstance(lease := told.result(), Lease):
            self._give_back(lease)

    def _give_back(self, lease: Lease) -> None:
        self._admission.give_back(lease, _now())
        self.settle()

    def _tell_change(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _stop_files(self) -> None:
        for lease in self._admission.take_displaced():
            self._metrics.files_displaced.inc()
            self._stops.pop(lease).set()


@asynccontextmanager
async def _begun(ask: Callable[[], Awaitable[object]]) -> AsyncIterator[asyncio.Future[Any]]:
    """A task that ends with the context."""
    task = asyncio.ensure_future(ask())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _check_there(left: asyncio.Future[Any]) -> None:
    """Raises CallerGoneError where it is done, or what it has failed with."""
    if left.done():
        left.result()
        raise CallerGoneError


def _now() -> float:
    return asyncio.get_running_loop().time()
