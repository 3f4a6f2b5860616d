"""Who speaks when in a file: its sound gathered on the disk, and told apart as a whole.

A speaker is known by all that he says, so the whole file must be there first. It is worked on
beside its transcription, which takes its time; decoding does not, so either both decode it, or what
was gathered is what the other hears, too (``blocks_of``). While calls need the machine, it stands
still.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Any, Final, TypeVar

import numpy as np

from engines.audio import Pcm, Samples
from engines.diarization.turns import Diarization, DiarizationRequest, Diarizer, Pausable
from engines.diarization.turns import SpeakerTurn as SpeakerTurn
from engines.ports import EngineError
from pipelines.failures import cause_of
from pipelines.speakers import by_speaker as by_speaker
from pipelines.speakers import named
from pipelines.speakers import speakers_of as speakers_of

T = TypeVar("T")

RATE: Final = 16_000
_BLOCK: Final = 4 * RATE
_LOOK_S: Final = 0.25
"""An event wakes nobody when it is cleared, so it is looked at so often."""


@dataclass(frozen=True, slots=True)
class Speakers:
    """How many there are: ``exactly``, or between ``least`` and ``most``, None where that is not
    known. ``exclusive``: one at a time, as subtitles want it."""

    exactly: int | None = None
    least: int = 1
    most: int | None = None
    exclusive: bool = True


async def diarize(
    blocks: AsyncIterator[Samples],
    diarizer: Diarizer,
    wanted: Speakers | None = None,
    *,
    may_run: asyncio.Event | None = None,
    call: str = "",
) -> tuple[SpeakerTurn, ...]:
    """Who speaks when in 16 kHz mono ``blocks``, in order, speakers called ``Speaker 1`` and so on.
    While ``may_run`` is cleared, the work stands still. Raises EngineError, and what blocks raise.
    """
    async with gathered(blocks) as pcm:
        return await told_apart(pcm, diarizer, wanted, may_run=may_run, call=call)


async def told_apart(
    pcm: Pcm,
    diarizer: Diarizer,
    wanted: Speakers | None = None,
    *,
    may_run: asyncio.Event | None = None,
    call: str = "",
) -> tuple[SpeakerTurn, ...]:
    """``diarize`` for what is gathered already."""
    wanted = wanted or Speakers()
    request = DiarizationRequest(pcm, wanted.exactly, wanted.least, wanted.most, call)
    async with _giving_way(diarizer, may_run):
        found = await _ask(diarizer, request)
    return named(found.exclusive if wanted.exclusive else found.turns)


async def heard_and_told_apart(
    blocks: AsyncIterator[Samples],
    hear: Callable[[AsyncIterator[Samples]], Coroutine[Any, Any, T]],
    tell_apart: Callable[[Pcm], Coroutine[Any, Any, tuple[SpeakerTurn, ...]]],
) -> tuple[T, tuple[SpeakerTurn, ...]]:
    """Both at once, of what is decoded once. Raises what goes wrong first."""
    try:
        async with gathered(blocks) as pcm, asyncio.TaskGroup() as tasks:
            turns = tasks.create_task(tell_apart(pcm))
            heard = tasks.create_task(hear(blocks_of(pcm)))
    except ExceptionGroup as group:
        raise cause_of(group) from group
    return heard.result(), turns.result()


@asynccontextmanager
async def gathered(blocks: AsyncIterator[Samples]) -> AsyncIterator[Pcm]:
    """All of them, mapped from a file that is gone with the context: ten hours are 1.2 GB, which
    the disk holds and not the memory. It has no name, so that a process that is killed leaves none
    behind. Raises EngineError where it cannot be kept."""
    with tempfile.TemporaryFile() as file:
        await _gather(blocks, file)
        yield Pcm(_mapped(file), RATE)


async def blocks_of(pcm: Pcm) -> AsyncIterator[Samples]:
    """The sound of what was gathered, some seconds at a time."""
    for start in range(0, len(pcm), _BLOCK):
        yield np.array(pcm.samples[start : start + _BLOCK])


async def _gather(blocks: AsyncIterator[Samples], file: IO[bytes]) -> None:
    try:
        async for block in blocks:
            await asyncio.to_thread(file.write, np.ascontiguousarray(block).data)
        await asyncio.to_thread(file.flush)
    except OSError as error:
        told = f"the sound cannot be kept in {tempfile.gettempdir()} ({error}): make room there"
        raise EngineError("diarization", "failed", told) from error


def _mapped(file: IO[bytes]) -> Samples:
    if not file.tell():  # which cannot be mapped
        return np.zeros(0, np.int16)
    path = f"/proc/{os.getpid()}/fd/{file.fileno()}"  # which other processes can open, too
    samples: Samples = np.memmap(path, np.int16, mode="r")
    return samples


async def _ask(diarizer: Diarizer, request: DiarizationRequest) -> Diarization:
    async with diarizer.open(request) as given:
        async for diarization in given:
            return diarization
    raise EngineError("diarization", "empty", "no diarization was given")


@asynccontextmanager
async def _giving_way(diarizer: Diarizer, may_run: asyncio.Event | None) -> AsyncIterator[None]:
    if may_run is None or not isinstance(diarizer, Pausable):
        yield
        return
    watch = asyncio.create_task(_pause_while_cleared(diarizer, may_run))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.wait([watch])


async def _pause_while_cleared(diarizer: Pausable, may_run: asyncio.Event) -> None:
    while True:
        if may_run.is_set():
            await asyncio.sleep(_LOOK_S)
            continue
        diarizer.pause()
        try:
            await may_run.wait()
        finally:
            diarizer.resume()
