"""When a batch runs: a policy on the loop's clock, one batch at a time.

The ears run their batches through it on the loop itself, everything else by way of
``engines.batching.runner``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from engines.batching.policy import BatchPolicy
from engines.batching.tally import Tally

Item = TypeVar("Item")
Start: TypeAlias = Callable[[list[Item]], "asyncio.Future[Any] | None"]
"""Runs a batch, tightest deadline first. A future that is done when the batch is; None where it
is done already."""

_EARLY_MS: Final = 1.0
"""A timer may come a hair before its time; what it was set for is due all the same."""


class BatchSchedule(Generic[Item]):
    """Starts a batch whenever one is due and the last one is done. For one running loop.

    ``expected`` says how many may hand in now. It is asked at each decision, so it should be
    cheap, and whoever knows that it has changed tells by ``changed``.
    """

    def __init__(
        self, policy: BatchPolicy[Item], start: Start[Item], expected: Callable[[], int]
    ) -> None:
        self._policy = policy
        self._start = start
        self._expected = expected
        self.tally = Tally()
        """What the batches were like so far."""
        self._busy = False
        self._running = (0, 0, 0.0, 0.0)
        self._loop: asyncio.AbstractEventLoop | None = None  # asking for it costs a system call
        self._timer: asyncio.Handle | None = None
        self._wakes_at = float("inf")

    def __len__(self) -> int:
        return len(self._policy)

    @property
    def oldest_ms(self) -> float:
        """How long the item has waited that has waited longest."""
        oldest_at = self._policy.oldest_at
        return 0.0 if oldest_at is None else now_ms() - oldest_at

    def add(self, item: Item, deadline_ms: float = float("inf")) -> int:
        """Queue an item that is of use until ``deadline_ms`` of the loop's clock. Gives a ticket
        by which it can be cancelled."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        ticket = self._policy.add(item, self._loop.time() * 1000.0, deadline_ms)
        self.changed()
        return ticket

    def cancel(self, ticket: int) -> None:
        """Take an item back; one that has been started is let be."""
        self._policy.cancel(ticket)

    def changed(self) -> None:
        """Decide anew when the next batch runs. A timer that comes too early asks again."""
        if self._busy or not self._policy:
            return
        self._policy.expected = self._expected()
        due = self._policy.deadline
        if due is None or due >= self._wakes_at:
            return
        self._forget_timer()
        loop = self._loop
        assert loop is not None, "something was added"
        if due <= loop.time() * 1000.0:  # behind what is ready to run: it may hand in as well
            self._timer, self._wakes_at = loop.call_soon(self._wake), float("-inf")
        else:
            self._timer, self._wakes_at = loop.call_at(due / 1000.0, self._wake), due

    def drain(self) -> list[Item]:
        """All that waits: none of it will be started."""
        self._forget_timer()
        return self._policy.drain()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wakes_at = None, float("inf")

    def _wake(self) -> None:
        self._timer, self._wakes_at = None, float("inf")
        self._policy.expected = self._expected()
        assert self._loop is not None, "something was added"
        oldest_at, began = self._policy.oldest_at, self._loop.time() * 1000.0
        batch = self._policy.take(began + _EARLY_MS)
        if not batch:
            self.changed()
            return
        waited_ms = 0.0 if oldest_at is None else max(0.0, began - oldest_at)
        self._running = (len(batch), self._policy.expected, waited_ms, began)
        self._busy = True
        work = None
        try:
            work = self._start(batch)
        finally:
            if work is None:
                self._done()
            else:
                work.add_done_callback(self._done)

    def _done(self, _: object = None) -> None:
        rows, expected, waited_ms, began = self._running
        assert self._loop is not None, "something was added"
        took_ms = max(0.0, self._loop.time() * 1000.0 - began)
        self.tally.add(rows, max(rows, expected), waited_ms, took_ms)
        self._busy = False
        self.changed()


def now_ms() -> float:
    """Milliseconds of the running loop's clock."""
    return asyncio.get_running_loop().time() * 1000.0
