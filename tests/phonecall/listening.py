"""What a recording of a call holds: where there is sound, and where sound is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import Pcm

WINDOW_MS: Final = 10
QUIET: Final = 0.003
"""Root mean square below which nothing is heard: 50 dB below full scale."""

PAUSE_MS: Final = 400
"""A longer silence ends what was being said."""

PIECE_MS: Final = 300
SEARCHED_MS: Final = 250
"""Around its place."""
LOUD: Final = 0.02


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of sound, in milliseconds, and the longest silence within it."""

    start_ms: int
    end_ms: int
    gap_ms: int

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.start_ms


def spells(pcm: Pcm) -> list[Spell]:
    """Where there is sound."""
    sounding = np.flatnonzero(_levels(pcm) > QUIET)
    if not len(sounding):
        return []
    breaks = np.flatnonzero(np.diff(sounding) * WINDOW_MS > PAUSE_MS) + 1
    return [_spell(part) for part in np.split(sounding, breaks)]


def cut(pcm: Pcm, spell: Spell) -> Pcm:
    """The sound of a spell."""
    return pcm.part(spell.start_ms * pcm.rate // 1000, spell.end_ms * pcm.rate // 1000)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of what was said, as it was found again: ``late_ms`` behind its place, as like as
    ``likeness``, which is 1 for the same."""

    late_ms: int
    likeness: float


def pieces(sound: Pcm, said: Pcm, start_ms: int, end_ms: int) -> list[Piece]:
    """Where the pieces of what was said from ``start_ms`` on are in ``sound``, up to ``end_ms``. A
    piece without much sound could be anywhere, and is left out."""
    assert sound.rate == said.rate
    rate, spoken, found = said.rate, said.floats(), []
    for at_ms in range(0, int(said.duration_ms) - PIECE_MS + 1, PIECE_MS):
        piece = spoken[at_ms * rate // 1000 :][: PIECE_MS * rate // 1000]
        place_ms = start_ms + at_ms
        if place_ms + PIECE_MS > end_ms or np.sqrt(np.square(piece).mean()) < LOUD:
            continue
        first_ms = max(0, place_ms - SEARCHED_MS)
        last = (place_ms + PIECE_MS + SEARCHED_MS) * rate // 1000
        late, likeness = _found(sound.floats()[first_ms * rate // 1000 : last], piece)
        found.append(Piece(round(late * 1000 / rate) + first_ms - place_ms, likeness))
    return found


def _found(sound: NDArray[np.floating], piece: NDArray[np.floating]) -> tuple[int, float]:
    """Where the piece is most like the sound, and how like."""
    powers = np.convolve(np.square(sound), np.ones(len(piece)), "valid")
    norms = np.sqrt(powers * np.square(piece).sum()) + 1e-6
    likeness = np.correlate(sound, piece, "valid") / norms
    best = int(np.argmax(likeness))
    return best, float(likeness[best])


def _levels(pcm: Pcm) -> NDArray[np.floating]:
    size = pcm.rate * WINDOW_MS // 1000
    whole = pcm.floats()[: len(pcm) // size * size].reshape(-1, size)
    levels: NDArray[np.floating] = np.sqrt(np.square(whole).mean(axis=1))
    return levels


def _spell(windows: NDArray[np.intp]) -> Spell:
    gap = max(np.diff(windows) - 1, default=0)
    first, last = int(windows[0]), int(windows[-1])
    return Spell(first * WINDOW_MS, (last + 1) * WINDOW_MS, int(gap) * WINDOW_MS)
