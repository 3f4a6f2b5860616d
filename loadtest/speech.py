"""Recordings of speech together with what is said in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from engines.audio import Pcm

RATE = 16_000


@dataclass(frozen=True, slots=True)
class Recording:
    """``pcm`` is mono at 16 kHz, ``words`` what is said in it."""

    name: str
    pcm: Pcm
    words: str


def recordings(folder: Path) -> list[Recording]:
    """All that ``folder``/transcripts.json (file -> words) names. Raises OSError."""
    said: dict[str, str] = json.loads((folder / "transcripts.json").read_text())
    return [Recording(name, _mono(folder / name), words) for name, words in said.items()]


def speech_level(samples: NDArray[np.floating]) -> float:
    """Root mean square of the parts that are within 30 dB of the loudest 20 ms, at 16 kHz."""
    powers = _powers(samples, RATE // 50)
    return float(np.sqrt(powers[powers > powers.max() / 1_000].mean()))


def first_sound(samples: NDArray[np.floating]) -> int:
    """Index of the first sound of a recording at 16 kHz: where it comes within 15 dB of the level
    of its speech and stays there. Breath and hiss are no sound to stop for."""
    loud = _powers(samples, RATE // 100) > (speech_level(samples) * 10 ** (-15 / 20)) ** 2
    stays = np.convolve(loud, np.ones(8))[7:] >= 6
    return RATE // 100 * int(np.argmax(loud & stays))


def from_first_sound(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """A recording at 16 kHz without what precedes its first sound."""
    return samples[first_sound(samples) :]


def _powers(samples: NDArray[np.floating], size: int) -> NDArray[np.floating]:
    blocks = np.square(samples[: len(samples) // size * size]).reshape(-1, size)
    means: NDArray[np.floating] = blocks.mean(axis=1)
    return means


def _mono(path: Path) -> Pcm:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return Pcm.from_floats(soxr.resample(samples.mean(axis=1), rate, RATE), RATE)
