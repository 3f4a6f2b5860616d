"""The audio of the caller's open turn, from before the moment the VAD was sure of it."""

from __future__ import annotations

from collections import deque

import numpy as np

from engines.audio import Pcm, Samples
from pipelines.conversation.endpoint import WINDOW_MS

RATE = 16_000


class Hearing:
    """Keeps the windows of the open turn; between turns just the last ``preroll_ms`` of them.

    A first syllable lies before the window that proves it is one, so a turn's audio begins with
    the pre-roll. Where nobody detects turns, all is kept from one to the next (``keep_all``).
    What goes beyond ``most_ms`` is dropped, and ``overflowed`` says so.
    """

    def __init__(self, preroll_ms: int = 0, most_ms: int = 0, *, keep_all: bool = False) -> None:
        self._windows: deque[Samples] = deque()
        self._open = self.overflowed = False
        self.configure(preroll_ms, most_ms, keep_all=keep_all)

    def configure(self, preroll_ms: int, most_ms: int, *, keep_all: bool) -> None:
        """Keep so much before each turn from now on, or all of it, and no more than ``most_ms``."""
        self._preroll = _windows(preroll_ms)
        self._most = _windows(most_ms)
        self._keep_all = keep_all

    @property
    def duration_ms(self) -> int:
        """The audio that is kept."""
        return len(self._windows) * WINDOW_MS

    def add(self, window: Samples) -> None:
        """Keep one more window (512,) of 16 kHz."""
        kept = self._open or self._keep_all
        if kept and len(self._windows) >= self._most:
            self.overflowed = True
            return
        self._windows.append(window)
        while not kept and len(self._windows) > self._preroll:
            self._windows.popleft()

    def open(self) -> None:
        """A turn has begun: from here on all of it is kept."""
        self._open = True

    def close(self, quiet_ms: int = 0) -> None:
        """The turn is over: nothing of it belongs to the next but the silence at its end, in
        which a soft first sound may hide."""
        self._open = self.overflowed = False
        kept = min(quiet_ms // WINDOW_MS, self._preroll)
        while len(self._windows) > kept:
            self._windows.popleft()

    def audio(self) -> Pcm:
        """All that is kept, at 16 kHz."""
        if not self._windows:
            return Pcm(np.zeros(0, np.int16), RATE)
        return Pcm(np.concatenate(self._windows), RATE)


def _windows(milliseconds: int) -> int:
    return -(-milliseconds // WINDOW_MS)
