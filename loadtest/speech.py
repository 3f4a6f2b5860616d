"""Recordings of speech together with what is said in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import soundfile
import soxr

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


def _mono(path: Path) -> Pcm:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return Pcm.from_floats(soxr.resample(samples.mean(axis=1), rate, RATE), RATE)
