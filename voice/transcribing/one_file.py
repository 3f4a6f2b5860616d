"""One file heard and written, or gone on with."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from engines.audio import Samples
from engines.diarization.turns import Diarizer
from engines.ports import Asr, Vad
from pipelines.diarization import Speakers, SpeakerTurn, heard_and_told_apart, told_apart
from pipelines.media.reading import MediaError
from pipelines.media.threads import decoded
from pipelines.places import Place
from pipelines.transcription.captions import Utterance
from pipelines.transcription.hearing import Wanted, transcribe
from voice.transcribing.formats import check_names, for_people, write_whole
from voice.transcribing.sources import Source, SourceError, check_regular
from voice.transcribing.unfinished import Identity, Remembering, Unfinished
from voice.wire.audio_api import TranscriptionForm, text_of


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
    """What is asked of all files alike. ``settings``: see ``unfinished``; ``speakers``: they are to
    be told apart, and so many are there."""

    forms: Sequence[TranscriptionForm]
    settings: Mapping[str, str]
    language: str | None = None
    word_times: bool = False
    resume: bool = False
    speakers: Speakers | None = None


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
    heard anything of it yet. ``diarizer`` is there where speakers are to be told apart."""

    vad: Vad
    asr: Asr
    place: Place
    reach: Callable[[float, bool], None]
    diarizer: Diarizer | None = None


async def hear_file(task: Task, asked: Asked, means: Means) -> Outcome:
    """Hear it and write its transcripts.

    Raises OSError and MediaError where it cannot be read or they cannot be written, SourceError
    where it changes meanwhile, UnfinishedError, and EngineError.
    """
    check_regular(task.source.path)
    check_names(task.outputs)
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
        self._gone_on_with = bool(kept.known)
        self._began = asyncio.get_running_loop().time()

    async def hear(self, file: BinaryIO, identity: Identity) -> Outcome:
        self._reach(0.0)
        async with decoded(file, float("inf")) as blocks:
            lasts_ms, turns = await self._both(blocks)
        _check_unchanged(file, identity, self._task.source.path)
        given = await asyncio.to_thread(self._write, lasts_ms, turns)
        self._kept.end(lasts_ms)
        return Outcome(
            lasts_s=lasts_ms / 1000,
            fresh_s=lasts_ms / 1000 - self._left_s,
            took_s=asyncio.get_running_loop().time() - self._began,
            words=len(text_of(self._heard).split()),
            doubts=_doubts(self._heard),
            given=given,
            note=self._kept.lost and f"could not have been gone on with: {self._kept.lost}",
        )

    async def _both(self, blocks: AsyncIterator[Samples]) -> tuple[int, Sequence[SpeakerTurn]]:
        """How long it is, and who speaks when in it where that is wanted: both at once."""
        diarizer, speakers = self._means.diarizer, self._asked.speakers
        if diarizer is None or speakers is None:
            return await self._transcribe(blocks), ()
        return await heard_and_told_apart(
            blocks, self._transcribe, lambda pcm: told_apart(pcm, diarizer, speakers)
        )

    async def _transcribe(self, blocks: AsyncIterator[Samples]) -> int:
        means, asked = self._means, self._asked
        wanted = Wanted(asked.language, call=self._task.source.shown, word_times=asked.word_times)
        asr = Remembering(means.asr, self._kept, self._begin)
        return await transcribe(
            blocks, wanted, means.vad, asr, means.place, self._put, self._reach_ms
        )

    async def _put(self, utterance: Utterance) -> None:
        self._heard.append(utterance)

    def _reach_ms(self, at_ms: int) -> None:
        self._reach(at_ms / 1000)

    def _begin(self) -> None:
        """All that follows is heard by this run, from now on: so long it may have waited for files
        before it."""
        if not self._fresh:
            self._reach(self._at_s)
            self._fresh, self._began = True, asyncio.get_running_loop().time()

    def _reach(self, at_s: float) -> None:
        self._at_s = max(self._at_s, at_s)
        if self._gone_on_with and not self._fresh:
            self._left_s = self._at_s
        self._means.reach(self._at_s, self._fresh)

    def _write(self, lasts_ms: int, turns: Sequence[SpeakerTurn]) -> list[bytes]:
        bodies = [for_people(form, self._heard, lasts_ms, turns) for form in self._asked.forms]
        if not self._task.outputs:
            return bodies
        write_whole(dict(zip(self._task.outputs, bodies, strict=True)))
        return []


def _doubts(heard: Sequence[Utterance]) -> Counter[str]:
    return Counter(why for each in heard for why in each.suspicion.split(", ") if why)


def _check_unchanged(file: BinaryIO, identity: Identity, path: Path) -> None:
    """Raises SourceError: what grows while it is read may have been read up to anywhere, and what
    was heard is not what has its name now."""
    told = os.fstat(file.fileno())
    with suppress(FileNotFoundError):
        if not os.path.samestat(told, path.stat()):
            raise SourceError("another file has taken its place while it was heard: try again")
    if (told.st_size, told.st_mtime_ns) != (identity.size, identity.modified_ns):
        size = f"it had {identity.size} bytes and has {told.st_size}"
        raise SourceError(f"it has changed while it was heard ({size}): try again once it is whole")
