"""What the batches of an engine were like since it started: how many rows, of how many that could
have been, after what wait, and how long they took. Counts only rise, so that whoever reads them
now and then misses nothing; plain numbers, so that they can travel from another process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Of a batch, and of the streams that were expected to be in it; more count as the last."""

WAITS_MS: Final = (0.5, 1, 2, 5, 10, 15, 20, 50, 100)
STEPS_MS: Final = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(slots=True)
class Spread:
    """How many values were at most each bound and above the one before, those above all last; and
    the sum of all values."""

    counts: list[int]
    total: float = 0.0

    @classmethod
    def over(cls, bounds: Sequence[float]) -> Spread:
        """An empty one."""
        return cls([0] * (len(bounds) + 1))

    def add(self, bounds: Sequence[float], value: float) -> None:
        """One more value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value

    def take(self, other: Spread) -> None:
        """All of another's, too."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


@dataclass(slots=True)
class Tally:
    """``rows``: the batches' sizes, by how many streams could have been in them (the smallest of
    ROWS that holds them). ``wait_ms``: of the item of a batch that had waited longest; ``step_ms``,
    from its start to its end."""

    rows: dict[int, Spread] = field(default_factory=dict)
    wait_ms: Spread = field(default_factory=lambda: Spread.over(WAITS_MS))
    step_ms: Spread = field(default_factory=lambda: Spread.over(STEPS_MS))

    def add(self, rows: int, speaking: int, wait_ms: float, step_ms: float) -> None:
        """A batch has run."""
        self._of(ROWS[min(bisect_left(ROWS, speaking), len(ROWS) - 1)]).add(ROWS, rows)
        self.wait_ms.add(WAITS_MS, wait_ms)
        self.step_ms.add(STEPS_MS, step_ms)

    def _of(self, speaking: int) -> Spread:
        if speaking not in self.rows:
            self.rows[speaking] = Spread.over(ROWS)
        return self.rows[speaking]

    @classmethod
    def of_all(cls, tallies: Iterable[Tally | None]) -> Tally | None:
        """One of several places together; None where none of them has one."""
        whole, found = cls(), False
        for tally in tallies:
            if tally is None:
                continue
            found = True
            for speaking, spread in tally.rows.items():
                whole._of(speaking).take(spread)
            whole.wait_ms.take(tally.wait_ms)
            whole.step_ms.take(tally.step_ms)
        return whole if found else None
