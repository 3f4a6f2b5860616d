"""A voice as 256 numbers: the GE2E speaker encoder (arXiv 1710.10467), with Resemblyzer's weights.

Three LSTM layers hear 1.6 s at a time, as 40 mel energies every 10 ms; the mean over all such
windows of a stretch of speech is the voice. It is a model of pyannote's, so that its pipeline can
use it: given a mask, it hears only what that lets pass.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from pyannote.audio import Model
from torch import nn

from engines.asr.logmel import HOP, WINDOW, mel_filters

DIMENSION: Final = 256
_MELS: Final = 40
_LAYERS: Final = 3
_FRAMES: Final = 160
_STEP: Final = 77
"""Between two windows: 1.3 of them a second."""

_COVERED: Final = 0.75
"""Of the last window, so much is speech; with less it is left out."""

_LEAST_RMS: Final = 10 ** (-30 / 20)
"""Quieter speech is made as loud as this, since the energies are no logarithms."""


class Ge2e(Model):  # type: ignore[misc]  # pyannote's types are not looked at
    """The encoder. ``weights`` are Resemblyzer's ``pretrained.pt``; raises what torch.load and
    load_state_dict raise."""

    def __init__(self, weights: Path) -> None:
        super().__init__(sample_rate=16_000, num_channels=1)
        self.lstm = nn.LSTM(_MELS, DIMENSION, _LAYERS, batch_first=True)
        self.linear = nn.Linear(DIMENSION, DIMENSION)
        state = torch.load(weights, map_location="cpu", weights_only=True)["model_state"]
        own = {name: state[name] for name in self.state_dict()}
        self.load_state_dict(own)
        self.register_buffer("filters", torch.from_numpy(mel_filters(_MELS)), persistent=False)
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)

    @property
    def dimension(self) -> int:
        """Of a voice."""
        return DIMENSION

    def forward(self, waveforms: Any, weights: Any = None) -> Any:
        """Voices (n, 256) of length 1, NaN where there is nothing to hear, of floats (n, 1,
        samples) at 16 kHz. What is to be heard is above a half in ``weights`` (n, frames)."""
        mels, squares = self._mels(waveforms[:, 0])
        heard = torch.ones_like(squares, dtype=torch.bool)
        if weights is not None:
            heard = nn.functional.interpolate(weights[:, None], size=heard.shape[1])[:, 0] > 0.5
        windows = [
            _windows(_levelled(mel[mask], square[mask]))
            for mel, square, mask in zip(mels, squares, heard, strict=True)
        ]
        counts = [len(each) for each in windows]
        voices = torch.full((len(windows), DIMENSION), torch.nan, device=mels.device)
        if not sum(counts):
            return voices
        encoded = self._encode(torch.cat(windows))
        borders = [sum(counts[:row]) for row in range(len(counts) + 1)]
        for row, (start, end) in enumerate(pairwise(borders)):
            if end > start:
                voices[row] = nn.functional.normalize(encoded[start:end].mean(dim=0), dim=0)
        return voices

    def _mels(self, samples: Any) -> tuple[Any, Any]:
        """Energies (n, frames, mels), and the mean square of each frame (n, frames)."""
        spectra = torch.stft(
            samples, WINDOW, HOP, window=self.window, pad_mode="constant", return_complex=True
        )
        power = spectra.real**2 + spectra.imag**2
        mels = (self.filters @ power).transpose(1, 2)
        padded = nn.functional.pad(samples, (0, mels.shape[1] * HOP - samples.shape[1]))
        return mels, padded.reshape(len(padded), -1, HOP).square().mean(dim=2)

    def _encode(self, windows: Any) -> Any:
        _, (hidden, _) = self.lstm(windows)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def _levelled(mel: Any, squares: Any) -> Any:
    """Energies (frames, mels), louder where they are of quiet speech."""
    rms = squares.mean().sqrt().clamp(min=1e-5) if len(squares) else squares.new_ones(())
    return mel * (_LEAST_RMS / rms).clamp(min=1.0).square()


def _windows(mel: Any) -> Any:
    """Windows (n, 160, mels) of energies (frames, mels); silence follows the last frame."""
    frames = len(mel)
    if not frames:
        return mel.new_zeros(0, _FRAMES, _MELS)
    starts = range(0, max(1, frames - int(_COVERED * _FRAMES) + 1), _STEP)
    padded = nn.functional.pad(mel, (0, 0, 0, max(0, starts[-1] + _FRAMES - frames)))
    return torch.stack([padded[start : start + _FRAMES] for start in starts])
