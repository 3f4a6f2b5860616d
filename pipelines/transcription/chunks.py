"""Long sound cut where nobody speaks: windows with their speech probabilities in, chunks out.

Borders are the endpointer's, as in a call, so that a chunk has its pre-roll and no silence to speak
of. The longer a chunk gets, the shorter a pause will do to end it; speech without any is cut at its
quietest place, and where even that is not quiet, both chunks have the second around it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.audio import Pcm, Samples
from pipelines.conversation.endpoint import WINDOW_MS, Border, Endpointer, EndpointSettings

RATE: Final = 16_000
MOST_MS: Final = 28_000
"""What recognisers hear at a time (``engines.asr.listening``)."""

GOOD_MS: Final = 12_000
"""From here on a chunk costs a recogniser of the Whisper kind more for each second of it, and more
words of it get lost."""

_TAIL_MS: Final = 192
"""Silence behind the last word that stays: a soft consonant may lie in it."""

_HUSH: Final = 4
"""Windows of quiet that a cut in mid-speech wants to be in."""

_QUIET_DB: Final = 20.0
"""A place this far below the loud ones of its chunk lies between two words."""

_SHARED: Final = 32
"""Windows that two chunks have in common where no such place was found: about a second."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """``silence_ms`` between two chunks, or ``pause_ms`` where the one before is ``good_ms`` long;
    ``prefix_ms`` of pre-roll; none is above ``most_ms``."""

    threshold: float = 0.5
    silence_ms: int = 600
    prefix_ms: int = 300
    most_ms: int = MOST_MS
    good_ms: int = GOOD_MS
    pause_ms: int = 250


@dataclass(frozen=True, slots=True)
class Chunk:
    """``pcm`` at 16 kHz from ``start_ms`` of the file on; somebody speaks between the other two
    times. ``shared_ms`` of its end are the beginning of the next chunk too."""

    pcm: Pcm
    start_ms: int
    speech_start_ms: int
    speech_end_ms: int
    shared_ms: int = 0

    def span(self, start_ms: int, end_ms: int, least_ms: int = 1) -> tuple[int, int]:
        """From a time within it to another, as times of the file, held within its speech; it has
        ``least_ms``, so that what may have none overlaps nothing that it did not before."""
        first, last = self.speech_start_ms, self.speech_end_ms
        return held(self.start_ms + start_ms, self.start_ms + end_ms, first, last, least_ms)


def held(start_ms: int, end_ms: int, first_ms: int, last_ms: int, least_ms: int) -> tuple[int, int]:
    """A span held within another: see ``Chunk.span``."""
    start_ms = min(max(start_ms, first_ms), last_ms - least_ms)
    return start_ms, min(max(end_ms, start_ms + least_ms), last_ms)


class Chunker:
    """Of one file. Windows are (512,) int16 at 16 kHz, one after the other."""

    def __init__(self, settings: ChunkSettings | None = None) -> None:
        self._settings = settings = settings or ChunkSettings()
        endpoint = EndpointSettings(
            threshold=settings.threshold,
            silence_ms=settings.silence_ms,
            prefix_ms=settings.prefix_ms,
            ahead_ms=settings.silence_ms,
            max_turn_ms=600_000,
        )
        self._endpoint = Endpointer(endpoint)
        self._kept: deque[Samples] = deque()
        self._levels: deque[float] = deque()
        self._first = 0  # the number of the first window that is kept
        self._speech_at = 0
        self._good = settings.good_ms // WINDOW_MS
        self._most = settings.most_ms // WINDOW_MS
        self._preroll = endpoint.preroll_ms // WINDOW_MS + 2

    @property
    def position_ms(self) -> int:
        """How much has been heard."""
        return self._endpoint.position_ms

    def hear(self, window: Samples, probability: float, level_db: float) -> Chunk | None:
        """Take the next window; a chunk that it completes."""
        border = self._endpoint.hear(probability, level_db)
        self._kept.append(window)
        self._levels.append(level_db)
        if border is Border.STARTED:
            self._forget_before(self._endpoint.start_ms // WINDOW_MS)
            self._speech_at = min(self._first + self._lead(), self._endpoint.position)
        elif border is Border.STOPPED:
            end = self._endpoint.position - self._endpoint.quiet_ms // WINDOW_MS
            return self._take(end)
        elif not self._endpoint.speaking:
            self._forget_before(self._endpoint.position - self._preroll)
        elif len(self._kept) >= self._most:
            return self._cut()
        elif len(self._kept) == self._good:
            self._endpoint.wait(min(self._settings.pause_ms, self._settings.silence_ms))
        return None

    def finish(self) -> Chunk | None:
        """The file is over; the chunk that is still open."""
        if not self._endpoint.speaking:
            return None
        end = self._endpoint.position - self._endpoint.silent_ms // WINDOW_MS
        self._endpoint.reset()
        return self._take(end)

    def _lead(self) -> int:
        return self._settings.prefix_ms // WINDOW_MS

    def _forget_before(self, window: int) -> None:
        while self._first < window and self._kept:
            self._kept.popleft()
            self._levels.popleft()
            self._first += 1

    def _cut(self) -> Chunk:
        """In mid-speech: at the quietest place of the second half."""
        levels = np.fromiter(self._levels, np.float64, len(self._levels))
        smooth = np.convolve(levels, np.ones(_HUSH) / _HUSH, mode="valid")
        half = len(levels) // 2
        place = half + int(np.argmin(smooth[half:]))
        at, clean = place + _HUSH // 2, smooth[place] < np.percentile(levels, 90) - _QUIET_DB
        shared = 0 if clean else _SHARED
        end = min(at + shared // 2, len(levels))
        chunk = self._chunk(end, self._first + end, shared * WINDOW_MS)
        self._forget_before(self._first + end - shared)
        self._speech_at = self._first
        return chunk

    def _take(self, speech_end: int) -> Chunk:
        """What is kept, up to a little behind the end of its speech."""
        count = min(len(self._kept), speech_end - self._first + _TAIL_MS // WINDOW_MS)
        return self._chunk(count, speech_end)

    def _chunk(self, count: int, speech_end: int, shared_ms: int = 0) -> Chunk:
        windows = [self._kept[index] for index in range(count)]
        return Chunk(
            Pcm(np.concatenate(windows), RATE),
            self._first * WINDOW_MS,
            self._speech_at * WINDOW_MS,
            max(speech_end, self._speech_at + 1) * WINDOW_MS,
            shared_ms,
        )
