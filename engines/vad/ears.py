"""The ears of the house: the audio of all live calls, resampled and judged in one batch.

A call opens an ear at the rate of its wire and lets it hear samples as they arrive. Whenever a
window of 32 ms is complete it is queued; a batch runs as soon as every call that is sending has
a window in, so that one caller alone never waits, and at the latest after ``tick_ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from engines.audio import FULL_SCALE, Samples
from engines.batching.policy import BatchPolicy
from engines.batching.schedule import BatchSchedule
from engines.batching.tally import Tally
from engines.ports import FloatArray, Vad
from engines.vad.resampling import Polyphase

OnWindow: TypeAlias = Callable[[Samples, float | None, float], None]
"""Called on the loop with a window (512,) int16 at 16 kHz, the callee's to keep, its speech
probability (None where it was not judged), and its level in dB of full scale. It must not raise:
it stands between calls that have nothing to do with each other."""

_SILENT_AFTER_S: Final = 0.1
"""A socket that has sent nothing for so long is not waited for."""

_BACKLOG_SECONDS: Final = 60


class BacklogError(Exception):
    """A client sends audio faster than it can be heard, and went beyond the bound."""


class Ear:
    """One call's place in the batch. Made by ``Ears.open``.

    Where nobody wants its audio ``judged``, each window is heard at once.
    """

    def __init__(self, ears: Ears, slot: int, resampler: Polyphase, on_window: OnWindow) -> None:
        self.slot = slot
        self.on_window = on_window
        self.resampler = resampler
        self.heard_at = 0.0
        """The loop's time, in seconds."""
        self.judged = True
        self.closed = False
        self._ears = ears
        self._time = asyncio.get_running_loop().time  # asking for the loop costs a system call
        self._queued = False
        self._start = 0
        self._end = resampler.history
        self._buffer: Samples = np.zeros(resampler.history + 4 * resampler.samples, np.int16)

    def hear(self, samples: Samples) -> None:
        """Take the next samples, any number of them, at the ear's rate.

        Raises BacklogError where more than a minute of audio waits.
        """
        self.heard_at = self._time()
        end = self._end + len(samples)
        if end > len(self._buffer):
            end = self._make_room(len(samples))
        self._buffer[self._end : end] = samples
        self._end = end
        if self.judged:
            self._queue_window()
        else:
            self._ears.hear_now(self)

    @property
    def waiting_ms(self) -> int:
        """Audio that was taken and has not been heard yet."""
        waiting = self._end - self._start - self.resampler.history
        return 1000 * waiting // self.resampler.rate

    @property
    def has_window(self) -> bool:
        """A whole window waits."""
        need = self.resampler.history + self.resampler.samples
        return self._end - self._start >= need

    def flush(self) -> None:
        """Have all that waits heard now, the last window filled up with silence. It is not
        judged: a minute of it would keep all other calls waiting."""
        size = self.resampler.samples
        rest = (self._end - self._start - self.resampler.history) % size
        if rest:
            self.hear(np.zeros(size - rest, np.int16))
        self._ears.hear_now(self)

    def set_rate(self, rate: int) -> None:
        """The wire's format has changed: what is not a whole window yet is forgotten."""
        if rate == self.resampler.rate:
            return
        self._ears.hear_now(self)
        self.resampler = self._ears.resampler(rate)
        self._start, self._end = 0, self.resampler.history
        self._buffer = np.zeros(self._end + 4 * self.resampler.samples, np.int16)

    def close(self) -> None:
        """Hear no more. What is still queued is dropped."""
        if not self.closed:
            self.closed = True
            self._ears.forget(self)

    def take_window(self, row: np.ndarray[tuple[int], np.dtype[np.float32]]) -> bool:
        """Move the next window and its history into ``row``; False where there is none."""
        self._queued = False
        if self.closed or self._end - self._start < len(row):
            return False
        row[:] = self._buffer[self._start : self._start + len(row)]
        self._start += self.resampler.samples
        return True

    def take_windows(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Take all whole windows with their history, shape (n, history + samples)."""
        size, history = self.resampler.samples, self.resampler.history
        count = (self._end - self._start - history) // size
        starts = self._start + size * np.arange(count)
        self._start += size * count
        rows: np.ndarray[tuple[int, int], np.dtype[np.int16]]
        rows = self._buffer[starts[:, None] + np.arange(history + size)]
        return rows.astype(np.float32)

    def _queue_window(self) -> None:
        if not self._queued and not self.closed and self.has_window:
            self._queued = True
            self._ears.queue(self)

    def _make_room(self, more: int) -> int:
        kept = self._buffer[self._start : self._end]
        need = len(kept) + more
        if need > _BACKLOG_SECONDS * self.resampler.rate:
            raise BacklogError(
                f"more than {_BACKLOG_SECONDS} s of audio wait to be heard: send in real time"
            )
        size = self.resampler.history + 4 * self.resampler.samples
        if need > size or len(self._buffer) > size:
            size = max(size, 2 * need)
            grown = np.zeros(size, np.int16)
            grown[: len(kept)] = kept
            self._buffer = grown
        else:
            self._buffer[: len(kept)] = kept
        self._start, self._end = 0, len(kept)
        return need


class Ears:
    """Hears for all calls of one running loop."""

    def __init__(self, vad: Vad, *, tick_ms: float = 8.0, max_batch: int = 128) -> None:
        self._vad = vad
        policy: BatchPolicy[Ear] = BatchPolicy(max_batch=max_batch, window_ms=tick_ms)
        self._schedule = BatchSchedule(policy, self._hear_batch, lambda: self._active)
        self._ears: set[Ear] = set()
        self._resamplers: dict[int, Polyphase] = {}
        self._active = (
            1  # counted once a batch, since counting takes longer the more ears there are
        )
        self.batches = 0
        self.windows = 0

    @property
    def vad(self) -> Vad:
        """What judges the windows; on this loop, others may let it judge theirs, too."""
        return self._vad

    @property
    def tally(self) -> Tally:
        """What the batches were like so far."""
        return self._schedule.tally

    def open(self, rate: int, on_window: OnWindow) -> Ear:
        """A new ear for audio of ``rate`` Hz. Raises ValueError for a rate that cannot be heard."""
        resampler = self.resampler(rate)  # first: a rate that is refused must not take a slot
        ear = Ear(self, self._vad.open(), resampler, on_window)
        self._ears.add(ear)
        return ear

    def resampler(self, rate: int) -> Polyphase:
        """The one converter of this rate."""
        if rate not in self._resamplers:
            self._resamplers[rate] = Polyphase(rate, self._vad.rate, self._vad.window_samples)
        return self._resamplers[rate]

    def queue(self, ear: Ear) -> None:
        """An ear has a window; run the batch when it is due."""
        self._schedule.add(ear)

    def hear_now(self, ear: Ear) -> None:
        """Hear all windows that wait in one ear, out of turn and unjudged."""
        if not ear.has_window:
            return
        windows = ear.resampler.convert(ear.take_windows())
        for samples, level_db in zip(_samples(windows), levels_db(windows), strict=True):
            if ear.closed:
                return
            ear.on_window(samples.copy(), None, level_db)

    def forget(self, ear: Ear) -> None:
        """An ear was closed."""
        self._ears.discard(ear)
        self._vad.close(ear.slot)

    def _hear_batch(self, batch: list[Ear]) -> None:
        self._active = self._count_active()
        by_rate: dict[Polyphase, list[Ear]] = {}
        for ear in batch:
            by_rate.setdefault(ear.resampler, []).append(ear)
        for resampler, ears in by_rate.items():
            self._judge(resampler, ears)
        for ear in batch:
            ear._queue_window()

    def _count_active(self) -> int:
        since = asyncio.get_running_loop().time() - _SILENT_AFTER_S
        return max(1, sum(ear.judged and ear.heard_at > since for ear in self._ears))

    def _judge(self, resampler: Polyphase, ears: list[Ear]) -> None:
        rows = np.empty((len(ears), resampler.history + resampler.samples), np.float32)
        heard: list[Ear] = []
        for ear in ears:
            if ear.take_window(rows[len(heard)]):
                heard.append(ear)
        if not heard:
            return
        windows = resampler.convert(rows[: len(heard)])
        slots = np.fromiter((ear.slot for ear in heard), np.intp, len(heard))
        probabilities = self._vad.step(slots, windows).tolist()
        samples, levels = _samples(windows), levels_db(windows)
        self.batches += 1
        self.windows += len(heard)
        for index, ear in enumerate(heard):
            if not ear.closed:
                ear.on_window(samples[index].copy(), probabilities[index], levels[index])


def _samples(windows: FloatArray) -> Samples:
    samples: Samples = np.clip(windows * FULL_SCALE, -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
    return samples


def levels_db(windows: FloatArray) -> list[float]:
    """How loud each window (n, samples) is, in dB of full scale; -100 for digital silence."""
    power = np.einsum("ij,ij->i", windows, windows) / windows.shape[1]
    levels: list[float] = (10.0 * np.log10(power + 1e-10)).tolist()
    return levels
