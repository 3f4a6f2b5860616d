"""Work that nobody listens to live: how much of it there may be, and where it gives way to calls.

A file job holds a slot of an engine for each request that it has under way: as many as are free,
which jobs take by turns, in the order of coming. Calls take such slots without asking, and all of
them at once while the house is strained (``House.files_may_run``); see ``voice.admission``.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from pipelines.places import DisplacedError
from voice.admission import DEFAULT_TENANT, Reason, Refusal
from voice.reception import Reception, RefusedError

_RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What may be asked of the REST doors. A request body of ``max_upload_bytes``, with
    ``max_audio_s`` of sound in it, or with ``max_characters`` to be spoken, is the largest;
    ``max_jobs`` are the most at once, and a request becomes one when its body is there: so many as
    ``max_uploads`` may be on their way, each by ``least_bytes_per_s`` or more. Where there are
    several tenants, one has ``tenant_share`` of either at most. A job that gets no place for
    ``wait_s`` at its beginning is refused; later it waits for as long as its client does."""

    max_upload_bytes: Annotated[int, Meta(ge=1)] = 512 * 1024 * 1024
    max_audio_s: Annotated[float, Meta(gt=0)] = 14_400.0
    max_characters: Annotated[int, Meta(ge=1)] = 20_000
    max_jobs: Annotated[int, Meta(ge=0)] = 8
    max_uploads: Annotated[int, Meta(ge=1)] = 32
    least_bytes_per_s: Annotated[int, Meta(ge=1)] = 8_192
    tenant_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    wait_s: Annotated[float, Meta(ge=0)] = 20.0


class FileJobs:
    """Of one house; ``shared`` by several tenants."""

    def __init__(
        self, settings: FileSettings, reception: Reception, *, shared: bool = False
    ) -> None:
        self.settings = settings
        share = settings.tenant_share if shared else 1.0
        self._jobs = _Places(settings.max_jobs, share)
        self._uploads = _Places(settings.max_uploads, share)
        self._reception = reception
        self._queues: dict[str, asyncio.Lock] = {}

    @property
    def count(self) -> int:
        """The jobs that there are."""
        return self._jobs.taken.total()

    @contextmanager
    def upload(self, tenant: str = DEFAULT_TENANT) -> Iterator[None]:
        """Read a request's body, until the end of the context. Raises RefusedError where there are
        too many, or jobs that it would wait for."""
        for places in (self._jobs, self._uploads):
            if fault := places.fault(tenant):
                raise RefusedError(Refusal(fault, 0, _RETRY_S))
        with self._uploads.take(tenant):
            yield

    @asynccontextmanager
    async def job(self, engine: str, tenant: str = DEFAULT_TENANT) -> AsyncIterator[FilePlace]:
        """Begin a job that needs this engine, over at the end of the context. Raises RefusedError
        where none ends in time that it could stand in for."""
        try:
            async with asyncio.timeout(self.settings.wait_s):
                while self._jobs.fault(tenant):
                    await self._jobs.left.wait()
        except TimeoutError:
            fault = self._jobs.fault(tenant) or Reason.SERVER_FULL
            raise RefusedError(Refusal(fault, 0, _RETRY_S)) from None
        with self._jobs.take(tenant):
            queue = self._queues.setdefault(engine, asyncio.Lock())
            yield FilePlace(engine, self._reception, queue, self.settings.wait_s)


class _Places:
    """So many at once, and of one tenant no more than its share. ``left`` is set when one leaves,
    and then another stands in for it."""

    def __init__(self, most: int, share: float) -> None:
        self.taken: Counter[str] = Counter()
        self.left = asyncio.Event()
        self._most = most
        self._most_of_one = math.ceil(most * share)

    def fault(self, tenant: str) -> Reason | None:
        """Why this tenant may have no other; None where it may."""
        if self.taken.total() >= self._most:
            return Reason.SERVER_FULL
        return Reason.TENANT_FULL if self.taken[tenant] >= self._most_of_one else None

    @contextmanager
    def take(self, tenant: str) -> Iterator[None]:
        """Until the end of the context."""
        self.taken[tenant] += 1
        try:
            yield
        finally:
            self.taken[tenant] -= 1
            self.left.set()
            self.left = asyncio.Event()


class FilePlace:
    """A ``pipelines.places.Place`` of one job, which may hold it several times at once. Only one of
    those that it wants stands in the queue of all jobs, so that none stands before another's first.
    """

    def __init__(
        self, engine: str, reception: Reception, queue: asyncio.Lock, patience_s: float
    ) -> None:
        self._engine = engine
        self._reception = reception
        self._queue = queue
        self._own_queue = asyncio.Lock()
        self._patience_s: float | None = patience_s
        self._refusal = Refusal(Reason.WAITED, 0, _RETRY_S)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """See ``pipelines.places``. Raises RefusedError where the server shuts down, and where the
        first place does not come in time."""
        with ExitStack() as leases:
            stop = await self._take(leases)
            async with _left_when(stop):
                yield

    async def _take(self, leases: ExitStack) -> asyncio.Event:
        async with self._own_queue:
            self._refusal = Refusal(Reason.WAITED, 0, _RETRY_S)
            try:
                async with asyncio.timeout(self._patience_s), self._queue:
                    return await self._lease(leases)
            except TimeoutError:
                raise RefusedError(self._refusal) from None

    async def _lease(self, leases: ExitStack) -> asyncio.Event:
        while True:
            try:
                lease = self._reception.hold_for_file([self._engine])
                stop = leases.enter_context(lease)
            except RefusedError as refused:
                self._refusal = refused.refusal
                if self._refusal.reason is Reason.CLOSING:
                    raise
                await self._reception.wait_changed()
            else:
                self._patience_s = None
                return stop


@asynccontextmanager
async def _left_when(stop: asyncio.Event) -> AsyncIterator[None]:
    """Cancels what is within once the event is set, and raises DisplacedError."""
    task = asyncio.current_task()
    assert task is not None
    cancels, within, left = task.cancelling(), True, False

    def leave(_: object) -> None:
        nonlocal left
        if within and stop.is_set():
            left = task.cancel()

    watch = asyncio.ensure_future(stop.wait())
    watch.add_done_callback(leave)
    try:
        yield
    except asyncio.CancelledError:
        if left and task.uncancel() <= cancels:
            raise DisplacedError from None
        raise
    finally:
        within = False
        watch.cancel()
