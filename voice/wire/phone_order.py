"""Numbered audio in order: what comes late is waited for a little, what is lost is silence."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.audio import Samples

MOST_HELD: Final = 4
"""Messages that may wait for one that is missing: 80 ms at 20 ms each. To wait longer delays the
whole call for a frame that will most likely never come."""
FAR_BEHIND: Final = 50
"""So many numbers back, the other side has begun to count anew."""
MOST_SILENCE_S: Final = 1
"""A gap that looks longer is a jump of the numbers."""


class Reordering:
    """Gives each sample once and in order. ``rate`` bounds how much silence stands for a gap."""

    def __init__(self, rate: int) -> None:
        self._most_silence = MOST_SILENCE_S * rate
        self._held: dict[int, Samples] = {}
        self._next: int | None = None
        self._frame = 0

    def add(self, number: int, samples: Samples) -> list[Samples]:
        """What can be given now that this has come."""
        given: list[Samples] = []
        if self._next is None or number < self._next - FAR_BEHIND:
            given += self.flush()
            self._next = number
        if number < self._next or number in self._held:
            return given
        self._held[number] = samples
        given += self._in_order()
        if len(self._held) > MOST_HELD:
            given += self._over_the_gap()
        return given

    def flush(self) -> list[Samples]:
        """All that is held, with silence where something is still missing."""
        given = []
        while self._held:
            given += self._over_the_gap()
        return given

    def _in_order(self) -> list[Samples]:
        given = []
        while self._next is not None and (samples := self._held.pop(self._next, None)) is not None:
            given.append(samples)
            self._frame = len(samples)
            self._next += 1
        return given

    def _over_the_gap(self) -> list[Samples]:
        first = min(self._held)
        missing = 0 if self._next is None else first - self._next
        lost = min(missing * self._frame, self._most_silence)
        self._next = first
        return [*([np.zeros(lost, np.int16)] if lost else []), *self._in_order()]
