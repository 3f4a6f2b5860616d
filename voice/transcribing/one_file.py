"""One file heard and written, or gone on with."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from engines.audio import Samples
from engines.ports import Asr, Vad
from pipelines.media.reading import RATE, MediaError
from pipelines.media.threads import decoded
from pipelines.places import Place
from pipelines.transcription.captions import Utterance
from pipelines.transcription.hearing import Wanted, transcribe
from voice.transcribing.formats import for_people, write_whole
from voice.transcribing.sources import Source, SourceError, check_regular
from voice.transcribing.unfinished import Identity, Remembering, Unfinished
from voice.wire.audio_api import TranscriptionForm, text_of

_AHEAD_S: Final = 600.0
"""What is decoded before it is heard, at most. Where nobody speaks, nothing else tells how far a
file is."""


@dataclass(frozen=True, slots=True)
class Task:
    """A file to be heard. ``outputs``: the files of its transcripts, one for each form that is
    asked for, or none where they are to be given; ``kept``: where what is heard is kept until then.
    """

    source: Source
    outputs: Sequence[Path]
    kept: Path


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of all files alike. ``settings``: see ``unfinished``."""

    forms: Sequence[TranscriptionForm]
    settings: Mapping[str, str]
    language: str | None = None
    word_times: bool = False
    resume: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of a file: ``failure`` says why it is not whole, ``before`` that an earlier run
    has made it so. This run has heard ``fresh_s`` of its ``lasts_s`` in ``took_s``; ``doubts``
    counts utterances by why they were doubted or heard again; ``given`` is what was asked for where
    there are no outputs; ``note`` is for people."""

    failure: str = ""
    before: bool = False
    lasts_s: float = 0.0
    fresh_s: float = 0.0
    took_s: float = 0.0
    words: int = 0
    doubts: Counter[str] = field(default_factory=Counter)
    given: Sequence[bytes] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Means:
    """What a file is heard with. ``reach`` is told how far it is, in s, and whether this run has
    heard anything of it yet."""

    vad: Vad
    asr: Asr
    place: Place
    reach: Callable[[float, bool], None]


async def hear_file(task: Task, asked: Asked, means: Means) -> Outcome:
    """Hear it and write its transcripts.

    Raises OSError and MediaError where it cannot be read or they cannot be written, SourceError
    where it changes meanwhile, UnfinishedError, and EngineError.
    """
    check_regular(task.source.path)
    with task.source.path.open("rb") as file:
        identity = Identity.of(file)
        kept = Unfinished.open(task.kept, identity, asked.settings, resume=asked.resume)
        with closing(kept):
            if kept.whole_ms is not None and task.outputs and all(map(Path.is_file, task.outputs)):
                return Outcome(before=True, lasts_s=kept.whole_ms / 1000)
            try:
                return await _Hearing(task, asked, means, kept).hear(file, identity)
            except (MediaError, SourceError):
                kept.drop()
                raise


class _Hearing:
    """Of one file."""

    def __init__(self, task: Task, asked: Asked, means: Means, kept: Unfinished) -> None:
        self._task = task
        self._asked = asked
        self._means = means
        self._kept = kept
        self._heard: list[Utterance] = []
        self._at_s = self._left_s = 0.0
        self._fresh = False

    async def hear(self, file: BinaryIO, identity: Identity) -> Outcome:
        loop, means = asyncio.get_running_loop(), self._means
        began, call = loop.time(), self._task.source.shown
        wanted = Wanted(self._asked.language, call=call, word_times=self._asked.word_times)
        asr = Remembering(means.asr, self._kept, self._begin)
        self._reach(0.0)
        async with decoded(file, float("inf")) as blocks:
            lasts_ms = await transcribe(
                self._counted(blocks), wanted, means.vad, asr, means.place, self._put
            )
        _check_unchanged(file, identity)
        given = await asyncio.to_thread(self._write, lasts_ms)
        self._kept.end(lasts_ms)
        return Outcome(
            lasts_s=lasts_ms / 1000,
            fresh_s=lasts_ms / 1000 - self._left_s if self._fresh else 0.0,
            took_s=loop.time() - began,
            words=len(text_of(self._heard).split()),
            doubts=Counter(
                why for each in self._heard for why in each.suspicion.split(", ") if why
            ),
            given=given,
            note=self._kept.lost and f"could not have been gone on with: {self._kept.lost}",
        )

    async def _counted(self, blocks: AsyncIterator[Samples]) -> AsyncIterator[Samples]:
        samples = 0
        async for block in blocks:
            samples += len(block)
            self._reach(samples / RATE - _AHEAD_S)
            yield block

    async def _put(self, utterance: Utterance) -> None:
        self._heard.append(utterance)
        if utterance.segments:
            self._reach(utterance.segments[-1].end_ms / 1000)

    def _begin(self) -> None:
        """All that follows is heard by this run."""
        self._fresh = True

    def _reach(self, at_s: float) -> None:
        self._at_s = max(self._at_s, at_s)
        if not self._fresh:
            self._left_s = self._at_s
        self._means.reach(self._at_s, self._fresh)

    def _write(self, lasts_ms: int) -> list[bytes]:
        bodies = [for_people(form, self._heard, lasts_ms) for form in self._asked.forms]
        if not self._task.outputs:
            return bodies
        write_whole(dict(zip(self._task.outputs, bodies, strict=True)))
        return []


def _doubts(heard: Sequence[Utterance]) -> Counter[str]:
    return Counter(why for each in heard for why in each.suspicion.split(", ") if why)


def _check_unchanged(file: BinaryIO, identity: Identity) -> None:
    """Raises SourceError: what grows while it is read may have been read up to anywhere."""
    told = os.fstat(file.fileno())
    if (told.st_size, told.st_mtime_ns) != (identity.size, identity.modified_ns):
        size = f"it had {identity.size} bytes and has {told.st_size}"
        raise SourceError(f"it has changed while it was heard ({size}): try again once it is whole")
