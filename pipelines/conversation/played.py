"""What a caller's loudspeaker is playing, as short-time spectra on the grid of the call's clock.

A frame is 32 ms of audio and ends at a hop, a multiple of 8 ms. Its bins lie between 250 and
3,400 Hz: what a telephone carries, an 8 kHz wire has and small loudspeakers radiate. Frames last
equally long at every rate, so their bins are the same frequencies, and nothing is resampled.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.audio import FULL_SCALE, Pcm

Spectra: TypeAlias = NDArray[np.complex64]
Powers: TypeAlias = NDArray[np.float32]

HOP_MS: Final = 8
BINS: Final = 51
BANDS: Final = 17
"""Bins are 62.5 Hz apart, as far as a Hann window's neighbours differ; three make a band."""

REACH: Final = 116
"""Hops back from the newest that can be looked up at any time."""

_FRAME_MS: Final = 32
_ROWS: Final = 192
_USED: Final = slice(8, 110, 2)
_LOWEST_RATE: Final = 8_000
_KEPT_FOR_MS: Final = 1_000.0
_MOST_KEPT_MS: Final = 120_000.0
"""Audio is kept for so long after it was heard; of more than that, the oldest is forgotten."""

_REVERBERATION: Final = 0.34
"""Nepers of power that a room takes off in a hop: 60 dB in 320 ms."""

_TINY: Final = np.float32(1e-12)


class Played:
    """The audio that is or will be heard, and the spectra of what was heard last.

    Spectra are made when they are asked for: of most audio they never are.
    """

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, Pcm]] = deque()
        self._ends_at = -np.inf
        self._kept_ms = 0.0
        self._spectra: Spectra = np.zeros((_ROWS, BINS), np.complex64)
        self._bands: Powers = np.zeros((_ROWS, BANDS), np.float32)
        self._last: int | None = None
        self._heard_until = -np.inf

    def add(self, pcm: Pcm, at_ms: float) -> None:
        """Audio that begins at ``at_ms``, or when what came before it has ended. Below 8 kHz it
        has not the bins that are looked at, and is left out."""
        if not len(pcm) or pcm.rate < _LOWEST_RATE:
            return
        at_ms = max(at_ms, self._ends_at)
        self._ends_at = at_ms + pcm.duration_ms
        self._pieces.append((at_ms, pcm))
        self._kept_ms += pcm.duration_ms
        while self._kept_ms > _MOST_KEPT_MS and len(self._pieces) > 1:
            self._drop_oldest()

    def cut(self, now_ms: float) -> None:
        """What was not heard by now will not be."""
        self._heard_until = min(self._heard_until, now_ms)
        while self._pieces and self._ends_at > now_ms:
            at_ms, pcm = self._pieces.pop()
            self._kept_ms -= pcm.duration_ms
            self._ends_at = _end(self._pieces[-1]) if self._pieces else -np.inf
            heard = int((now_ms - at_ms) * pcm.rate / 1000)
            if heard > 0:
                self.add(Pcm(pcm.samples[:heard], pcm.rate), at_ms)
                return

    def within(self, now_ms: float, last_ms: float) -> bool:
        """Something was being heard within the last so many milliseconds. Time does not go back."""
        if now_ms - last_ms <= self._heard_until:
            return True
        for piece in self._pieces:
            if piece[0] > now_ms:
                break
            self._heard_until = _end(piece)
        self._forget_before(now_ms - _KEPT_FOR_MS)
        return now_ms - last_ms <= self._heard_until

    def advance(self, last: int) -> None:
        """Have the spectra of all frames up to the one that ends at hop ``last``."""
        known = self._last if self._last is not None else last - REACH
        first = max(known + 1, last - REACH + 1)
        if first > last:
            return
        rows = np.arange(first, last + 1) % _ROWS
        self._spectra[rows] = spectra = self._spectra_of(first, last)
        before = self._bands[(first - 1) % _ROWS] if first == known + 1 else np.zeros(BANDS)
        self._bands[rows] = _reverberant(powers(spectra), before.astype(np.float32))
        self._last = last

    def frames(self, hops: NDArray[np.intp]) -> Spectra:
        """The frames (n, 51) that end at these hops, none more than REACH before the newest."""
        return self._spectra[hops % _ROWS]

    def bands(self, hops: NDArray[np.intp]) -> Powers:
        """The powers (n, 17) of their bands, what reverberates of the frames before included."""
        return np.maximum(self._bands[hops % _ROWS], self._bands[(hops + 1) % _ROWS])

    def _spectra_of(self, first: int, last: int) -> Spectra:
        begin_ms, end_ms = float(first * HOP_MS - _FRAME_MS), float(last * HOP_MS)
        hops = np.arange(last - first + 1)
        self._forget_before(end_ms - _KEPT_FOR_MS)
        total: Spectra = np.zeros((len(hops), BINS), np.complex64)
        for rate, samples in self._heard_between(begin_ms, end_ms).items():
            total += spectra_of(samples, hops * HOP_MS * rate // 1000, rate * _FRAME_MS // 1000)
        return total

    def _heard_between(self, begin_ms: float, end_ms: float) -> dict[int, Powers]:
        """The samples of that span, with silence where there are none, for each rate in it."""
        spans: dict[int, Powers] = {}
        for at_ms, pcm in self._pieces:
            if at_ms >= end_ms:
                break
            if at_ms + pcm.duration_ms <= begin_ms:
                continue
            length = int((end_ms - begin_ms) * pcm.rate / 1000)
            span = spans.setdefault(pcm.rate, np.zeros(length, np.float32))
            start = round((at_ms - begin_ms) * pcm.rate / 1000)
            part = pcm.samples[max(0, -start) : max(0, length - start)]
            span[max(0, start) : max(0, start) + len(part)] = part
        return spans

    def _forget_before(self, begin_ms: float) -> None:
        while self._pieces and _end(self._pieces[0]) < begin_ms:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._kept_ms -= self._pieces.popleft()[1].duration_ms


def spectra_of(samples: Powers, starts: NDArray[np.intp], size: int) -> Spectra:
    """The spectra (n, 51) of frames of ``size`` samples (int16 scale), which last 32 ms."""
    window, within = _frame(size)
    frames = samples[starts[:, None] + within] * window
    return np.fft.rfft(frames)[:, _USED].astype(np.complex64)


def power(spectra: Spectra) -> Powers:
    """The power of each bin; its real and imaginary parts squared."""
    squares: Powers = spectra.real**2 + spectra.imag**2
    return squares


def powers(spectra: Spectra) -> Powers:
    """The powers (n, 17) of the bands of frames (n, 51)."""
    of_bands: Powers = power(spectra).reshape(-1, BANDS, BINS // BANDS).sum(axis=2)
    return of_bands


@cache
def _frame(size: int) -> tuple[Powers, NDArray[np.intp]]:
    """A Hann window that also scales to full scale and by length, and its samples' places."""
    window = np.hanning(size + 1)[:-1] / (size * FULL_SCALE)
    return window.astype(np.float32), np.arange(size)


def _reverberant(bands: Powers, before: Powers) -> Powers:
    """Each band (n, 17) no lower than what a room leaves of the frames before."""
    decay = _REVERBERATION * np.arange(len(bands) + 1, dtype=np.float32)[:, None]
    levels = np.log(np.concatenate([before[None], bands]) + _TINY) + decay
    decayed: Powers = np.exp(np.maximum.accumulate(levels) - decay)[1:]
    return decayed


def _end(piece: tuple[float, Pcm]) -> float:
    return piece[0] + piece[1].duration_ms
