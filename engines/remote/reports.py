"""What an engine process tells whoever started it, a line of JSON each, until it is ready."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

MOST_CHARACTERS: Final = 4000
"""Of an error's text, so that a line fits the reader's buffer."""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """What it does now."""

    text: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine is warm and its socket is bound."""


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """It cannot be used: an EngineError."""

    engine: str
    code: str
    message: str


Report: TypeAlias = Progress | Ready | Unfit

_decoder: Final = msgspec.json.Decoder(Report)


def to_line(report: Report) -> bytes:
    return msgspec.json.encode(report) + b"\n"


def from_line(line: bytes) -> Report:
    """Raises ValueError where it is something else."""
    return _decoder.decode(line)
