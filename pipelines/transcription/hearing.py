"""A file transcribed: sound in blocks, cut at silences, heard chunk by chunk.

The VAD of the house judges the windows on the loop, some at a time, between the windows of calls;
chunks are cut ahead while others are being heard. Each is heard with the least priority, in a place
that calls may take away: then it is heard again later. Nothing of what was said before is told to
the recogniser, since one mistake would lead to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from engines.audio import FULL_SCALE, Samples
from engines.ports import Asr, AsrRequest, EngineError, Priority, Segment, Transcript, Vad, Word
from engines.vad.ears import levels_db
from pipelines.places import DisplacedError, Place
from pipelines.stall import timely
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import Chunk, Chunker, ChunkSettings

_AT_A_TIME: Final = 16
"""Windows judged between two looks at the loop: less than a millisecond."""

_CHUNKS_AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a file is to be heard. ``call`` names the work, for whoever counts it; ``word_times``
    asks for the words of each segment, which not every recogniser can tell."""

    language: str | None = None
    prompt: str = ""
    chunks: ChunkSettings | None = None
    call: str = ""
    word_times: bool = False


async def transcribe(
    blocks: AsyncIterator[Samples],
    wanted: Wanted,
    vad: Vad,
    asr: Asr,
    place: Place,
    put: Callable[[Utterance], Awaitable[None]],
) -> int:
    """Hear 16 kHz mono ``blocks``; ``put`` is given what was said, in order, and may wait. Gives
    how long the file is, in ms. Raises EngineError, and what blocks and the place raise."""
    chunks: asyncio.Queue[Chunk | None] = asyncio.Queue(_CHUNKS_AHEAD)
    try:
        async with asyncio.TaskGroup() as tasks:
            cutting = tasks.create_task(_cut(blocks, wanted, vad, chunks))
            while (chunk := await chunks.get()) is not None:
                await put(_utterance(chunk, await _hear(chunk, wanted, asr, place)))
    except ExceptionGroup as group:
        raise _first(group) from group
    return cutting.result()


async def _cut(
    blocks: AsyncIterator[Samples], wanted: Wanted, vad: Vad, chunks: asyncio.Queue[Chunk | None]
) -> int:
    chunker, slot, samples = Chunker(wanted.chunks), vad.open(), 0
    try:
        async for windows, heard in _windows(blocks, vad.window_samples):
            samples += heard
            for window, probability, level in await _judged(vad, slot, windows):
                if chunk := chunker.hear(window, probability, level):
                    await chunks.put(chunk)
    finally:
        vad.close(slot)
    if last := chunker.finish():
        await chunks.put(last)
    await chunks.put(None)
    return 1000 * samples // vad.rate


async def _windows(blocks: AsyncIterator[Samples], size: int) -> AsyncIterator[tuple[Samples, int]]:
    """Windows (n, size), the last filled up with silence, and how many samples of sound are in
    them."""
    rest: Samples = np.zeros(0, np.int16)
    step = _AT_A_TIME * size
    async for block in blocks:
        rest = np.concatenate([rest, block])
        whole = len(rest) // step * step
        for start in range(0, whole, step):
            yield rest[start : start + step].reshape(-1, size), step
        rest = rest[whole:]
    if len(rest):
        padded = np.pad(rest, (0, -len(rest) % size))
        yield padded.reshape(-1, size), len(rest)


async def _judged(vad: Vad, slot: int, windows: Samples) -> list[tuple[Samples, float, float]]:
    floats = windows.astype(np.float32) / np.float32(FULL_SCALE)
    slots = np.array([slot], np.intp)
    probabilities = [float(vad.step(slots, row[None])[0]) for row in floats]
    await asyncio.sleep(0)
    return list(zip(windows, probabilities, levels_db(floats), strict=True))


async def _hear(chunk: Chunk, wanted: Wanted, asr: Asr, place: Place) -> Transcript:
    request = AsrRequest(
        chunk.pcm, wanted.language, wanted.prompt, Priority.BATCH, wanted.call, wanted.word_times
    )
    while True:
        try:
            async with (
                place.hold(),
                asr.open(request) as given,
                timely(given, "asr") as transcripts,
            ):
                async for transcript in transcripts:
                    return transcript
        except DisplacedError:
            continue
        raise EngineError("asr", "empty", "the recogniser gave no transcript")


def _utterance(chunk: Chunk, transcript: Transcript) -> Utterance:
    """With times of the file, held within the speech: chunks have silence around it."""
    own = transcript.segments or _whole(chunk, transcript)
    segments = tuple(_placed(chunk, each) for each in own if each.text.strip())
    return Utterance(transcript.text.strip(), segments, transcript.language, transcript.suspicion)


def _placed(chunk: Chunk, segment: Segment) -> Segment:
    def between(start_ms: int, end_ms: int) -> tuple[int, int]:
        first, last = chunk.speech_start_ms, chunk.speech_end_ms
        start = min(max(chunk.start_ms + start_ms, first), last - 1)
        return start, min(max(chunk.start_ms + end_ms, start + 1), last)

    words = tuple(
        Word(word.text, *between(word.start_ms, word.end_ms), word.probability)
        for word in segment.words
    )
    start_ms, end_ms = between(segment.start_ms, segment.end_ms)
    return replace(
        segment, text=segment.text.strip(), start_ms=start_ms, end_ms=end_ms, words=words
    )


def _whole(chunk: Chunk, transcript: Transcript) -> tuple[Segment, ...]:
    return (Segment(transcript.text, 0, round(chunk.pcm.duration_ms)),)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """What went wrong first; all else followed."""
    failure: BaseException = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    assert isinstance(failure, Exception)
    return failure
