"""When the windows of a microphone were heard, told from when they arrive."""

from __future__ import annotations

import math
from typing import Final

from pipelines.conversation.endpoint import WINDOW_MS

_LOST_MS: Final = 150.0
_BURST: Final = 3
_CLOCK_DRIFT_MS: Final = 0.02
"""A window so late has a gap before it, unless those behind it catch up: then it was held up with
them, by a line or a loop. Sound cards' clocks differ by 0.06 %."""


class SampleClock:
    """Of one call. Windows come late or in bursts, never early: the earliest tells the time."""

    def __init__(self) -> None:
        self.began_ms = -math.inf
        self.count = 0
        """Windows since ``began_ms``."""
        self._late: list[float] = []

    @property
    def now_ms(self) -> float:
        """When the last window ended."""
        return self.began_ms + WINDOW_MS * self.count

    def take(self, arrived_ms: float) -> bool:
        """One more window; whether it begins anew, with a gap before it."""
        self.count += 1
        anew = self._is_out_of_time(arrived_ms - self.now_ms)
        if anew:
            self.began_ms, self.count = arrived_ms, 0
        earliest_ms = arrived_ms - WINDOW_MS * self.count
        self.began_ms = min(self.began_ms + _CLOCK_DRIFT_MS, earliest_ms)
        return anew

    def _is_out_of_time(self, late_ms: float) -> bool:
        if abs(late_ms) <= _LOST_MS:
            self._late.clear()
            return False
        self._late.append(late_ms)
        caught_up = self._late[0] - late_ms > WINDOW_MS
        lost = len(self._late) >= _BURST and not caught_up
        if late_ms < 0 or math.isinf(late_ms) or lost:
            self._late.clear()
            return True
        return False
