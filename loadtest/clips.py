"""The recordings that callers say, as a wire has them, with the times that figures run from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

from clients.recordings import RATE, RecordingError, read_recording, speech_end
from loadtest.speech import RATE as SPEECH_RATE
from loadtest.speech import first_sound
from loadtest.wires import FRAME_MS, Wire

TRANSCRIPTS: Final = "transcripts.json"
_CLICK: Final = RATE * 50 // 1000
_APART: Final = RATE * 250 // 1000
_SILENT: Final = 10 ** (-60 / 20) * 32_768


class SpeechError(Exception):
    """A folder of recordings that cannot be used. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Clip:
    """``frames``: 20 ms each, ready to be sent. ``first_sound_s`` and ``speech_end_s``: where
    speech begins and ends in it; ``gap``: the softest frame of its middle."""

    name: str
    words: str
    frames: Sequence[bytes]
    first_sound_s: float
    speech_end_s: float
    gap: int


def read_transcripts(folder: Path) -> dict[str, str]:
    """What is said in which file of a folder. Raises SpeechError."""
    path = folder / TRANSCRIPTS
    wanted = "it should hold recordings and transcripts.json ({file: words})"
    try:
        if not folder.is_dir():
            raise SpeechError(f"{folder}: there is no such folder; {wanted}")
        said = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SpeechError(f"{path}: there is none; {wanted}") from None
    except OSError as error:
        raise SpeechError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SpeechError(f"{path}: is not JSON: {error}; {wanted}") from error
    if not isinstance(said, dict) or not all(isinstance(words, str) for words in said.values()):
        raise SpeechError(f"{path}: is not a table of files and words; {wanted}")
    if not said:
        raise SpeechError(f"{path}: names no recording; {wanted}")
    return said


def read_clips(folder: Path, wire: Wire) -> list[Clip]:
    """All recordings that a folder's transcripts name. Raises SpeechError."""
    clips = []
    for name, words in sorted(read_transcripts(folder).items()):
        try:
            samples = read_recording(folder / name)
        except RecordingError as error:
            raise SpeechError(f"{error} transcripts.json names it: put it there, or out.") from None
        if np.abs(samples.astype(np.int32)).max() < _SILENT:
            raise SpeechError(f"{folder / name}: holds silence only: take it out of {TRANSCRIPTS}")
        clips.append(make_clip(name, words, samples, wire))
    return clips


def make_clip(name: str, words: str, samples: NDArray[np.int16], wire: Wire) -> Clip:
    """A recording, 24 kHz mono, for a wire."""
    floats = samples.astype(np.float32) / 32_768
    begins = first_sound(soxr.resample(floats, RATE, SPEECH_RATE)) / SPEECH_RATE
    sent = samples
    if wire.rate != RATE:
        sent = np.rint(soxr.resample(samples.astype(np.float32), RATE, wire.rate)).astype(np.int16)
    size = wire.rate * FRAME_MS // 1000
    whole = np.pad(sent, (0, -len(sent) % size)).reshape(-1, size)
    return Clip(
        name,
        words,
        [wire.frame(frame.tobytes()) for frame in whole],
        begins,
        last_speech(samples) / RATE,
        _gap(whole),
    )


def last_speech(samples: NDArray[np.int16]) -> int:
    """Index after the last speech sample. A click that stands alone behind the last word is none:
    a stop is followed by its burst within 250 ms, and a word is longer than 50."""
    end = speech_end(samples)
    while end - (earlier := speech_end(samples[: max(0, end - _CLICK)])) > _APART:
        end = earlier
    return end


def silence(wire: Wire) -> bytes:
    """A frame of nothing."""
    return wire.frame(bytes(wire.rate * FRAME_MS // 1000 * 2))


def _gap(frames: NDArray[np.int16]) -> int:
    """The softest frame between a third and two thirds of a clip."""
    levels = np.square(frames.astype(np.float64)).mean(axis=1)
    first, last = len(levels) // 3, max(len(levels) * 2 // 3, len(levels) // 3 + 1)
    return first + int(np.argmin(levels[first:last]))
