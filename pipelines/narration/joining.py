"""Pieces of speech, joined: the silence at their ends gives way to the pause that is wanted, edges
rise and fall so that none clicks, and each piece is as loud as the others.

The samples that come out depend on those that went in, not on how they came in pieces; only the
level of a piece that is not fed whole rests on the first part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import FULL_SCALE, Pcm, Samples
from pipelines.speaking.loudness import LevelledPhrase, Leveller, Trend, fade_in, fade_out

_FRAME_MS: Final = 5
_SOUND: Final = (FULL_SCALE * 10 ** (-50 / 20)) ** 2
"""Mean square of 5 ms from which on they are no silence, as engines have it."""

_HEAD_FRAMES: Final = 4
_TAIL_FRAMES: Final = 8
"""What stays in front of the first and behind the last sound, where it is faint: an f, a breath."""


@dataclass(frozen=True, slots=True)
class Seam:
    """All that the next piece has to know of those before. ``owed_ms``: the pause that a piece
    without sound would have come after; ``tail_ms``: how long it has been quiet by now; ``rate``
    is 0 before the first sound."""

    trend: Trend = field(default_factory=Trend)
    peak: float = 1.0
    owed_ms: int = 0
    tail_ms: float = 0.0
    rate: int = 0


class Joiner:
    """Of one narration. Pieces come one after the other; ``speed`` shortens the pauses, too."""

    def __init__(self, speed: float = 1.0, seam: Seam | None = None) -> None:
        seam = seam or Seam()
        self._speed = speed
        self._leveller = Leveller(seam.trend, seam.peak)
        self._owed_ms, self._tail_ms, self._rate = seam.owed_ms, seam.tail_ms, seam.rate

    @property
    def seam(self) -> Seam:
        """Between two pieces: a joiner that is given it goes on as this one would."""
        trend, peak = self._leveller.state
        return Seam(trend, peak, self._owed_ms, self._tail_ms, self._rate)

    def piece(self, pause_ms: int) -> JoinedPiece:
        """The next piece, after this pause at least."""
        self._owed_ms = max(self._owed_ms, pause_ms)
        return JoinedPiece(self, self._leveller.phrase())

    def end(self, pause_ms: int) -> Pcm | None:
        """The silence at the end; None where nothing has been heard."""
        return self._pause(pause_ms, self._rate, 0.0) if self._rate else None

    def begin(self, head_ms: float, rate: int) -> Pcm:
        """For pieces: the silence before a sound that has so much of its own."""
        owed, self._owed_ms = self._owed_ms, 0
        if not self._rate:  # nothing to pause after
            owed = 0
        self._rate = rate
        return self._pause(owed, rate, head_ms)

    def left(self, tail_ms: float) -> None:
        """For pieces: one is over, with so much silence behind its last sound."""
        self._tail_ms = tail_ms

    def _pause(self, pause_ms: float, rate: int, head_ms: float) -> Pcm:
        missing = pause_ms / self._speed - self._tail_ms - head_ms
        return Pcm.silence(max(0, round(missing)), rate)


class JoinedPiece:
    """One piece: what ``feed`` and ``finish`` give is the next of the whole."""

    def __init__(self, joiner: Joiner, levelled: LevelledPhrase) -> None:
        self._joiner = joiner
        self._levelled = levelled
        self._held: Samples = np.zeros(0, np.int16)
        self._rate = 0
        self._sounded = False

    def feed(self, pcm: Pcm) -> list[Pcm]:
        """Take more sound, and give what is certain to stay as it is."""
        if not len(pcm):
            return []
        self._rate = pcm.rate
        self._held = np.concatenate([self._held, self._levelled.feed(pcm).samples])
        given = [] if self._sounded else self._head()
        if self._sounded and (sure := self._sounding() - self._frame) > 0:  # the end may fall
            given.append(self._take(sure))
        return given

    def finish(self) -> list[Pcm]:
        """All of it has been fed: the rest, less the silence at its end."""
        self._levelled.finish()
        if not self._sounded:
            return []
        last = self._sounding()
        kept = min(len(self._held), last + _TAIL_FRAMES * self._frame)
        self._joiner.left(1000.0 * (kept - last) / self._rate)
        return [fade_out(self._take(kept))]

    def _head(self) -> list[Pcm]:
        """The pause and the rise of the first sound, once there is one: until then nothing but
        what may stay in front of it is held."""
        loud, frame = self._loud(), self._frame
        first = int(loud[0]) if len(loud) else len(self._held) // frame
        start = max(0, first - _HEAD_FRAMES)
        self._held = self._held[start * frame :]
        if not len(loud):
            return []
        self._sounded = True
        self._held[:frame] = fade_in(Pcm(self._held[:frame], self._rate)).samples
        pause = self._joiner.begin(float((first - start) * _FRAME_MS), self._rate)
        return [pause] if len(pause) else []

    def _loud(self) -> NDArray[np.intp]:
        """Which of the whole frames that are held are no silence. They are counted from the
        beginning of the piece: only whole ones are taken before its end."""
        frame = self._frame
        frames = self._held[: len(self._held) // frame * frame].astype(np.float32)
        frames = frames.reshape(-1, frame)
        return np.flatnonzero(np.einsum("ij,ij->i", frames, frames) > frame * _SOUND)

    def _sounding(self) -> int:
        """Where the last sound that is held ends, in samples."""
        loud = self._loud()
        return (int(loud[-1]) + 1) * self._frame if len(loud) else 0

    def _take(self, count: int) -> Pcm:
        taken, self._held = self._held[:count], self._held[count:]
        return Pcm(taken, self._rate)

    @property
    def _frame(self) -> int:
        return max(1, round(_FRAME_MS * self._rate / 1000))
