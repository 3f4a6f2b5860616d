"""A minute of what is not speech to the agent: silence, hiss, hum, music, and other people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

from engines.audio import Pcm
from loadtest.speech import RATE, Recording

Sound = NDArray[np.float64]

_PACES: Final = (1.0, 0.84, 1.16, 0.92, 1.08, 0.88, 1.12, 0.8, 1.2, 0.96)
"""Of those who speak at once in ``babble``. One recording played at other speeds sounds like other
people, lower or higher."""

_CHORDS: Final = ((220.0, 261.6, 329.6), (174.6, 220.0, 261.6), (196.0, 246.9, 293.7))
_SCALE: Final = (440.0, 493.9, 523.3, 587.3, 659.3, 784.0)


def noises(seconds: int, clips: Sequence[Recording]) -> dict[str, Sound]:
    """Each kind once, at a loudness of 1. ``clips`` is who talks in the babble."""
    made = {
        "white noise": white_noise(seconds),
        "hum": hum(seconds),
        "music": music(seconds),
        "babble": babble(seconds, clips),
    }
    return {name: sound / np.sqrt(np.mean(sound**2)) for name, sound in made.items()}


def at_level(sound: Sound, dbfs: float) -> Pcm:
    """So loud on the whole, in dB under full scale."""
    return Pcm.from_floats(sound * 10 ** (dbfs / 20), RATE)


def white_noise(seconds: int) -> Sound:
    """As strong at all frequencies."""
    return np.random.default_rng(1).standard_normal(seconds * RATE)


def hum(seconds: int) -> Sound:
    """Of the mains: 50 Hz for one half, 60 Hz for the other, with their harmonics, which swell."""
    time = np.arange(seconds * RATE) / RATE
    hertz = np.where(time < seconds / 2, 50.0, 60.0)
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    swell = 1 + 0.3 * np.sin(2 * np.pi * 0.2 * time)
    return swell * _harmonics(phase, (1, 2, 3, 4, 5, 7, 9, 11)) + 0.01 * white_noise(seconds)


def music(seconds: int) -> Sound:
    """Chords of two seconds and a melody above them, of harmonics that die away, with vibrato."""
    rng = np.random.default_rng(2)
    sound = np.zeros(seconds * RATE)
    for bar in range(seconds // 2):
        for hertz in _CHORDS[bar % len(_CHORDS)]:
            _add(sound, 2.0 * bar, _note(hertz, 2.0))
    for beat in range(2 * seconds):
        _add(sound, beat / 2, 1.5 * _note(float(rng.choice(_SCALE)), 0.5))
    return sound


def babble(seconds: int, clips: Sequence[Recording]) -> Sound:
    """Many voices at once, none louder than the others: each says all recordings without a rest,
    in an order and at a pace of its own."""
    rng = np.random.default_rng(3)
    sound = np.zeros(seconds * RATE)
    for pace in _PACES:
        order = rng.permutation(len(clips))
        said = np.concatenate([_even(clips[place].pcm) for place in order])
        voice = soxr.resample(said, RATE * pace, RATE)
        sound += np.resize(np.roll(voice, int(rng.integers(len(voice)))), len(sound))
    return sound


def _even(pcm: Pcm) -> Sound:
    floats = pcm.floats().astype(np.float64)
    even: Sound = floats / np.sqrt(np.mean(floats**2))
    return even


def _note(hertz: float, seconds: float) -> Sound:
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * hertz * time + 0.8 * np.sin(2 * np.pi * 5.5 * time)
    fading: Sound = np.exp(-time / 0.3)
    return fading * _harmonics(phase, range(1, 7))


def _harmonics(phase: Sound, numbers: Iterable[int]) -> Sound:
    tones: Sound = np.sum([np.sin(n * phase) / n for n in numbers], axis=0)
    return tones


def _add(sound: Sound, at_s: float, note: Sound) -> None:
    start = int(at_s * RATE)
    part = sound[start : start + len(note)]
    part += note[: len(part)]
