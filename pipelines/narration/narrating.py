"""A text that nobody waits behind, spoken as the replies of calls are.

Several pieces are under way at once, as many as the voice has room for, and are given in order.
Calls go first: a piece is begun only where there is a place for it, and where it loses that, it is
begun again later. The same request gives the same audio, so what there is of it already is left
out. A piece never holds its place for the sake of those before it or of a slow listener: it is
made to its end, and no further one is begun instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np

from engines.audio import Pcm
from engines.ports import EngineError, Priority, SpeechRequest, Tts
from pipelines.failures import cause_of
from pipelines.narration.joining import Joiner, Seam
from pipelines.narration.pieces import Narration, Piece
from pipelines.places import DisplacedError, Place
from pipelines.stall import timely

Put: TypeAlias = Callable[[Pcm], Awaitable[None]]
"""Takes the next sound, and may wait."""

Ended: TypeAlias = Callable[[Piece, Seam], Awaitable[None]]
"""Told once all sound of a piece was put; the seam is what the next one goes on from."""

AHEAD: Final = 4
"""Pieces that are under way or wait to be put, at most, unless the voice says more."""

_PART_MS: Final = 200
"""The most that is put at a time for somebody who listens, so that what is behind begins early."""

_LONGEST_S: Final = 240.0
"""A voice that speaks a piece for longer will not end."""


async def narrate(
    said: Iterable[Piece],
    narration: Narration,
    tts: Tts,
    place: Place,
    put: Put,
    *,
    ahead: int = AHEAD,
    joiner: Joiner | None = None,
    ended: Ended | None = None,
) -> None:
    """Say all of it. Raises EngineError, and what the place and ``put`` raise."""
    joiner = joiner or Joiner(narration.speed)
    under_way: deque[_Take] = deque()
    try:
        async with asyncio.TaskGroup() as tasks:
            for piece in said:
                if not piece.spoken:  # a text of marks alone would hold the loop for seconds
                    await asyncio.sleep(0)
                    continue
                take = _Take(piece, narration)
                tasks.create_task(take.speak(tts, place))
                if not under_way:  # places are patient with those who have one
                    await take.begun.wait()
                under_way.append(take)
                if len(under_way) >= ahead:
                    await _give(under_way.popleft(), narration, joiner, put, ended)
            while under_way:
                await _give(under_way.popleft(), narration, joiner, put, ended)
        if silence := joiner.end(narration.settings.end_ms):
            await put(silence)
    except ExceptionGroup as group:
        raise cause_of(group) from group


async def _give(
    take: _Take, narration: Narration, joiner: Joiner, put: Put, ended: Ended | None
) -> None:
    joined = joiner.piece(take.piece.pause_ms)
    async for pcm in take.sound() if narration.live else take.whole():
        for part in joined.feed(pcm):
            await _put(part, narration, put)
    for part in joined.finish():
        await _put(part, narration, put)
    if ended is not None:
        await ended(take.piece, joiner.seam)


async def _put(pcm: Pcm, narration: Narration, put: Put) -> None:
    for part in _parts(pcm) if narration.live else (pcm,):
        await put(part)


class _Take:
    """One piece under way, which may take several beginnings."""

    def __init__(self, piece: Piece, narration: Narration) -> None:
        self.piece = piece
        self.begun = asyncio.Event()
        self._request = SpeechRequest(
            piece.spoken, narration.voice, narration.speed, Priority.BATCH, narration.call
        )
        self._made: asyncio.Queue[Pcm | None] = asyncio.Queue()
        self._samples = 0

    async def speak(self, tts: Tts, place: Place) -> None:
        """Have it made."""
        whole = False
        while not whole:
            try:
                async with place.hold():
                    self.begun.set()
                    await self._speak(tts)
                    whole = True
            except DisplacedError:
                continue
        self._made.put_nowait(None)

    async def sound(self) -> AsyncIterator[Pcm]:
        """What there is of it, as it comes."""
        while (pcm := await self._made.get()) is not None:
            yield pcm

    async def whole(self) -> AsyncIterator[Pcm]:
        """All of it at once; nothing where it is empty."""
        made = [pcm async for pcm in self.sound()]
        if made:
            yield Pcm(np.concatenate([pcm.samples for pcm in made]), made[0].rate)

    async def _speak(self, tts: Tts) -> None:
        at = 0
        async with tts.open(self._request) as given, timely(given, "tts") as audio:
            async for pcm in audio:
                fresh = pcm.part(min(len(pcm), max(0, self._samples - at)))
                at += len(pcm)
                if len(fresh):
                    self._samples += len(fresh)
                    self._made.put_nowait(fresh)
                if at > _LONGEST_S * pcm.rate:
                    told = f"the voice does not come to an end of {self._request.text[:80]!r}"
                    raise EngineError("tts", "bad_response", told)


def _parts(pcm: Pcm) -> Iterator[Pcm]:
    size = max(1, _PART_MS * pcm.rate // 1000)
    return (pcm.part(start, start + size) for start in range(0, len(pcm), size))
