"""Room for so many at once, given to the most urgent of those that wait."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engines.ports import EngineError, Load, Priority


class Slots:
    """``count`` slots and room for ``capacity`` to wait, smaller priority first.

    Who comes when all that room is taken is refused, unless somebody less urgent waits: then
    that one is. ``name`` is that of the engine, for the errors.
    """

    def __init__(self, name: str, count: int, capacity: int = 256) -> None:
        self._name = name
        self._count = count
        self._capacity = capacity
        self._busy = 0
        self._arrivals = itertools.count()
        self._waiting: list[tuple[Priority, int, asyncio.Future[None], float]] = []

    def load(self) -> Load:
        """How many slots there are, how many are held, and how many wait for one."""
        waiting = [waiter for waiter in self._waiting if not waiter[2].done()]
        since = [since for priority, _, _, since in waiting if priority < Priority.BATCH]
        oldest_ms = (asyncio.get_running_loop().time() - min(since)) * 1000.0 if since else 0.0
        return Load(slots=self._count, busy=self._busy, queued=len(waiting), oldest_ms=oldest_ms)

    @asynccontextmanager
    async def hold(self, priority: Priority) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Raises EngineError (``unavailable``) where too many wait."""
        await self._take(priority)
        try:
            yield
        finally:
            self._give()

    async def _take(self, priority: Priority) -> None:
        if self._busy < self._count:
            self._busy += 1
            return
        self._make_room(priority)
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), turn, loop.time()))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give()  # its turn had come in the same moment
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

    def _make_room(self, priority: Priority) -> None:
        self._waiting = [waiter for waiter in self._waiting if not waiter[2].done()]
        heapq.heapify(self._waiting)
        if len(self._waiting) < self._capacity:
            return
        last = max(self._waiting)
        if priority >= last[0]:
            raise self._refusal()
        self._waiting.remove(last)
        heapq.heapify(self._waiting)
        last[2].set_exception(self._refusal())

    def _refusal(self) -> EngineError:
        return EngineError(
            self._name,
            "unavailable",
            f"{self._count} clips are being heard and {self._capacity} wait: "
            "try again later, or admit fewer callers",
        )
