"""Speech as loud from phrase to phrase, and cuts that do not click.

A phrase is begun before its end is known, so its level can only be foretold from what is there
when it begins: for a voice that gives phrases whole, all of it; for one that streams, the first
tenth of a second, which says less. How much that says of the phrase is learnt from the phrases
so far, as the line that fits them best, and only so much is put right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import FULL_SCALE, Pcm, Samples

MOST_GAIN_DB: Final = 6.0
FADE_MS: Final = 5.0

_FRAME_S: Final = 0.01
_SPEECH_POWER: Final = (FULL_SCALE * 10 ** (-50 / 20)) ** 2
"""Mean square of a frame from which on it is speech, not a pause: −50 dB of full scale."""

_MEMORY: Final = 16
"""Phrases after which an older one counts for little."""

_DOUBT: Final = 2.0
"""dB² that speak for half of the difference, until the phrases say more."""

_TOP: Final = FULL_SCALE - 1
_KNEE: Final = 0.9 * _TOP
_LEAST_GAIN_DB: Final = 0.25
"""Nobody hears less, and the samples stay as they are."""


@dataclass(slots=True)
class Trend:
    """What the phrases so far say of the next: means in dB, and how onset and level go together."""

    phrases: int = 0
    onset_db: float = 0.0
    level_db: float = 0.0
    spread: float = 0.0
    common: float = 0.0

    def excess_db(self, onset_db: float) -> float:
        """How much louder than the mean a phrase with this onset will probably be."""
        slope = (self.common + 0.5 * _DOUBT) / (self.spread + _DOUBT)
        return min(max(slope, 0.0), 1.0) * (onset_db - self.onset_db)

    def add(self, onset_db: float, level_db: float) -> None:
        self.phrases += 1
        share = 1 / min(self.phrases, _MEMORY)
        onset, level = onset_db - self.onset_db, level_db - self.level_db
        self.onset_db += share * onset
        self.level_db += share * level
        keep = 1 - 1 / _MEMORY
        self.spread = keep * self.spread + (1 - share) * onset * onset
        self.common = keep * self.common + (1 - share) * onset * level


class Leveller:
    """Keeps one voice of one call steady. It holds nothing back and waits for nothing."""

    def __init__(self, trend: Trend | None = None, peak: float = 1.0) -> None:
        self._trend = replace(trend) if trend else Trend()
        self._peak = peak

    @property
    def state(self) -> tuple[Trend, float]:
        """What it knows by now: another that is made of it goes on as this one would."""
        return replace(self._trend), self._peak

    def phrase(self) -> LevelledPhrase:
        """The next phrase. Phrases may overlap; each counts once it is finished."""
        return LevelledPhrase(self)

    def gain_for(self, onset_db: float, peak: float) -> float:
        """The factor for a phrase that begins at this level, with this peak (of 32767)."""
        if not self._trend.phrases:
            return 1.0
        wanted_db = -self._trend.excess_db(onset_db)
        if abs(wanted_db) < _LEAST_GAIN_DB:
            return 1.0
        gain = 10 ** (min(max(wanted_db, -MOST_GAIN_DB), MOST_GAIN_DB) / 20)
        return float(min(gain, max(1.0, _KNEE / max(peak, self._peak))))

    def learn(self, onset_db: float, level_db: float, peak: float) -> None:
        """Take in a phrase as the voice spoke it."""
        self._trend.add(onset_db, level_db)
        self._peak = max(peak, self._peak)


class LevelledPhrase:
    """One phrase under one gain, which the first piece that holds speech decides."""

    def __init__(self, leveller: Leveller) -> None:
        self._leveller = leveller
        self._gain = 1.0
        self._onset_db: float | None = None
        self._pieces: list[Pcm] = []

    def feed(self, pcm: Pcm) -> Pcm:
        """The next piece, levelled. Silence before the speech stays as it is."""
        self._pieces.append(pcm)
        if self._onset_db is None and (loudness := _loudness([pcm])):
            self._onset_db, peak = loudness
            self._gain = self._leveller.gain_for(self._onset_db, peak)
        if self._gain == 1.0:
            return pcm
        return Pcm(_amplified(pcm.samples, self._gain), pcm.rate, pcm.marks)

    def finish(self) -> None:
        """All of it has been fed: the next ones are measured by it."""
        loudness = _loudness(self._pieces)
        if self._onset_db is not None and loudness:
            self._leveller.learn(self._onset_db, *loudness)


def _loudness(pieces: Sequence[Pcm]) -> tuple[float, float] | None:
    """The level of the parts that hold speech, in dB of full scale, and the peak of 32767; None
    where no part does. Pieces are measured together: each by itself costs five times as much."""
    if not pieces:
        return None
    frame = max(1, round(_FRAME_S * pieces[0].rate))
    samples = np.concatenate([pcm.samples for pcm in pieces])
    frames = samples[: len(samples) // frame * frame].astype(np.float32).reshape(-1, frame)
    powers = np.einsum("ij,ij->i", frames, frames) / frame
    active = powers[powers > _SPEECH_POWER]
    if not len(active):
        return None
    level_db = 10 * np.log10(active.mean() / FULL_SCALE**2)
    return float(level_db), max(1.0, float(frames.max()), -float(frames.min()))


def fade_in(pcm: Pcm, milliseconds: float = FADE_MS) -> Pcm:
    """The same audio, its first milliseconds rising from silence as half a cosine does."""
    rise = _rise(min(round(milliseconds * pcm.rate / 1000), len(pcm)))
    samples = pcm.samples.copy()
    samples[: len(rise)] = np.rint(samples[: len(rise)] * rise)
    return Pcm(samples, pcm.rate)


def fade_out(pcm: Pcm, milliseconds: float = FADE_MS) -> Pcm:
    """The same audio, its last milliseconds falling to silence."""
    fall = _rise(min(round(milliseconds * pcm.rate / 1000), len(pcm)))[::-1]
    samples = pcm.samples.copy()
    samples[len(samples) - len(fall) :] = np.rint(samples[len(samples) - len(fall) :] * fall)
    return Pcm(samples, pcm.rate)


@lru_cache(maxsize=32)
def _rise(length: int) -> NDArray[np.float32]:
    """(length,) float32 from 0 to 1, neither of them included."""
    steps = (np.arange(length) + 0.5) / max(length, 1)
    return (0.5 - 0.5 * np.cos(np.pi * steps)).astype(np.float32)


def _amplified(samples: Samples, gain: float) -> Samples:
    """``samples`` by ``gain``. From the knee on they rise ever less, so that full scale comes out
    as full scale and nothing is cut off."""
    louder: NDArray[np.float32] = samples.astype(np.float32) * np.float32(gain)
    if gain > 1.0 and float(np.abs(louder).max(initial=0.0)) > _KNEE:
        beyond = np.maximum(np.abs(louder) - _KNEE, 0.0)
        curve = 1 / (_TOP - _KNEE) - 1 / (gain * FULL_SCALE - _KNEE)
        bent = np.copysign(_KNEE + beyond / (1 + beyond * curve), louder)
        louder = np.where(beyond > 0, bent, louder).astype(np.float32)
    return np.rint(louder).astype(np.int16)
