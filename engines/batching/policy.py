"""When to run the next batch: a plain object of the turn machine's shape, without I/O or clock.

A batch closes as soon as everyone who could join it has joined, so that one caller alone never
waits; at the latest when its oldest item has waited ``window_ms``, or when the tightest
deadline among its items would be missed otherwise. Tightest deadline first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

BUCKETS: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64)
"""Sizes that batches are padded to where each size has a compiled graph of its own."""

_LEARNING: Final = 0.2
"""How much of a cost is the newest measurement: five batches forget a hiccup by two thirds."""


def bucket(count: int, buckets: Sequence[int] = BUCKETS) -> int:
    """The smallest of the rising ``buckets`` that holds ``count`` rows; ``count`` beyond them."""
    place = bisect_left(buckets, count)
    return buckets[place] if place < len(buckets) else count


class StepCost:
    """What a batch takes, by its bucket: a running mean of what batches took so far."""

    def __init__(self, initial_ms: float = 0.0) -> None:
        self._initial_ms = initial_ms
        self._measured_ms: dict[int, float] = {}

    def learn(self, count: int, took_ms: float) -> None:
        """A batch of ``count`` took so long."""
        known = self.of(count)
        self._measured_ms[bucket(count)] = known + _LEARNING * (took_ms - known)

    def of(self, count: int) -> float:
        """The milliseconds that ``count`` rows will take: as many as the next larger batch that
        has run, or else the largest that has."""
        size = bucket(count)
        if size not in self._measured_ms:
            larger = [other for other in self._measured_ms if other > size]
            size = min(larger) if larger else max(self._measured_ms, default=size)
        return self._measured_ms.get(size, self._initial_ms)


class BatchPolicy(Generic[Item]):
    """Gathers items into batches of at most ``max_batch``.

    Times are milliseconds of one clock that does not go back. A batch is closed ``slack_ms``
    and what it takes before its tightest deadline; ``cost_ms`` is what one takes as long as
    none has ``ran``.

    Where more wait than a batch holds, the tightest go; but the one that has waited longest
    goes with them once its window is over, so that nobody is passed over for ever.
    """

    def __init__(
        self, *, max_batch: int, window_ms: float, cost_ms: float = 0.0, slack_ms: float = 0.0
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        self.max_batch = max_batch
        self.window_ms = window_ms
        self.slack_ms = slack_ms
        self.expected = 1
        """How many items may come in before the batch need not wait any more: the sockets that
        are active. Never below one."""
        self._cost = StepCost(cost_ms)
        self._tickets = 0
        # In order of arrival: deadline, arrival, item.
        self._waiting: dict[int, tuple[float, float, Item]] = {}
        self._tightest = float("inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Item, now: float, deadline: float = float("inf")) -> int:
        """Queue an item that arrived now and is of use until ``deadline``. Gives a ticket by
        which it can be cancelled."""
        self._tickets += 1
        self._waiting[self._tickets] = (deadline, now, item)
        if deadline < self._tightest:
            self._tightest = deadline
        return self._tickets

    @property
    def oldest_at(self) -> float | None:
        """When the item arrived that has waited longest; None where none waits."""
        return next((arrival for _, arrival, _ in self._waiting.values()), None)

    def cancel(self, ticket: int) -> None:
        """Take an item back: nobody waits for it any more. One that has run is let be."""
        if self._waiting.pop(ticket, None) is not None:
            self._find_tightest()

    def ran(self, count: int, took_ms: float) -> None:
        """A batch of ``count`` took so long, from when it was taken until it was done."""
        self._cost.learn(count, took_ms)

    @property
    def deadline(self) -> float | None:
        """When the next batch closes; minus infinity for at once, None for nothing queued."""
        count = len(self._waiting)
        if not count:
            return None
        if count >= min(self.max_batch, self.expected):
            return float("-inf")
        closes = self._window_end(next(iter(self._waiting)))
        if self._tightest == float("inf"):
            return closes
        return min(closes, self._tightest - self.slack_ms - self._cost.of(count))

    def take(self, now: float) -> list[Item]:
        """The batch that is due now, tightest deadline first; empty where none is."""
        due = self.deadline
        if due is None or due > now:
            return []
        waiting = self._waiting
        tickets = list(waiting)
        oldest = tickets[0]
        if self._tightest < float("inf"):  # one sort a batch costs less than a heap at each item
            tickets.sort(key=lambda ticket: waiting[ticket][0])
        del tickets[self.max_batch :]
        if self._window_end(oldest) <= now and oldest not in tickets:
            tickets[-1] = oldest
        batch = [waiting.pop(ticket)[2] for ticket in tickets]
        self._find_tightest()
        return batch

    def drain(self) -> list[Item]:
        """All that waits, due or not, in order of arrival; nothing waits any more."""
        items = [item for _, _, item in self._waiting.values()]
        self._waiting.clear()
        self._find_tightest()
        return items

    def _window_end(self, ticket: int) -> float:
        return self._waiting[ticket][1] + self.window_ms

    def _find_tightest(self) -> None:
        if self._tightest < float("inf"):
            deadlines = (deadline for deadline, _, _ in self._waiting.values())
            self._tightest = min(deadlines, default=float("inf"))
