"""Whether a speech model still says what it was asked to say: judged by its codes alone.

Orpheus fails in three ways that can be told without hearing it. It ends far too early, having
skipped words; it goes on and on after the last word; or it is caught in a loop, a drone or a
stutter. Each is a fault of one piece of text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from engines.tts.orpheus_tokens import FRAME_S

TOO_SHORT: Final = "ended too early"
TOO_LONG: Final = "went on too long"
REPEATS: Final = "repeats itself"

_LONG: Final = 3.0
_LONG_GRACE_S: Final = 2.0
_SHORT: Final = 0.3
_SHORT_FROM_S: Final = 1.5
"""A piece may take 3 times what was estimated and 2 s more for breaths and pauses, and has to take
0.3 times; of pieces below 1.5 s the estimate says too little for that."""

_LONGEST_CYCLE: Final = 4
_SAME_FRAMES_S: Final = 1.0
_SAME_SOUND_S: Final = 2.5
"""Sampled speech never repeats all seven codes of a frame for a second, not even in a pause;
its coarse code, one a frame, may stay the same through a pause, but not for two and a half."""


def most_frames(expected_s: float) -> int:
    """The frames that a piece may have at most."""
    return int((_LONG * expected_s + _LONG_GRACE_S) / FRAME_S)


class Watch:
    """Looks at the frames of one piece. ``clean`` is how many of them are worth hearing."""

    def __init__(self, expected_s: float) -> None:
        self.clean = 0
        self._most = most_frames(expected_s)
        self._least = _SHORT * expected_s / FRAME_S if expected_s >= _SHORT_FROM_S else 1
        self._frames = 0
        self._last: deque[Sequence[int]] = deque(maxlen=_LONGEST_CYCLE)
        # For each length of a cycle, the frames that were as those one cycle before them.
        self._same_frames = [0] * _LONGEST_CYCLE
        self._same_sounds = [0] * _LONGEST_CYCLE

    def look(self, frame: Sequence[int]) -> str:
        """Take the next frame; the fault that it reveals, or nothing."""
        for place, before in enumerate(self._last):
            same_sound = frame[0] == before[0]
            same_frame = tuple(frame) == tuple(before)
            self._same_sounds[place] = same_sound * (self._same_sounds[place] + 1)
            self._same_frames[place] = same_frame * (self._same_frames[place] + 1)
        self._last.appendleft(frame)
        self._frames += 1
        repeated = self._repeated()
        if repeated:
            self.clean = self._frames - repeated
            return REPEATS
        self.clean = min(self._frames, self._most)
        return TOO_LONG if self._frames > self._most else ""

    def finish(self) -> str:
        """The piece has ended by itself: the fault that this is, or nothing."""
        return TOO_SHORT if self._frames < self._least else ""

    def _repeated(self) -> int:
        """The frames of a loop after its first round; 0 where there is no loop."""
        for run, limit_s in (
            (max(self._same_frames), _SAME_FRAMES_S),
            (max(self._same_sounds), _SAME_SOUND_S),
        ):
            if run * FRAME_S >= limit_s:
                return run
        return 0
