"""Recordings in and out: any file that libsndfile reads becomes 24 kHz mono, and back to WAV."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

RATE = 24_000
_FRAME = RATE // 100
# Field recordings have their noise some 30 dB below the vowels, and a word's last consonant may
# be as soft. At 20 dB the end is found some 100 ms before a VAD lets go, so that a delay that
# is measured from it is rather too long than too short.
_BELOW_LOUDEST_DB = 20.0
_SILENCE_DBFS = -60.0


class RecordingError(Exception):
    """A file that cannot be read or written as sound. The message says why."""


def read_recording(path: Path) -> NDArray[np.int16]:
    """The file as 24 kHz mono, (n,) int16; channels are averaged. Raises RecordingError."""
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise RecordingError(f"{path} cannot be read as sound: {_reason(path, error)}") from error
    mono: NDArray[np.float32] = samples.mean(axis=1)
    if not len(mono):
        raise RecordingError(f"{path} holds no sound.")
    resampled = soxr.resample(mono, rate, RATE) if rate != RATE else mono
    scaled: NDArray[np.float32] = np.rint(np.clip(resampled, -1.0, 1.0) * 32767.0)
    return scaled.astype(np.int16)


def write_recording(path: Path, *channels: NDArray[np.int16]) -> None:
    """Write 24 kHz WAV, one channel each, padded to the longest. Raises RecordingError."""
    length = max(len(channel) for channel in channels)
    padded = [np.pad(channel, (0, length - len(channel))) for channel in channels]
    check_writable(path)
    try:
        soundfile.write(path, np.stack(padded, axis=1), RATE, format="WAV", subtype="PCM_16")
    except (OSError, soundfile.SoundFileError) as error:
        raise RecordingError(f"{path} cannot be written: {error}") from error


def check_writable(path: Path) -> None:
    """Raises RecordingError where nothing can be written; leaves what is there as it is."""
    if not path.parent.is_dir():
        problem = "there is no such folder"
    elif path.is_dir():
        problem = "it is a folder"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "permission denied"
    else:
        return
    raise RecordingError(f"{path} cannot be written: {problem}.")


def speech_end(samples: NDArray[np.int16]) -> int:
    """Index after the last speech sample of a clip of 24 kHz, to the nearest 10 ms.

    By energy, so that a figure measured from it does not depend on any VAD: the end of the last
    10 ms whose level is within 20 dB of the clip's loud parts (95th percentile) and above
    -60 dBFS. A clip without any such ends where it ends.
    """
    frames = len(samples) // _FRAME
    if not frames:
        return len(samples)
    blocks = samples[: frames * _FRAME].reshape(frames, _FRAME).astype(np.float64) / 32768.0
    levels = 10.0 * np.log10((blocks**2).mean(axis=1) + 1e-12)
    floor = max(float(np.percentile(levels, 95)) - _BELOW_LOUDEST_DB, _SILENCE_DBFS)
    loud = np.flatnonzero(levels > floor)
    return int(loud[-1] + 1) * _FRAME if len(loud) else len(samples)


def _reason(path: Path, error: Exception) -> str:
    if not path.exists():
        return "there is no such file."
    return str(getattr(error, "error_string", error))
