"""How much of what the microphone hears is the agent's own voice come back.

The guard knows what is being played, and when, by the ledger's model of the listener. Of each
window that the VAD takes for speech it asks what the played audio cannot explain:

1. Where the echo is (``_Search``). For every delay up to 640 ms, how coherent microphone and
   playback have been over the last 250 ms. A caller over headphones seldom gets beyond 0.3 at a
   delay that stays; echo begins at about 0.5, within its first 100 ms.
2. What it sounds like (``_Path``). Each bin of the echo is predicted from the last 80 ms of the
   playback by least squares (convolution in the time-frequency domain: Talmon, Cohen, Gannot,
   IEEE TASLP 17(4), 2009). That holds for any level, filter and delay between frames, and takes
   16 to 20 dB off the echo of a line and 8 off that of a reverberant room.
3. How good the prediction is. The residual that echo alone leaves is tracked in each band, in
   proportion to the played band, its reverberation included. At first it is the echo itself:
   until there is more to go by, the guard goes by the envelopes.
4. What is left above that is somebody else.

Delays may jump and loudspeakers be turned up: while the prediction says caller, a path that is
learned from these windows alone is tried in the next one, and stays if it predicts more. Of a
caller nothing can be predicted from what is played.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.audio import Pcm, Samples
from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.played import (
    BANDS,
    BINS,
    HOP_MS,
    Played,
    Powers,
    Spectra,
    power,
    powers,
    spectra_of,
)
from pipelines.conversation.sample_clock import SampleClock

Hops: TypeAlias = NDArray[np.intp]

AUDIBLE_FOR_MS: Final = 500.0
_REMEMBERED_MS: Final = 10_000.0
"""Echo of what was played may arrive for so long; that there is any is remembered for so long."""

_SIZE: Final = 512
_STEP: Final = 256
_STEP_HOPS: Final = 2
"""A window's samples, which are a frame's; two frames of the microphone end in each window."""

_CATCH_UP: Final = 6
_RECENT: Final = 24
"""Windows before a suspect one that are looked at with it; frames to learn a new path from."""

_DELAYS: Final = np.arange(80)
_TAPS: Final = np.array([-1, 0, 1, 2, 3, 5, 7, 9])
"""The frames of the playback that predict one of the echo: hops before the one at its delay."""

_SEARCH_MEMORY: Final = np.float32(0.94)
_PATH_MEMORY: Final = np.float32(0.985)
"""What remains of a frame when 16 ms have passed: averages over 250 ms and over a second."""

_IS_ECHO: Final = 0.4
_FOUND_AFTER: Final = 2
"""Coherence, at one delay for so many windows, that makes a path worth a trial."""

_NEW: Final = 3
_PROOF: Final = 0.12
_BETTER: Final = 0.1
"""Windows after which a path must have predicted so much of what is heard; and how much more than
the present path one has to predict, in the window after those it was found in, to replace it."""

_LEARNABLE: Final = 0.6
"""A window with a lower share of echo teaches nothing."""

_LEAKAGE: Final = 0.05
_EARLY: Final = 4.0
"""Of the least squares: the diagonal's share, and how much more while there are few frames."""

_NOVICE: Final = 16
_SOLVE_EVERY: Final = 4
"""After so many windows a filter no longer changes much from one to the next."""

_MARGIN: Final = np.float32(4.0)
_BEST: Final = np.float32(0.06)
"""6 dB above the expected residual is somebody else. No residual is expected to be lower than
the echo by more than 12 dB: a filter that happens to fit well must make nobody a caller."""

_FAINT: Final = np.float32(6e-4)
_PEAK_MEMORY: Final = 0.93
_NOISE: Final = np.float32(5.0)
_NOISE_RISE: Final = np.float32(1.01)
"""Nothing is heard 32 dB below the loudest band of the last half second, nor up to 7 dB above
the least that a band has had, which is let rise by 2.7 dB a second."""

_FIRST_STEP: Final = 0.5
_SLOWEST_STEP: Final = 0.04
_GAIN_STEP: Final = 0.08
"""Of the trackers of levels; each holds a ratio's 80th percentile."""

_WEIGHT: Final = 0.25
"""Bands count by the fourth root of their power: a caller's faint ones are as telling."""

_SCALE: Final = 3.0
_HOLD: Final = 0.8
"""A third of a window is as good as all of it. Of what was a caller's three quarters remain in
the next window, since speech has gaps."""

_TINY: Final = np.float32(1e-12)
_IDENTITY: Final = np.eye(len(_TAPS), dtype=np.float32)


class _Heard(NamedTuple):
    """Frames (n, 51) of the microphone, and the hops (n,) that they end at."""

    hops: Hops
    frames: Spectra


class EchoGuard:
    """Judges the windows of one call. Times are of the call's clock, in milliseconds.

    As long as no echo was ever found, all shares are 0: the first two or three suspect windows
    of a call's first echo pass for a caller's, which is less than an interruption takes, and
    nothing ever stands between the agent and a caller over headphones.
    """

    def __init__(self) -> None:
        self._played = Played()
        self._search = _Search()
        self._path: _Path | None = None
        self._other: _Path | None = None  # on trial in the next window
        self._recent: deque[_Heard] = deque(maxlen=_RECENT // _STEP_HOPS)
        self._windows: deque[Samples] = deque(maxlen=_CATCH_UP + 1)
        self._clock = SampleClock()
        self._unseen = self._contrary = self._likely = 0
        self._echo_at = -np.inf

    def sounded(self, pcm: Pcm, at_ms: float) -> None:
        """This audio, of any rate from 8 kHz, begins to be heard at ``at_ms``, or when what was
        told of before has ended."""
        self._played.add(pcm, at_ms)

    def flushed(self, now_ms: float) -> None:
        """The listener has thrown away all that was not heard by now."""
        self._played.cut(now_ms)

    def audible(self, now_ms: float, last_ms: float = 0.0) -> bool:
        """What is heard now, or was heard within the last so many milliseconds, may hold echo."""
        return self._played.within(now_ms, last_ms + AUDIBLE_FOR_MS)

    @property
    def echoes(self) -> bool:
        """There is echo, or there was a short while ago: a path is lost while a caller speaks."""
        since_ms = self._clock.now_ms - self._echo_at
        return self._path is not None or since_ms < _REMEMBERED_MS

    def share(self, window: Samples, now_ms: float, *, suspect: bool = True) -> float:
        """How much of a window (512,) of 16 kHz is echo: 0 is a caller, 1 nothing but echo.

        Wants every window while ``audible``, at the time when its last sample came. One that is
        not ``suspect``, no speech to the VAD, is only kept, and its share is 0.
        """
        self._keep(window, now_ms)
        if not suspect:
            return 0.0
        heard = self._look()
        self._played.advance(int(heard[-1].hops[-1]))
        share = self._path.share(self._played, heard[-1]) if self._path else 0.0
        share = max(share, self._try_other(heard[-1]))
        if self._path and share <= _LEARNABLE and not self._contrary:
            self._search.forget()
        for one in heard:
            self._search.hear(self._played, one)
        self._recent.extend(heard)
        self._learn(share)
        if share > _LEARNABLE:
            self._echo_at = now_ms
        return share

    def _keep(self, window: Samples, now_ms: float) -> None:
        if self._clock.take(now_ms):
            self._windows.clear()
            self._windows.append(np.zeros_like(window))
            self._recent.clear()
            self._unseen = 0
        self._windows.append(window)
        self._unseen += 1

    def _look(self) -> list[_Heard]:
        """What was not looked at yet, window by window."""
        if self._unseen > _CATCH_UP:
            self._recent.clear()
        count = min(self._unseen, len(self._windows) - 1)
        self._unseen = 0
        samples = np.concatenate(list(self._windows)[-count - 1 :]).astype(np.float32)
        frames = spectra_of(samples, _STEP * np.arange(1, 2 * count + 1), _SIZE)
        last = round(self._clock.began_ms / HOP_MS) + WINDOW_MS // HOP_MS * self._clock.count
        hops = last + _STEP_HOPS * np.arange(1 - len(frames), 1)
        return [_Heard(hops[i : i + 2], frames[i : i + 2]) for i in range(0, len(frames), 2)]

    def _try_other(self, heard: _Heard) -> float:
        """The share by the path on trial, if that predicts more than the present one."""
        other, self._other = self._other, None
        if other is None or self._path is None:
            return 0.0
        share = other.share(self._played, heard)
        if other.explained <= self._path.explained + _BETTER:
            return 0.0
        self._path = other
        return share

    def _learn(self, share: float) -> None:
        if self._path and self._path.unproven:
            self._path = None
        if self._path and share > _LEARNABLE:
            self._contrary = 0
            self._path.learn(self._played, self._recent[-1])
        else:
            self._find()

    def _find(self) -> None:
        """Where windows on end are most coherent at one delay, that may be the echo's path."""
        delay, coherence = self._search.best()
        self._contrary = self._contrary + 1 if abs(delay - self._likely) <= 1 else 1
        self._likely = delay
        if self._contrary < _FOUND_AFTER or coherence < _IS_ECHO:
            return
        since = list(self._recent)[-self._contrary if self._path else 0 :]
        recent = _Heard(*map(np.concatenate, zip(*since, strict=True)))
        path = _Path(delay, self._played, recent)
        if self._path is None:
            self._path = path
        else:
            self._other = path
        self._contrary = 1


class _Search:
    """How coherent the microphone has lately been with what was played, at every delay."""

    def __init__(self) -> None:
        self._cross: Spectra = np.zeros((len(_DELAYS), BINS), np.complex64)
        self._source: Powers = np.zeros((len(_DELAYS), BINS), np.float32)
        self._heard: Powers = np.zeros(BINS, np.float32)

    def hear(self, played: Played, heard: _Heard) -> None:
        """Take the frames of a window."""
        for hop, frame in zip(heard.hops, heard.frames, strict=True):
            source = played.frames(hop - _DELAYS)
            self._cross *= _SEARCH_MEMORY
            self._cross += source.conj() * frame
            self._source *= _SEARCH_MEMORY
            self._source += power(source)
            self._heard *= _SEARCH_MEMORY
            self._heard += power(frame)

    def forget(self) -> None:
        """Let what comes now weigh more than what was."""
        for average in (self._cross, self._source, self._heard):
            average *= np.float32(0.1)

    def best(self) -> tuple[int, float]:
        """The most coherent delay in hops, and its coherence, between 0 and 1."""
        coherence = power(self._cross) / (self._source * self._heard + _TINY * _TINY)
        weights = np.sqrt(self._heard)
        by_delay = coherence @ weights / (weights.sum() + _TINY)
        delay = int(by_delay.argmax())
        return max(delay, 1), float(by_delay[delay])


class _Sight(NamedTuple):
    """Of the frames last judged, all (n, 17): the power heard and what the prediction leaves of
    it, the power played; and that below which nothing is heard (17,)."""

    heard: Powers
    left: Powers
    source: Powers
    floor: Powers


class _Path:
    """The way of the echo at one delay, and what is expected to be left of it."""

    def __init__(self, delay: int, played: Played, recent: _Heard) -> None:
        self.delay = delay
        taps = len(_TAPS)
        self._covariance: Spectra = np.zeros((BINS, taps, taps), np.complex64)
        self._cross: Spectra = np.zeros((BINS, taps, 1), np.complex64)
        self.lessons = self._frames = 0
        self._add(played, recent)
        self._filter = self._solve()
        source = played.bands(recent.hops - delay).sum(axis=0)
        gain = (powers(recent.frames).sum(axis=0) + _TINY) / (source + _TINY)
        self._gain: Powers = np.sqrt(gain * np.exp(np.log(gain).mean()))
        self._residual = self._gain
        self.judged = 0
        self.explained = 0.0
        self._peak = 0.0
        self._noise: Powers = np.ones(BANDS, np.float32)
        silence: Powers = np.zeros((1, BANDS), np.float32)
        self._sight = _Sight(silence, silence, silence, self._noise)
        self._before = (0.0, 0.0)
        self._most_weight = self._held = 0.0

    @property
    def unproven(self) -> bool:
        """Coherent by chance: after some windows the filter still predicts nothing."""
        on_trial = self.judged >= _NEW and self.lessons < 2 * _NEW
        return on_trial and self.explained < _PROOF

    def share(self, played: Played, heard: _Heard) -> float:
        """The share of echo in the frames of one window."""
        taps = played.frames(heard.hops[:, None] - self.delay - _TAPS)
        left = heard.frames - np.einsum("ntb,bt->nb", taps, self._filter)
        band_powers = powers(heard.frames)
        source = played.bands(heard.hops - self.delay)
        self._sight = sight = _Sight(band_powers, powers(left), source, self._floor(band_powers))
        weights = sight.heard**_WEIGHT
        foreign = sight.left - _MARGIN * self._residual * source - sight.floor
        parts = np.clip(foreign / (sight.heard + _TINY), 0, 1)
        left_over = np.minimum(sight.left / (sight.heard + _TINY), 1) * weights
        explained = 1.0 - float(left_over.sum() / (weights.sum() + _TINY))
        self.judged += 1
        self.explained += max(0.34, 1 / self.judged) * (explained - self.explained)
        callers = self._smoothed(float((parts * weights).sum()), float(weights.sum()))
        return 1.0 - min(1.0, _SCALE * callers)

    def learn(self, played: Played, echo: _Heard) -> None:
        """Take the frames that were judged last: they are echo."""
        self._covariance *= _PATH_MEMORY**2
        self._cross *= _PATH_MEMORY**2
        self._add(played, echo)
        self.lessons += 1
        if self.lessons < _NOVICE or self.lessons % _SOLVE_EVERY == 0:
            self._filter = self._solve()
        self._track(self._sight)

    def _track(self, sight: _Sight) -> None:
        """Move both ratios a step towards those of this window, where the echo is loud enough."""
        heard, left, source = (of.sum(axis=0) for of in sight[:3])
        telling = self._gain * source > 4 * sight.floor
        step = max(_SLOWEST_STEP, _FIRST_STEP / (1 + self.lessons / 4))
        moved = _moved(self._residual, left - sight.floor > self._residual * source, step)
        gain = _moved(self._gain, heard - sight.floor > self._gain * source, _GAIN_STEP)
        self._gain = np.where(telling, gain, self._gain)
        self._residual = np.maximum(np.where(telling, moved, self._residual), _BEST * self._gain)

    def _add(self, played: Played, heard: _Heard) -> None:
        taps = played.frames(heard.hops[:, None] - self.delay - _TAPS).transpose(2, 1, 0)
        back = taps.conj()
        self._covariance += back @ taps.transpose(0, 2, 1)
        self._cross += back @ heard.frames.T[:, :, None]
        self._frames += len(heard.hops)

    def _solve(self) -> Spectra:
        """The filter (51, 8) that all frames so far ask for."""
        leakage = _LEAKAGE * (1 + _EARLY / (1 + self._frames / 8)) / len(_TAPS)
        diagonal = leakage * np.trace(self._covariance, axis1=1, axis2=2).real + _TINY
        loaded = self._covariance + diagonal[:, None, None].astype(np.float32) * _IDENTITY
        solution: Spectra = np.linalg.solve(loaded, self._cross)[:, :, 0]
        return solution

    def _floor(self, heard: Powers) -> Powers:
        """What no caller is recognised below, in each band."""
        self._peak = max(float(heard.max()), _PEAK_MEMORY * self._peak)
        for frame in heard:
            self._noise = np.minimum(self._noise * _NOISE_RISE, frame + _TINY)
        floor: Powers = np.maximum(np.float32(self._peak) * _FAINT, _NOISE * self._noise)
        return floor

    def _smoothed(self, foreign: float, weight: float) -> float:
        """The foreign part of this window, or of it and the last, or what is held of those
        before; whichever is most. A window that fades away counts as half a loud one."""
        self._most_weight = max(weight, 0.95 * self._most_weight)
        weight = max(weight, 0.5 * self._most_weight) + float(_TINY)
        both = (foreign + self._before[0]) / (weight + self._before[1])
        self._before = (foreign, weight)
        hold = _HOLD * min(1.0, self.lessons / _NOVICE)
        self._held = max(both, hold * self._held)
        return max(foreign / weight, self._held)


def _moved(level: Powers, above: NDArray[np.bool_], step: float) -> Powers:
    """A quantile that is told whether the next value lies above it."""
    moved: Powers = level * np.where(above, np.float32(1 + 4 * step), np.float32(1 - step))
    return moved
