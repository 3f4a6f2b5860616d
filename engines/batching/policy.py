"""When to run the next batch: a plain object of the turn machine's shape, without I/O or clock.

A batch closes as soon as everyone who could join it has joined, so that one caller alone never
waits; at the latest when its oldest item has waited ``window_ms``, or when the tightest
deadline among its items would be missed otherwise. Tightest deadline first.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BatchPolicy(Generic[Item]):
    """Gathers items into batches of at most ``max_batch``.

    Times are milliseconds of one clock. ``cost_ms`` is what a batch takes to run: a batch is
    closed that much, and ``slack_ms`` more, before its tightest deadline.
    """

    def __init__(
        self, *, max_batch: int, window_ms: float, cost_ms: float = 0.0, slack_ms: float = 0.0
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        self.max_batch = max_batch
        self.window_ms = window_ms
        self.expected = 1
        """How many items may come in before the batch need not wait any more: the sockets that
        are active. Never below one."""
        self._reserve_ms = cost_ms + slack_ms
        self._heap: list[tuple[float, int, float, Item]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item, now: float, deadline: float = float("inf")) -> None:
        """Queue an item that arrived now and is of use until ``deadline``."""
        self._arrivals += 1
        heapq.heappush(self._heap, (deadline, self._arrivals, now, item))

    @property
    def deadline(self) -> float | None:
        """When the next batch closes; minus infinity for at once, None for nothing queued."""
        if not self._heap:
            return None
        if len(self._heap) >= min(self.max_batch, self.expected):
            return float("-inf")
        oldest = min(arrived for _, _, arrived, _ in self._heap)
        return min(oldest + self.window_ms, self._heap[0][0] - self._reserve_ms)

    def take(self, now: float) -> list[Item]:
        """The batch that is due now, tightest deadline first; empty where none is."""
        due = self.deadline
        if due is None or due > now:
            return []
        count = min(self.max_batch, len(self._heap))
        return [heapq.heappop(self._heap)[3] for _ in range(count)]
