"""One clock for all callers: frames leave on an absolute schedule, and how late each was is kept.

The 20 ms of a frame are cut into slots, so that callers can be spread evenly over them; a timer
for each caller would cost more than what it sends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from loadtest.wires import FRAME_MS

SLOTS: Final = 4
"""Each costs a wake-up of this process, which is dear on a virtual machine (80 us were seen)."""

SLOT_S: Final = FRAME_MS / 1000 / SLOTS
_MOST_IN_A_ROW: Final = SLOTS
"""Slots that are caught up with before what has arrived is read."""

Tick = Callable[[float], None]


class Lateness:
    """How late frames were, counted in tenths of a millisecond."""

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self.counts: Counter[int] = Counter(counts or {})

    def add(self, late_s: float, frames: int) -> None:
        """So many frames were so late; before their time is not late."""
        self.counts[max(0, int(late_s * 10_000))] += frames

    def quantile_ms(self, share: float) -> float:
        """The lateness that so many are below; 0 where none was sent."""
        wanted, seen = share * sum(self.counts.values()), 0
        for tenths in sorted(self.counts):
            seen += self.counts[tenths]
            if seen >= wanted:
                return (tenths + 1) / 10
        return 0.0


class Ticker:
    """Calls each that has joined a slot once in 20 ms with the time that its frame is due, in
    seconds of the monotonic clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.late = Lateness()
        self._now = now
        self._slots: list[list[Tick]] = [[] for _ in range(SLOTS)]
        self._members = 0
        self._next = 0
        self._start = 0.0
        self._timer: asyncio.Handle | None = None

    def join(self, slot: int, tick: Tick) -> None:
        """Call this from the next time on that its slot is due."""
        self._slots[slot % SLOTS].append(tick)
        self._members += 1

    def leave(self, slot: int, tick: Tick) -> None:
        """Call it no more; of no effect where it has left."""
        members = self._slots[slot % SLOTS]
        if tick in members:
            members.remove(tick)
            self._members -= 1

    def start(self) -> None:
        """Slot 0 is due now."""
        self._start = self._now()
        self._schedule()

    def stop(self) -> None:
        """No more ticks."""
        if self._timer is not None:
            self._timer.cancel()

    def run_due(self) -> float:
        """Do what is due, and give the seconds until the next slot is."""
        for _ in range(_MOST_IN_A_ROW):
            due = self._start + self._next * SLOT_S
            if (wait := due - self._now()) > 0.0005:
                return wait
            members = self._slots[self._next % SLOTS]
            self._next += 1
            if members:
                for tick in tuple(members):
                    tick(due)
                self.late.add(self._now() - due, len(members))
        return 0.0

    def _fire(self) -> None:
        self.run_due()
        self._schedule()

    def _schedule(self) -> None:
        while self._members and not self._slots[self._next % SLOTS]:
            self._next += 1  # nobody is there to be woken for
        wait = max(0.0, self._start + self._next * SLOT_S - self._now())
        self._timer = asyncio.get_running_loop().call_later(wait, self._fire)
