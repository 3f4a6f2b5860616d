"""A file heard chunk by chunk, by a recogniser that tells what it was given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.ports import AsrRequest, EngineError, Priority, Segment, Transcript
from pipelines.places import DisplacedError
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import ChunkSettings
from pipelines.transcription.hearing import Wanted, transcribe

pytestmark = pytest.mark.virtual_clock


class Counting:
    """Says which clip it was given, and how long that was."""

    def __init__(self, *transcripts: Transcript | Exception) -> None:
        self.requests: list[AsrRequest] = []
        self.transcripts = list(transcripts)
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        self.requests.append(request)
        self.entered.set()
        await self.go.wait()
        yield self._play(len(self.requests))

    async def _play(self, number: int) -> AsyncIterator[Transcript]:
        if self.transcripts:
            given = self.transcripts.pop(0)
            if isinstance(given, Exception):
                raise given
            yield given
        else:
            yield Transcript(f"clip {number}", "en")


class Anywhere:
    """A place that is there. ``lose``: how many times it is taken away at once."""

    def __init__(self, lose: int = 0) -> None:
        self.lose = lose
        self.held = 0

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        self.held += 1
        if self.held <= self.lose:
            raise DisplacedError
        yield


async def blocks(*parts: tuple[int, float]) -> AsyncIterator[np.ndarray]:
    """Sound and silence: (level, seconds), in blocks that end anywhere."""
    samples = np.concatenate([np.full(int(16_000 * s), level, np.int16) for level, s in parts])
    for start in range(0, len(samples), 7_777):
        yield samples[start : start + 7_777]


async def hear(
    vad: Any, asr: Any, place: Any = None, wanted: Wanted | None = None, **more: Any
) -> tuple[list[Utterance], int]:
    heard: list[Utterance] = []

    async def put(utterance: Utterance) -> None:
        heard.append(utterance)

    source = more.get("source") or blocks((0, 1), (8_000, 2), (0, 1), (8_000, 1), (0, 0.3))
    place = place or Anywhere()
    took = await transcribe(source, wanted or Wanted(), vad, asr, place, put)
    assert vad.slots == set()
    return heard, took


async def test_what_is_said_comes_in_order_with_its_time(vad: Any) -> None:
    heard, lasts_ms = await hear(vad, Counting())
    assert lasts_ms == 5_300
    assert [(each.text, each.language) for each in heard] == [("clip 1", "en"), ("clip 2", "en")]
    times = [(each.segments[0].start_ms, each.segments[0].end_ms) for each in heard]
    assert times == [
        (pytest.approx(1_000, abs=64), pytest.approx(3_000, abs=64)),
        (pytest.approx(4_000, abs=64), pytest.approx(5_000, abs=64)),
    ]


async def test_each_chunk_is_asked_for_as_work_that_may_wait(vad: Any) -> None:
    asr = Counting()
    await hear(vad, asr, wanted=Wanted("de", "Rolf", ChunkSettings(), "file_1"))
    assert {(each.language, each.prompt, each.priority, each.call) for each in asr.requests} == {
        ("de", "Rolf", Priority.BATCH, "file_1")
    }
    assert all(each.pcm.rate == 16_000 for each in asr.requests)


async def test_segments_of_a_recogniser_are_moved_to_the_files_time(vad: Any) -> None:
    own = (Segment(" one", 0, 900, -0.5), Segment("two ", 900, 9_999), Segment(" ", 0, 1))
    transcript = Transcript(" one two ", "en", own, "loop")
    heard, _ = await hear(vad, Counting(transcript))
    assert (heard[0].text, heard[0].suspicion) == ("one two", "loop")
    one, two = heard[0].segments
    assert (one.text, two.text, one.avg_logprob) == ("one", "two", -0.5)
    assert 900 < one.start_ms < one.end_ms <= two.start_ms < two.end_ms < 3_100


async def test_silence_is_asked_of_nobody(vad: Any) -> None:
    asr = Counting()
    assert await hear(vad, asr, source=blocks((0, 3))) == ([], 3_000)
    assert asr.requests == []


async def test_a_chunk_of_nothing_but_noise_has_no_segments(vad: Any) -> None:
    heard, _ = await hear(vad, Counting(Transcript("", suspicion="noise")))
    assert (heard[0].text, heard[0].segments, heard[0].suspicion) == ("", (), "noise")


async def test_who_loses_the_place_hears_the_chunk_again(vad: Any) -> None:
    asr, place = Counting(), Anywhere(lose=3)
    heard, _ = await hear(vad, asr, place)
    assert [each.text for each in heard] == ["clip 1", "clip 2"]
    assert place.held == 5


async def test_a_recogniser_that_fails_ends_it(vad: Any) -> None:
    failing = Counting(EngineError("asr", "failed", "broken"))
    with pytest.raises(EngineError, match="broken"):
        await hear(vad, failing)
    assert vad.slots == set()


async def test_a_file_that_is_damaged_in_its_middle_ends_it(vad: Any) -> None:
    async def damaged() -> AsyncIterator[np.ndarray]:
        async for block in blocks((8_000, 1), (0, 1)):
            yield block
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await hear(vad, Counting(), source=damaged())
    assert vad.slots == set()


async def test_a_recogniser_that_gives_nothing_is_told(vad: Any) -> None:
    class Mute(Counting):
        async def _play(self, number: int) -> AsyncIterator[Transcript]:
            for _ in ():
                yield Transcript("")

    with pytest.raises(EngineError, match="no transcript"):
        await hear(vad, Mute())


async def test_no_more_is_cut_ahead_than_a_few_chunks(vad: Any) -> None:
    asr, taken = Counting(), 0

    async def counted() -> AsyncIterator[np.ndarray]:
        nonlocal taken
        for _ in range(50):
            async for block in blocks((8_000, 1), (0, 1)):
                taken += len(block)
                yield block

    asr.go.clear()
    hearing = asyncio.ensure_future(hear(vad, asr, source=counted()))
    await asr.entered.wait()
    for _ in range(2_000):
        await asyncio.sleep(0)
    assert taken < 10 * 32_000
    asr.go.set()
    heard, _ = await hearing
    assert len(heard) == 50
