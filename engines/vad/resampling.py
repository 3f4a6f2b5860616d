"""Rate conversion of many streams at once: a polyphase FIR filter as one matrix product.

A stateful resampler per call costs a library call and its glue for every frame. Here the
windows of all calls are converted in one GEMM, just before the VAD reads them: a block of input
samples, with the history that the filter reaches back to, times a banded matrix gives a block
of output samples.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import FULL_SCALE

_BLOCK: Final = 32
"""Output samples a block: wide enough for a good GEMM, narrow enough to waste little of it."""

_HALF_LENGTH: Final = 21.5
"""The filter's half length, in samples at the lower of the two rates."""

_PASSBAND: Final = 0.94
_KAISER_BETA: Final = 7.0
"""About 70 dB of stop band; the transition band ends near the lower rate's Nyquist frequency."""


class Polyphase:
    """Converts windows of ``rate`` Hz into windows of ``window`` samples at ``target`` Hz.

    A row holds ``history`` samples that came before the window and then the window's own
    ``samples``. The filter is causal: its output is ``delay_ms`` late and never needs a sample
    from beyond the window, so a window is complete when its last sample arrives.

    Raises ValueError for a rate whose windows and blocks are not whole numbers of samples.
    """

    def __init__(self, rate: int, target: int = 16_000, window: int = 512) -> None:
        if rate <= 0 or _BLOCK * rate % target or window % _BLOCK:
            raise ValueError(f"cannot convert {rate} Hz to {target} Hz in blocks of {_BLOCK}")
        self.rate = rate
        self.samples = window * rate // target
        self._window = window
        self._block = _BLOCK * rate // target
        half = 0.0 if rate == target else _HALF_LENGTH * max(1.0, rate / target)
        self.history = int(np.ceil(2 * half))
        self.delay_ms = 1000.0 * half / rate
        self._matrix = self._band(half, target)

    def convert(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows (n, history + samples) in int16 scale to windows (n, window) in [-1, 1)."""
        if not self.history:
            return (rows * np.float32(1 / FULL_SCALE)).astype(np.float32, copy=False)
        count = len(rows)
        blocks = np.lib.stride_tricks.sliding_window_view(rows, self.history + self._block, axis=1)[
            :, :: self._block
        ]
        flat = np.ascontiguousarray(blocks).reshape(-1, self.history + self._block)
        windows: NDArray[np.float32] = (flat @ self._matrix).reshape(count, self._window)
        return windows

    def _band(self, half: float, target: int) -> NDArray[np.float32]:
        """Windowed sinc, sampled at each output's distance from each input; columns sum to 1."""
        if not half:
            return np.zeros((0, 0), np.float32)
        inputs = np.arange(self.history + self._block) - self.history
        outputs = np.arange(_BLOCK) * self.rate / target
        distance = outputs[None, :] - inputs[:, None] - half
        cutoff = _PASSBAND * min(1.0, target / self.rate)
        inside = np.clip(1 - (distance / half) ** 2, 0, None)
        shape = np.where(np.abs(distance) <= half, np.i0(_KAISER_BETA * np.sqrt(inside)), 0)
        band = np.sinc(cutoff * distance) * shape
        matrix: NDArray[np.float32] = (band / band.sum(axis=0) / FULL_SCALE).astype(np.float32)
        return matrix
