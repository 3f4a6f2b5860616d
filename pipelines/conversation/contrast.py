"""Whether what is heard rises and falls as one voice does.

People nearby, music and machines fill the gaps that a single speaker leaves: what a VAD takes for
speech in them stays within a few dB for as long as it lasts.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pipelines.conversation.endpoint import WINDOW_MS

HEARD_MS: Final = 2_000
"""So much is looked back at: shorter, and a long vowel would seem even."""

EVEN_DB: Final = 10.0
"""Between the 10th and the 95th of a hundred windows. Two seconds of eight people or more came to
9.8 at most, of one in a quiet room to 20 or more, 10 dB above a crowd to 13 or more."""

OUTSTANDING_DB: Final = 15.0
"""A window so far above the 10th of a hundred is somebody's who has just begun to speak: no crowd's
ever was."""

_WINDOWS: Final = HEARD_MS // WINDOW_MS
_SOFT, _LOUD = _WINDOWS // 10, _WINDOWS - 1 - _WINDOWS // 20


class Contrast:
    """The levels of the last two seconds."""

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=_WINDOWS)

    def add(self, level_db: float) -> None:
        """Take the level of the next window, in dB of full scale."""
        self._levels.append(level_db)

    @property
    def even(self) -> bool:
        """No voice stands out, up to the last window. Before there are two seconds nobody can
        tell."""
        if len(self._levels) < _WINDOWS:
            return False
        ordered = sorted(self._levels)
        soft = ordered[_SOFT]
        return ordered[_LOUD] - soft < EVEN_DB and self._levels[-1] - soft < OUTSTANDING_DB
