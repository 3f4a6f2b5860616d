"""Work that nobody listens to live: how much of it there may be, and where it gives way to calls.

A file job holds a slot of an engine for one request at a time, and waits for the next in the order
of coming. Calls take such slots without asking; see ``voice.admission``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from pipelines.places import DisplacedError
from voice.admission import Reason, Refusal
from voice.reception import Reception, RefusedError

_RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What may be asked of the REST doors. A request body of ``max_upload_bytes``, with
    ``max_audio_s`` of sound in it, or with ``max_characters`` to be spoken, is the largest;
    ``max_jobs`` are the most at once. A job that gets no place for ``wait_s`` at its beginning is
    refused; later it waits for as long as its client does."""

    max_upload_bytes: Annotated[int, Meta(ge=1)] = 512 * 1024 * 1024
    max_audio_s: Annotated[float, Meta(gt=0)] = 14_400.0
    max_characters: Annotated[int, Meta(ge=1)] = 20_000
    max_jobs: Annotated[int, Meta(ge=0)] = 8
    wait_s: Annotated[float, Meta(ge=0)] = 20.0


class FileJobs:
    """Of one house."""

    def __init__(self, settings: FileSettings, reception: Reception) -> None:
        self.settings = settings
        self.count = 0
        self._reception = reception
        self._queues: dict[str, asyncio.Lock] = {}

    @contextmanager
    def job(self, engine: str) -> Iterator[FilePlace]:
        """Begin a job that needs this engine, over at the end of the context. Raises RefusedError
        where there are too many."""
        if self.count >= self.settings.max_jobs:
            raise RefusedError(Refusal(Reason.SERVER_FULL, 0, _RETRY_S))
        self.count += 1
        try:
            queue = self._queues.setdefault(engine, asyncio.Lock())
            yield FilePlace(engine, self._reception, queue, self.settings.wait_s)
        finally:
            self.count -= 1


class FilePlace:
    """A ``pipelines.places.Place`` of one job."""

    def __init__(
        self, engine: str, reception: Reception, queue: asyncio.Lock, patience_s: float
    ) -> None:
        self._engine = engine
        self._reception = reception
        self._queue = queue
        self._patience_s: float | None = patience_s

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """See ``pipelines.places``. Raises RefusedError where the server shuts down, and where the
        first place does not come in time."""
        with ExitStack() as leases:
            stop = await self._take(leases)
            async with _left_when(stop):
                yield

    async def _take(self, leases: ExitStack) -> asyncio.Event:
        refusal = Refusal(Reason.WAITED, 0, _RETRY_S)
        try:
            async with asyncio.timeout(self._patience_s), self._queue:
                while True:
                    try:
                        lease = self._reception.hold_for_file([self._engine])
                        stop = leases.enter_context(lease)
                    except RefusedError as refused:
                        refusal = refused.refusal
                        if refusal.reason is Reason.CLOSING:
                            raise
                        await self._reception.wait_changed()
                    else:
                        self._patience_s = None
                        return stop
        except TimeoutError:
            raise RefusedError(refusal) from None


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
