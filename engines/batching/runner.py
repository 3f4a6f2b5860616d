"""Many callers, one device: each hands in an item and waits for its result; batches of them run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

from engines.batching.policy import BatchPolicy
from engines.batching.schedule import BatchSchedule, now_ms
from engines.ports import EngineError, Load, Priority
from engines.workers import Workers

Item = TypeVar("Item")
Out = TypeVar("Out")
Submitted: TypeAlias = "tuple[Item, asyncio.Future[Out]]"


class BatchRunner(Generic[Item, Out]):
    """Runs items in batches, one batch at a time; the next one forms meanwhile.

    ``run`` gets the items of a batch, tightest deadline first, and gives as many results in the
    same order. It runs in ``workers``, which the caller closes after the runner, or on the loop
    where there are none. ``expected`` says how many may hand in now: the sockets that speak;
    where that changes while items wait, call ``changed``. ``name`` is that of the engine.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[list[Item]], Sequence[Out]],
        policy: BatchPolicy[Submitted[Item, Out]],
        *,
        expected: Callable[[], int],
        workers: Workers | None = None,
    ) -> None:
        self._name = name
        self._run = run
        self._policy = policy
        self._workers = workers
        self._expected = expected
        self._schedule: BatchSchedule[Submitted[Item, Out]] = BatchSchedule(
            policy, self._start, expected
        )
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._batch = 0
        self._step_ms = 0.0

    async def submit(self, item: Item, deadline_ms: float = float("inf")) -> Out:
        """The result of ``item``, which is of use until ``deadline_ms`` of the loop's clock.

        Cancelled while it waits, it never runs. Raises what ``run`` raises, to all of the batch
        alike, and EngineError (``unavailable``) where the runner is closed.
        """
        if self._closed:
            raise EngineError(self._name, "unavailable", "is closed: start the server again")
        result: asyncio.Future[Out] = asyncio.get_running_loop().create_future()
        ticket = self._schedule.add((item, result), deadline_ms)
        try:
            return await result
        finally:
            self._schedule.cancel(ticket)

    def changed(self) -> None:
        """More or fewer may hand in than before: decide anew when the next batch runs."""
        self._schedule.changed()

    def load(self) -> Load:
        """What it is doing now; ``slots`` and ``busy`` are the caller's to fill in."""
        return Load(
            speaking=self._expected(),
            batch=self._batch,
            step_ms=self._step_ms,
            queued=len(self._schedule),
            oldest_ms=self._schedule.oldest_ms,
            batches=self._schedule.tally,
        )

    def close(self) -> None:
        """Fail what waits, and take nothing more. The batch that runs ends by itself."""
        self._closed = True
        for result in _still_wanted([result for _, result in self._schedule.drain()]):
            what = "was closed while the item waited: start the server again"
            result.set_exception(EngineError(self._name, "unavailable", what))

    async def wait_closed(self) -> None:
        """After ``close``: until the batch that ran then has ended."""
        if self._running is not None:
            await asyncio.wait([self._running])

    def _start(self, batch: list[Submitted[Item, Out]]) -> asyncio.Task[None] | None:
        """A task that runs what nobody has cancelled since; none where that is nothing."""
        wanted = [(item, result) for item, result in batch if not result.done()]
        if not wanted:
            return None
        self._running = asyncio.get_running_loop().create_task(self._serve(wanted))
        return self._running

    async def _serve(self, batch: list[Submitted[Item, Out]]) -> None:
        results = [result for _, result in batch]
        try:
            outs = await self._outs([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
            for result in _still_wanted(results):
                result.set_exception(error)
        except BaseException:
            for result in results:
                result.cancel()
            raise
        else:
            for result, out in zip(results, outs, strict=True):
                if not result.done():
                    result.set_result(out)

    async def _outs(self, items: list[Item]) -> Sequence[Out]:
        began = now_ms()
        if self._workers is None:
            outs = self._run(items)
        else:
            outs = await self._workers.run(Priority.FINAL, self._run, items)
        if len(outs) != len(items):
            raise RuntimeError(f"{self._name}: a batch of {len(items)} gave {len(outs)} results")
        self._batch, self._step_ms = len(items), now_ms() - began
        self._policy.ran(self._batch, self._step_ms)
        return outs


def _still_wanted(results: list[asyncio.Future[Out]]) -> Iterator[asyncio.Future[Out]]:
    return (result for result in results if not result.done())
