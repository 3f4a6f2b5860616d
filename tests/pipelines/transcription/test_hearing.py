"""A file heard chunk by chunk, by a recogniser that tells what it was given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, Priority, Segment, Transcript, Word
from pipelines.places import DisplacedError
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import Chunk, ChunkSettings
from pipelines.transcription.hearing import AT_ONCE, ChunksUnderWay, Wanted, transcribe


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
    took = await transcribe(source, wanted or Wanted(), vad, asr, place, put, more.get("reach"))
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


# --- many at a time -------------------------------------------------------------------------


def talk(times: int) -> AsyncIterator[np.ndarray]:
    return blocks(*((8_000, 1), (0, 1)) * times)


ENGLISH = Wanted("en")


async def settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0.001)


class Choosing(Counting):
    """Each clip is heard when it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, asyncio.Event] = {}
        self.more = asyncio.Condition()

    async def _play(self, number: int) -> AsyncIterator[Transcript]:
        async with self.more:
            self.waiting[number] = asyncio.Event()
            self.more.notify_all()
        await self.waiting[number].wait()
        yield Transcript(f"clip {number}", "en")

    async def until(self, count: int) -> None:
        async with self.more:
            await self.more.wait_for(lambda: len(self.waiting) >= count)


async def test_chunks_are_heard_side_by_side_and_told_in_order(vad: Any) -> None:
    asr, reached = Choosing(), list[int]()
    hearing = asyncio.ensure_future(
        hear(vad, asr, wanted=ENGLISH, source=talk(6), reach=reached.append)
    )
    await asr.until(6)
    for number in (4, 6, 2, 1, 3, 5):
        asr.waiting[number].set()
    heard, lasts_ms = await hearing
    assert [each.text for each in heard] == [f"clip {number}" for number in range(1, 7)]
    assert reached == sorted(reached)
    assert len(reached) == 7
    assert reached[-1] == lasts_ms == 12_000


async def test_no_more_is_under_way_nor_cut_ahead_than_so_much(vad: Any) -> None:
    asr, taken = Choosing(), 0

    async def counted() -> AsyncIterator[np.ndarray]:
        nonlocal taken
        async for block in talk(200):
            taken += len(block)
            yield block

    hearing = asyncio.ensure_future(hear(vad, asr, wanted=ENGLISH, source=counted()))
    await asr.until(AT_ONCE)
    await settled()
    assert len(asr.waiting) == AT_ONCE
    assert taken < 100 * 16_000
    for number in range(1, 201):
        await asr.until(number)
        asr.waiting[number].set()
    heard, _ = await hearing
    assert [each.text for each in heard] == [f"clip {number}" for number in range(1, 201)]


async def test_who_takes_what_was_said_slowly_holds_all_back(vad: Any) -> None:
    asr, go = Counting(), asyncio.Event()

    async def put(_: Utterance) -> None:
        await go.wait()

    hearing = asyncio.ensure_future(
        transcribe(talk(100), ENGLISH, vad, asr, Anywhere(), put)  # type: ignore[arg-type]
    )
    await settled()
    assert len(asr.requests) <= AT_ONCE
    go.set()
    await hearing
    assert len(asr.requests) == 100


# --- languages ------------------------------------------------------------------------------


def in_languages(*languages: str) -> list[Transcript]:
    return [Transcript(f"text {n} of some length", code) for n, code in enumerate(languages)]


async def test_a_file_has_the_language_of_most_of_its_beginning(vad: Any) -> None:
    asr = Counting(*in_languages("de", "nl", "de", "de", "de", "de"))
    heard, _ = await hear(vad, asr, source=talk(5))
    assert [each.language for each in asr.requests] == [None, None, None, "de", "de", "de"]
    assert [each.text.split()[1] for each in heard] == ["0", "3", "2", "4", "5"]


async def test_a_short_file_has_one_too_and_silence_votes_for_none(vad: Any) -> None:
    asr = Counting(Transcript("", None), *in_languages("de"))
    heard, _ = await hear(vad, asr, source=talk(2))
    assert [each.language for each in asr.requests] == [None, None]
    assert [each.language for each in heard] == [None, "de"]


async def test_a_mixed_file_has_a_language_for_each_chunk(vad: Any) -> None:
    asr = Counting(*in_languages("de", "nl", "de", "en", "de"))
    heard, _ = await hear(vad, asr, source=talk(5), wanted=Wanted(mixed=True))
    assert {each.language for each in asr.requests} == {None}
    assert [each.language for each in heard] == ["de", "nl", "de", "en", "de"]


# --- seams and words ------------------------------------------------------------------------


async def test_what_two_chunks_have_in_common_is_told_once(vad: Any) -> None:
    asr = Counting(Transcript("we went to the", "en"), Transcript("to the river", "en"))
    heard, _ = await hear(vad, asr, source=blocks((8_000, 40)), wanted=ENGLISH)
    assert [each.text for each in heard] == ["we went to the", "river"]


async def test_the_words_of_a_segment_have_the_times_of_the_file(vad: Any) -> None:
    words = (Word("one", 300, 500, 0.9), Word("two", 500, 9_000, 0.8))
    asr = Counting(Transcript("one two", "en", (Segment("one two", 0, 9_000, words=words),)))
    heard, _ = await hear(
        vad, asr, source=blocks((0, 1), (8_000, 2), (0, 1)), wanted=Wanted("en", word_times=True)
    )
    assert asr.requests[0].word_times
    [segment] = heard[0].segments
    one, two = segment.words
    assert (one.text, one.probability) == ("one", 0.9)
    assert one.end_ms - one.start_ms == 200
    assert one.end_ms == two.start_ms
    assert two.end_ms == segment.end_ms == pytest.approx(3_000, abs=64)


@pytest.mark.virtual_clock
async def test_a_recogniser_that_gives_nothing_for_ten_minutes_has_failed() -> None:
    asr, loop = Counting(), asyncio.get_running_loop()
    asr.go.clear()
    began = loop.time()

    async def one() -> AsyncIterator[Chunk]:
        yield Chunk(Pcm.silence(1_000, 16_000), 0, 0, 900)

    async with asyncio.TaskGroup() as tasks:
        under_way = ChunksUnderWay(ENGLISH, asr, Anywhere(), tasks)  # type: ignore[arg-type]
        await under_way.begin_all(one())
        begun = await under_way.begun.get()
        assert begun is not None
        failure = await begun[1]
    assert isinstance(failure, EngineError)
    assert (failure.code, failure.message) == ("timeout", "nothing came for 600 s")
    assert loop.time() - began == pytest.approx(600)
