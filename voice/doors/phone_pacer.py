"""When audio goes out to a telephone: by the clock of its samples, a little ahead, not in a burst.

Audio sent just in time has gaps, and what is sent far ahead cannot be taken back. So the other
side is kept between two leads. Its clock is that of the samples: a frame ends where the one before
it ended and its own length later, whenever it was sent, so that nothing drifts. Where it ran dry
(the voice was late, or this process stood still) its clock starts anew: what was not played then is
played later, and not sent in a heap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.audio import Samples


@dataclass(frozen=True, slots=True)
class Lead:
    """How far ahead of its listener the audio is, in milliseconds: once there is no more than
    ``least_ms``, it is filled up to ``most_ms``."""

    least_ms: float = 120.0
    most_ms: float = 180.0


STEADY: Final = Lead(20.0, 60.0)
"""For who passes on at once what comes, and takes nothing back: each frame goes out alone."""

_NOTHING: Final[Samples] = np.zeros(0, np.int16)
_ROUNDING_MS: Final = 1e-6
"""What adding up floats may lose."""
EARLY_MS: Final = 1.0
"""A timer may be so much too early, where its loop counts whole milliseconds."""


class Pacer:
    """One leg's audio on its way out, in frames of ``frame_ms`` at ``rate`` Hz. ``now`` is in
    milliseconds of a clock that never falls. Where it is not ``paced`` the other side keeps time,
    and is given all at once."""

    def __init__(
        self, rate: int, frame_ms: int, lead: Lead | None = None, *, paced: bool = True
    ) -> None:
        self.rate = rate
        self.frame_ms = frame_ms
        self.sent_ms = 0.0
        """Audio that was sent, padding included."""
        self._frame = rate * frame_ms // 1000
        self._lead = lead or Lead()
        self._paced = paced
        self._waiting: Samples = _NOTHING
        self._ends_at = -math.inf
        self._held = False

    @property
    def waiting_ms(self) -> float:
        """Audio that is still to be sent."""
        return 1000.0 * len(self._waiting) / self.rate

    @property
    def ends_at(self) -> float:
        """When the listener has heard all that was sent, as far as this clock knows."""
        return self._ends_at

    @property
    def deadline(self) -> float | None:
        """When there is something to ``take``; None while there is nothing, or it is held."""
        if self._held or len(self._waiting) < self._frame:
            return None
        return self._ends_at - self._lead.least_ms if self._paced else -math.inf

    def put(self, samples: Samples) -> None:
        """More audio. What does not fill a frame waits for the rest of it."""
        self._waiting = np.concatenate([self._waiting, samples])

    def fill(self) -> None:
        """Nothing comes for now: silence fills the last frame."""
        rest = len(self._waiting) % self._frame
        if rest:
            self.put(np.zeros(self._frame - rest, np.int16))

    def hold(self, held: bool) -> None:
        """The other side takes nothing for now, or takes it again."""
        self._held = held

    def take(self, now: float) -> list[Samples]:
        """The frames that are to be sent now."""
        due = self.deadline
        if due is None or now < due - EARLY_MS:
            return []
        frames = [self._send(now)]
        while len(self._waiting) >= self._frame and self._has_room(now):
            frames.append(self._send(now))
        return frames

    def clear(self, now: float, *, flushed: bool) -> Samples:
        """Forget what waits; ``flushed``: the other side has forgotten what it had, too. Gives the
        frame that would have been next, empty where there was none."""
        following, self._waiting = self._waiting[: self._frame], _NOTHING
        if flushed:
            self._ends_at = min(self._ends_at, now)
        return following

    def _has_room(self, now: float) -> bool:
        ahead_ms = self._ends_at + self.frame_ms - now
        return not self._paced or ahead_ms <= self._lead.most_ms + _ROUNDING_MS

    def _send(self, now: float) -> Samples:
        frame, self._waiting = self._waiting[: self._frame], self._waiting[self._frame :]
        self._ends_at = max(self._ends_at, now) + self.frame_ms
        self.sent_ms += self.frame_ms
        return frame
