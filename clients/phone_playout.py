"""What a caller on the telephone hears: audio that plays in real time, on a clock passed in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Chunks are laid end to end on a clock of floats; what is below this is rounding, not silence.
_ROUNDING_S = 1e-6


@dataclass(slots=True)
class Run:
    """Audio without a gap, from ``start`` on, in seconds of the caller's clock."""

    start: float
    samples: NDArray[np.int16]


class Playout:
    """Plays mono 16-bit audio at ``rate`` as it comes, each sample once and in order."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._end = 0.0
        self._marks: list[tuple[float, str]] = []
        self.runs: list[Run] = []

    def put(self, samples: NDArray[np.int16], now: float) -> None:
        """More audio: after what is queued, or at once where nothing is."""
        if not len(samples):
            return
        if not self.runs or now > self._end + _ROUNDING_S:
            self.runs.append(Run(now, samples))
            self._end = now
        else:
            self.runs[-1].samples = np.concatenate([self.runs[-1].samples, samples])
        self._end += len(samples) / self._rate

    def mark(self, name: str, now: float) -> None:
        """Tell when all that was put before has been played."""
        self._marks.append((max(now, self._end), name))

    def due(self, now: float) -> list[str]:
        """The marks that have been reached, each once."""
        reached = [name for at, name in self._marks if at <= now + _ROUNDING_S]
        del self._marks[: len(reached)]
        return reached

    @property
    def deadline(self) -> float | None:
        """When the next mark is reached."""
        return self._marks[0][0] if self._marks else None

    def clear(self, now: float) -> list[str]:
        """Throw away what has not been played; the marks that waited."""
        waiting = [name for _, name in self._marks]
        self._marks.clear()
        if now < self._end:
            run = self.runs[-1]
            run.samples = run.samples[: max(0, round((now - run.start) * self._rate))]
            self._end = now
        return waiting

    def queued_s(self, now: float) -> float:
        """How much there still is to play."""
        return max(0.0, self._end - now)

    def heard_s(self, now: float) -> float:
        """How much has been played, silence not counted."""
        return sum(len(run.samples) for run in self.runs) / self._rate - self.queued_s(now)

    def heard(self, start: float, now: float) -> NDArray[np.int16]:
        """What came out between the two, silence where nothing played."""
        heard = np.zeros(max(0, round((now - start) * self._rate)), np.int16)
        for run in self.runs:
            at = round((run.start - start) * self._rate)
            samples = run.samples[max(0, -at) : max(0, len(heard) - at)]
            heard[max(0, at) : max(0, at) + len(samples)] = samples
        return heard
