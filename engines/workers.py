"""Threads that run model calls off the event loop, the most urgent first.

Every embedded model is a blocking native call that releases the interpreter lock, so it runs
in a thread; a model that must not be entered twice gets a pool of one. What asyncio's own
executor lacks and a voice server needs is an order (a caller who waits goes before a
long file) and a bound.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from engines.ports import EngineError, Load, Priority

T = TypeVar("T")
Job = tuple[int, int, "Future[Any]", Callable[[], Any], float]


class Workers:
    """``count`` daemon threads behind one priority queue of at most ``capacity`` waiting calls.

    ``name`` is that of the engine: it is on the threads and in the errors. Raises EngineError
    (``bad_request``) where ``count`` is less than one.
    """

    def __init__(self, name: str, count: int = 1, capacity: int = 1024) -> None:
        if count < 1:  # nothing would ever run, and its callers wait
            told = f"{count} at once is too few: set threads, workers or slots to 1 or more"
            raise EngineError(name, "bad_request", told)
        self._name = name
        self._capacity = capacity
        self._waiting: list[Job] = []
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, priority: Priority, fn: Callable[..., T], *args: Any) -> T:
        """``fn(*args)`` in a worker: smaller priority first, in order of arrival inside one.

        Cancelled while it waits, the call never runs; cancelled while it runs, it ends by
        itself and its result is dropped. Raises what ``fn`` raises, and EngineError
        (``unavailable``) where the queue is full or closed.
        """
        return await asyncio.wrap_future(self._submit(priority, lambda: fn(*args)))

    def stream(
        self, priority: Priority, fn: Callable[[], Iterator[T]], ahead: int = 64
    ) -> WorkerStream[T]:
        """Iterate over ``fn()`` in a worker, from now on; the loop reads the items.

        The worker runs at most ``ahead`` items ahead of its reader and then waits, so whoever
        opens a stream must read it to its end or ``aclose()`` it. Raises like ``run``.
        """
        stream: WorkerStream[T] = WorkerStream(ahead)
        stream.follow(self._submit(priority, lambda: stream.pump(fn)))
        return stream

    def load(self) -> Load:
        """What runs, and what waits. No bound: whatever comes has a place in the queue."""
        with self._changed:
            waiting = [job for job in self._waiting if not job[2].cancelled()]
            busy = self._busy
        since = [job[4] for job in waiting if job[0] < Priority.BATCH]
        oldest_ms = (time.monotonic() - min(since)) * 1000.0 if since else 0.0
        return Load(busy=busy, queued=len(waiting), oldest_ms=oldest_ms)

    def close(self) -> None:
        """Fail what still waits and let the threads end after their present call."""
        with self._changed:
            self._closed = True
            abandoned, self._waiting = self._waiting, []
            self._changed.notify_all()
        for _, _, future, _, _ in abandoned:
            if future.set_running_or_notify_cancel():
                future.set_exception(self._refusal("was closed while the call waited"))

    async def wait_closed(self) -> None:
        """After ``close``: until the calls that ran then have ended.

        An interpreter that exits while a thread is inside native code aborts.
        """
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _submit(self, priority: Priority, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise self._refusal("is closed: start the server again")
            if len(self._waiting) >= self._capacity:
                self._forget_cancelled()
            if len(self._waiting) >= self._capacity:
                raise self._refusal(
                    f"{self._capacity} calls wait already: try again later, or admit fewer callers"
                )
            job = (priority, next(self._arrivals), future, call, time.monotonic())
            heapq.heappush(self._waiting, job)
            self._changed.notify()
        return future

    def _forget_cancelled(self) -> None:
        self._waiting = [job for job in self._waiting if not job[2].cancelled()]
        heapq.heapify(self._waiting)

    def _refusal(self, what: str) -> EngineError:
        return EngineError(self._name, "unavailable", what)

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._busy += bool(self._waiting)
            return heapq.heappop(self._waiting) if self._waiting else None

    def _done(self) -> None:
        with self._changed:
            self._busy -= 1

    def _work(self) -> None:
        while (job := self._next()) is not None:
            _, _, future, call, _ = job
            if not future.set_running_or_notify_cancel():
                self._done()
                continue
            result, error = self._outcome(call)
            self._done()
            del job, call  # the awaiter may free the model next: not here, where nobody waits
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
            del future, result, error

    def _outcome(self, call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
        try:
            return call(), None
        except StopIteration as error:  # asyncio cannot carry it: its awaiter would hang
            return None, RuntimeError(f"{self._name}: a call raised {error!r}")
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            return None, error


class WorkerStream(AsyncIterator[T], Generic[T]):
    """The loop's end of an iterator that runs in a worker. Made by ``Workers.stream``."""

    def __init__(self, ahead: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(ahead)
        self._arrived: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue()
        self._stopped = False
        self._work: Future[None] = Future()

    def follow(self, work: Future[None]) -> None:
        """``work`` is the call of ``pump``; its end is the end of the stream."""
        self._work = work
        work.add_done_callback(self._end)

    def pump(self, fn: Callable[[], Iterator[T]]) -> None:
        """Runs in the worker: hand over item after item until the end or ``aclose``."""
        items = fn()
        try:
            for item in items:
                self._room.acquire()
                if self._stopped:
                    return
                self._loop.call_soon_threadsafe(self._arrived.put_nowait, (item,))
        finally:
            if close := getattr(items, "close", None):
                close()

    def _end(self, work: Future[None]) -> None:
        if not self._stopped:  # else nobody reads, and the loop may be gone
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, work.exception())

    async def __anext__(self) -> T:
        if self._stopped:
            raise StopAsyncIteration
        try:
            arrival = await self._arrived.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if isinstance(arrival, tuple):
            self._room.release()
            return arrival[0]
        self._stopped = True
        if arrival is None:
            raise StopAsyncIteration
        raise arrival

    async def aclose(self) -> None:
        """Stop the iteration at its next item; where it still waits, it never starts."""
        self._stopped = True
        self._work.cancel()
        self._room.release()
        self._arrived.put_nowait(None)
