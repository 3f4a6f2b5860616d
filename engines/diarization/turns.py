"""The port of what tells speakers apart: a recording in, who speaks when out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from engines.audio import Pcm
from engines.ports import Engine


@dataclass(frozen=True, slots=True)
class SpeakerTurn:
    """Somebody speaks from one time to the other."""

    speaker: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class DiarizationRequest:
    """A whole recording. ``pcm`` is 16 kHz; its samples may be mapped from a file. ``speakers``:
    how many there are, None where nobody knows, between ``least`` and ``most``."""

    pcm: Pcm
    speakers: int | None = None
    least: int = 1
    most: int | None = None
    call: str = ""


@dataclass(frozen=True, slots=True)
class Diarization:
    """Who speaks when, in order of time. In ``turns``, two may speak at once; in ``exclusive``,
    which is for subtitles, it is always one."""

    turns: tuple[SpeakerTurn, ...] = ()
    exclusive: tuple[SpeakerTurn, ...] = ()


Diarizer: TypeAlias = Engine[DiarizationRequest, Diarization]
"""Gives one. It takes a good part of the recording's time, and one recording after the other."""


@runtime_checkable
class Pausable(Protocol):
    """An engine that can give way in the middle of its work."""

    def pause(self) -> None:
        """Stand still from now on."""
        ...

    def resume(self) -> None:
        """Go on where it stood."""
        ...
