"""A file transcribed: sound in blocks, cut at silences, many chunks heard at a time.

A thread of the file's own judges and cuts a little ahead; the chunks are then asked for all at
once, as far as there are places, and whoever hears them may do so in any order or together. What
was said comes out in the order of the file. Each is heard with the least priority, in a place that
calls may take away: then it is heard again later. Nothing of what was said before is told to the
recogniser, since one mistake would lead to others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from engines.audio import FULL_SCALE, Samples
from engines.ports import Asr, AsrRequest, EngineError, Priority, Segment, Transcript, Vad, Word
from engines.vad.ears import levels_db
from pipelines.failures import cause_of
from pipelines.media.threads import OneThread, one_thread
from pipelines.places import DisplacedError, Place
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import Chunk, Chunker, ChunkSettings
from pipelines.transcription.seams import part

AT_ONCE: Final = 24
"""Chunks of a file that are being heard, wait for that, or wait for one before them: few enough
for the most files that there may be at once to fit into a recogniser's queue."""

_SPAN: Final = 1_024
"""Windows that are cut at a time, half a minute: whatever a file has, no more of it is held than
this and the chunks under way."""

_JUDGED: Final = 256
"""Windows judged at a time: a few milliseconds."""

_VOTERS: Final = 3
"""Chunks whose languages decide that of the file."""

_STALL_S: Final = 600.0
"""A recogniser that gives nothing for so long has failed. A slow one has two dozen chunks before
it, and what calls leave of the machine."""

_Heard: TypeAlias = Transcript | Exception
_Work: TypeAlias = tuple[Chunk, asyncio.Task[_Heard]]
"""A chunk that fails is told in its turn: what was said before it is given all the same."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a file is to be heard. ``call`` names the work, for whoever counts it; ``word_times``
    asks for the words of each segment, which not every recogniser can tell. Without a
    ``language``, the file has that of most of its beginning; ``mixed``: each chunk has its own."""

    language: str | None = None
    prompt: str = ""
    chunks: ChunkSettings | None = None
    call: str = ""
    word_times: bool = False
    mixed: bool = False


async def transcribe(
    blocks: AsyncIterator[Samples],
    wanted: Wanted,
    vad: Vad,
    asr: Asr,
    place: Place,
    put: Callable[[Utterance], Awaitable[None]],
    reach: Callable[[int], None] | None = None,
) -> int:
    """Hear 16 kHz mono ``blocks``; ``put`` is given what was said, in order, and may wait; then
    ``reach`` is told up to where the file has been heard, in ms. Gives how long the file is, in ms.
    Raises EngineError, and what blocks and the place raise."""
    reach = reach or (lambda _: None)
    try:
        async with one_thread() as thread, asyncio.TaskGroup() as tasks:
            cutting = _Cutting(blocks, wanted.chunks or ChunkSettings(), vad.twin(), thread)
            hearing = ChunksUnderWay(wanted, asr, place, tasks)
            tasks.create_task(hearing.begin_all(cutting.chunks()))
            await _tell(hearing.begun, put, reach)
    except ExceptionGroup as group:
        raise cause_of(group) from group
    reach(cutting.lasts_ms)
    return cutting.lasts_ms


class _Cutting:
    """Of one file, in the thread."""

    def __init__(
        self, blocks: AsyncIterator[Samples], settings: ChunkSettings, vad: Vad, thread: OneThread
    ) -> None:
        self.lasts_ms = 0
        self._blocks = blocks
        self._vad = vad
        self._thread = thread
        self._slot = vad.open()
        self._chunker = Chunker(settings)

    async def chunks(self) -> AsyncIterator[Chunk]:
        """All of them; then ``lasts_ms`` is how long the file is."""
        samples = 0
        async for span in _spans(self._blocks, self._vad.window_samples):
            samples += len(span)
            for chunk in await self._thread.run(self._cut, span):
                yield chunk
        if last := self._chunker.finish():
            yield last
        self.lasts_ms = 1000 * samples // self._vad.rate

    def _cut(self, span: Samples) -> list[Chunk]:
        """What is complete with this; the end of the file may lie within a window."""
        size = self._vad.window_samples
        windows = np.pad(span, (0, -len(span) % size)).reshape(-1, size)
        chunks: list[Chunk | None] = []
        for start in range(0, len(windows), _JUDGED):
            some = windows[start : start + _JUDGED]
            floats = some.astype(np.float32) / np.float32(FULL_SCALE)
            probabilities = self._vad.follow(self._slot, floats).tolist()
            chunks += map(self._chunker.hear, some, probabilities, levels_db(floats))
        return [chunk for chunk in chunks if chunk]


async def _spans(blocks: AsyncIterator[Samples], size: int) -> AsyncIterator[Samples]:
    """The same in pieces of whole windows."""
    wanted, kept, gathered = _SPAN * size, list[Samples](), 0
    async for block in blocks:
        kept.append(block)
        gathered += len(block)
        if gathered >= wanted:
            whole = np.concatenate(kept)
            end = gathered // wanted * wanted
            yield whole[:end]
            kept, gathered = [whole[end:]], gathered - end
    if gathered:
        yield np.concatenate(kept)


class ChunksUnderWay:
    """What is under way of one file: ``begun``, in the order of the file, and None at its end."""

    def __init__(self, wanted: Wanted, asr: Asr, place: Place, tasks: asyncio.TaskGroup) -> None:
        # besides these, one is waited for, and one waits to be put
        self.begun: asyncio.Queue[_Work | None] = asyncio.Queue(AT_ONCE - 2)
        self._wanted = wanted
        self._asr = asr
        self._place = place
        self._tasks = tasks

    async def begin_all(self, chunks: AsyncIterator[Chunk]) -> None:
        """Ask for chunk after chunk, as many at a time as there is room for."""
        voters: list[Chunk] | None = None if self._wanted.language or self._wanted.mixed else []
        async for chunk in chunks:
            if voters is None:
                await self.begun.put(self._begin(chunk))
                continue
            voters.append(chunk)
            if len(voters) == _VOTERS:
                await self._vote(voters)
                voters = None
        if voters:
            await self._vote(voters)
        await self.begun.put(None)

    def _begin(self, chunk: Chunk) -> _Work:
        return chunk, self._tasks.create_task(self._heard(chunk))

    async def _vote(self, chunks: Sequence[Chunk]) -> None:
        """Find the language out; who was heard in another is heard again."""
        begun = [self._begin(chunk) for chunk in chunks]
        heard = [await task for _, task in begun]
        votes: Counter[str] = Counter()
        for each in heard:
            if isinstance(each, Transcript):
                votes[each.language or ""] += len(each.text)
        language = max(votes, key=votes.__getitem__, default=None)
        self._wanted = replace(self._wanted, language=language or None)
        for work, each in zip(begun, heard, strict=True):
            again = _is_foreign(each, self._wanted.language)
            await self.begun.put(self._begin(work[0]) if again else work)

    async def _heard(self, chunk: Chunk) -> _Heard:
        try:
            return await self._hear(chunk)
        except Exception as error:  # noqa: BLE001 - it is raised where its turn comes
            return error

    async def _hear(self, chunk: Chunk) -> Transcript:
        wanted = self._wanted
        request = AsrRequest(
            chunk.pcm,
            wanted.language,
            wanted.prompt,
            Priority.BATCH,
            wanted.call,
            wanted.word_times,
        )
        while True:
            try:
                async with self._place.hold():
                    return await _answer(self._asr, request)
            except DisplacedError:
                continue


def _is_foreign(heard: _Heard, language: str | None) -> bool:
    return isinstance(heard, Transcript) and heard.text != "" and heard.language != language


async def _answer(asr: Asr, request: AsrRequest) -> Transcript:
    try:
        async with asyncio.timeout(_STALL_S), asr.open(request) as transcripts:
            async for transcript in transcripts:
                return transcript
    except TimeoutError:
        raise EngineError("asr", "timeout", f"nothing came for {_STALL_S:.0f} s") from None
    raise EngineError("asr", "empty", "the recogniser gave no transcript")


async def _tell(
    begun: asyncio.Queue[_Work | None],
    put: Callable[[Utterance], Awaitable[None]],
    reach: Callable[[int], None],
) -> None:
    """Everything in order, once. What shares its end with the next waits for that one."""
    held: Utterance | None = None
    while (each := await begun.get()) is not None:
        chunk, heard = each[0], await each[1]
        if isinstance(heard, Exception):
            raise heard
        utterance = _utterance(chunk, heard)
        if held is not None:
            held, utterance = part(held, utterance)
            await put(held)
            held = None
        if chunk.shared_ms:
            held = utterance
        else:
            await put(utterance)
            reach(chunk.speech_end_ms)
    if held is not None:
        await put(held)


def _utterance(chunk: Chunk, transcript: Transcript) -> Utterance:
    """With times of the file."""
    own = transcript.segments or (Segment(transcript.text, 0, round(chunk.pcm.duration_ms)),)
    segments = tuple(_placed(chunk, each) for each in own if each.text.strip())
    return Utterance(transcript.text.strip(), segments, transcript.language, transcript.suspicion)


def _placed(chunk: Chunk, segment: Segment) -> Segment:
    words = tuple(
        Word(word.text, *chunk.span(word.start_ms, word.end_ms, 0), word.probability)
        for word in segment.words
    )
    start_ms, end_ms = chunk.span(segment.start_ms, segment.end_ms)
    return replace(
        segment, text=segment.text.strip(), start_ms=start_ms, end_ms=end_ms, words=words
    )
