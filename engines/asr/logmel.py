"""Whisper's log-mel features, without its padding to 30 seconds.

The numbers are those of Whisper's front end (arXiv 2212.04356, section 2.2): 25 ms Hann windows
every 10 ms, 80 triangular filters on Slaney's mel scale (128 from large-v3 on), log10, a floor 8
under the loudest.
"""

from __future__ import annotations

import functools
from math import ceil

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from engines.ports import FloatArray

RATE = 16_000
WINDOW = 400
HOP = 160
MELS = 80
FLOOR = 1e-10
MOST_FRAMES = 3000  # the encoder has no position past 30 s


def frames_of(duration_ms: float) -> int:
    """Frames that hold so much sound, an even number, since the encoder takes two at a time."""
    return min(ceil(duration_ms / 20) * 2, MOST_FRAMES)


def log_mel(samples: FloatArray, frames: int, mels: int = MELS) -> FloatArray:
    """Features (``mels``, ``frames``) float32 of ``samples`` (n,) at 16 kHz followed by silence.

    One frame is 10 ms. Only the frames that hold sound are transformed: those of the silence
    are all alike. What lies past the last frame is left out.
    """
    half = WINDOW // 2
    sounding = min(frames, -(-(len(samples) + half) // HOP))
    padded = np.zeros((sounding - 1) * HOP + WINDOW, np.float32)
    body = samples[: len(padded) - half]
    padded[half : half + len(body)] = body
    mirrored = body[1 : half + 1]
    padded[half - len(mirrored) : half] = mirrored[::-1]
    spectra = np.fft.rfft(sliding_window_view(padded, WINDOW)[::HOP] * _hann())
    power = spectra.real**2 + spectra.imag**2
    mel: FloatArray = np.full((mels, frames), np.log10(FLOOR), np.float32)
    np.log10(np.maximum(mel_filters(mels) @ power.T, FLOOR), out=mel[:, :sounding])
    np.maximum(mel, mel.max() - 8, out=mel)
    mel += 4
    mel /= 4
    return mel


@functools.cache
def _hann() -> FloatArray:
    phase = np.arange(WINDOW) * (2 * np.pi / WINDOW)
    window: FloatArray = ((1 - np.cos(phase)) / 2).astype(np.float32)
    return window


@functools.cache
def mel_filters(mels: int) -> FloatArray:
    """Triangles of equal area (mels, 201) over the bins of the spectrum."""
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    corners = _mel_to_hz(np.linspace(0, float(_hz_to_mel(RATE / 2)), mels + 2))
    low, centre, high = (corners[i : i + mels, None] for i in range(3))
    rising = (bins - low) / (centre - low)
    falling = (high - bins) / (high - centre)
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters: FloatArray = (triangles * (2 / (high - low))).astype(np.float32)
    return filters


# Slaney's scale: 3 mels for 200 Hz up to 1 kHz, then 27 for each factor of 6.4.
KNEE_HZ, KNEE_MEL, STEP = 1000.0, 15.0, np.log(6.4) / 27


def _hz_to_mel(hz: float) -> float:
    return 3 * hz / 200 if hz < KNEE_HZ else KNEE_MEL + float(np.log(hz / KNEE_HZ)) / STEP


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < KNEE_MEL, mel * 200 / 3, KNEE_HZ * np.exp(STEP * (mel - KNEE_MEL)))
