"""What was heard, in the formats that transcripts have, and how they come to be files.

A file has its own name only once it is whole: until then it has another, and a transcript that is
asked for in several formats is there in all of them or in none.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from engines.diarization.turns import SpeakerTurn
from pipelines.transcription.captions import Utterance, said_by, srt, vtt
from voice.wire.audio_api import TranscriptionForm, json_answer, text_of, to_json, verbose_answer
from voice.wire.diarized_api import diarized_answer, pieces_of

SUFFIXES: Final[Mapping[str, str]] = {
    "text": ".txt",
    "json": ".json",
    "verbose_json": ".verbose.json",
    "srt": ".srt",
    "vtt": ".vtt",
    "diarized_json": ".diarized.json",
}
"""What a file of each format is called."""

_PART: Final = ".part"
_MOST_BYTES: Final = 255
"""Of a file's name, as nearly all file systems have it."""


def body(
    asked: TranscriptionForm,
    heard: Sequence[Utterance],
    duration_ms: int,
    turns: Sequence[SpeakerTurn] = (),
) -> bytes:
    """All that was heard of ``duration_ms``, in the format that is asked for; by whom it is said,
    where that is asked for."""
    spoken = [each for utterance in heard for each in utterance.spoken]
    if asked.by_speaker:
        spoken = pieces_of(heard, turns)
    match asked.response_format:
        case "text":
            return f"{text_of(heard)}\n".encode()
        case "srt":
            return srt(spoken).encode()
        case "vtt":
            return vtt(spoken).encode()
        case "verbose_json":
            return to_json(verbose_answer(heard, duration_ms, asked))
        case "diarized_json":
            return to_json(diarized_answer(heard, duration_ms, turns))
        case _:
            return to_json(json_answer(heard, duration_ms, asked))


def for_people(
    asked: TranscriptionForm,
    heard: Sequence[Utterance],
    duration_ms: int,
    turns: Sequence[SpeakerTurn] = (),
) -> bytes:
    """The same, laid out to be read: an hour in one line is none."""
    if asked.response_format == "text" and asked.by_speaker:
        return "".join(f"{said_by(each)}\n" for each in pieces_of(heard, turns)).encode()
    if asked.response_format == "text":
        return "".join(f"{each.text}\n" for each in heard if each.text).encode()
    data = body(asked, heard, duration_ms, turns)
    return msgspec.json.format(data, indent=1) + b"\n" if "json" in asked.response_format else data


def check_names(paths: Iterable[Path]) -> None:
    """Raises OSError, which names the file, where one can never be written: nobody wants to be told
    after hours."""
    for path in paths:
        number = 0
        if len(os.fsencode(path.name)) > _MOST_BYTES:
            number = errno.ENAMETOOLONG
        elif path.is_dir():
            number = errno.EISDIR
        if number:
            raise OSError(number, os.strerror(number), str(path))


def write_whole(bodies: Mapping[Path, bytes]) -> None:
    """Write these files, all or none, over what is there. Raises OSError, which names the file
    that could not be written."""
    check_names(bodies)
    with ExitStack() as parts:
        for path, data in bodies.items():
            part = _part(path)
            parts.callback(part.unlink, missing_ok=True)
            try:
                _write(part, data)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from error
        for path in bodies:
            _part(path).replace(path)


def _part(path: Path) -> Path:
    name = f".{path.name}{_PART}"
    if len(os.fsencode(name)) > _MOST_BYTES:
        name = f".{digest(path.name)}{_PART}"
    return path.with_name(name)


def digest(name: str) -> str:
    """A short name in place of a long one."""
    return hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
