"""A text spoken as a job that gives way to calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import EngineError, Priority, SpeechRequest
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.joining import Joiner
from pipelines.narration.narrating import narrate
from pipelines.narration.pieces import Narration, Piece, pieces
from pipelines.narration.settings import NarrationSettings
from pipelines.places import DisplacedError

pytestmark = pytest.mark.virtual_clock

RATE = 24_000
TEXT = "Dr. Green, who was late, paid $5. Then he went home by the old road along the river."
NO_PAUSES = NarrationSettings(
    cut_ms=0, clause_ms=0, sentence_ms=0, paragraph_ms=0, heading_ms=0, chapter_ms=0, end_ms=0
)


def tone(text: str) -> np.ndarray:
    """A sound of its own for each text, at one level, whose edges are all that a fade changes."""
    time = np.arange(len(text) * 600) / RATE
    return np.rint(8_000 * np.sin(2 * np.pi * (200 + len(text)) * time)).astype(np.int16)


class Reader:
    """Says each phrase as its tone, in pieces of its own; counts who is at it."""

    def __init__(self, piece: int = 1_000, silent: str = "") -> None:
        self.requests: list[SpeechRequest] = []
        self.piece = piece
        self.silent = silent
        self.busy = self.most = 0

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        self.requests.append(request)
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            yield self._play(tone("" if request.text == self.silent else request.text))
        finally:
            self.busy -= 1

    async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
        for start in range(0, len(samples), self.piece):
            await asyncio.sleep(0.01)
            yield Pcm(samples[start : start + self.piece], RATE)


class Slots:
    """A place of so many slots. Those that are named, by when they were asked for, are lost after
    so many seconds."""

    def __init__(self, count: int = 100, lost: dict[int, float] | None = None) -> None:
        self.free = asyncio.Semaphore(count)
        self.lost = lost or {}
        self.asked = self.losses = 0

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        number, self.asked = self.asked, self.asked + 1
        async with self.free:
            try:
                async with asyncio.timeout(self.lost.get(number)):
                    yield
            except TimeoutError:
                self.losses += 1
                raise DisplacedError from None


async def say(text: str, tts: Any, place: Any, **how: Any) -> np.ndarray:
    given: list[Pcm] = []
    ahead = how.pop("ahead", 4)
    narration = Narration(settings=how.pop("settings", NO_PAUSES), **how)

    async def put(pcm: Pcm) -> None:
        await asyncio.sleep(0.001)
        given.append(pcm)

    said = pieces(chapters(blocks(text)), narration)
    await narrate(said, narration, tts, place, put, ahead=ahead)
    if narration.live:
        assert all(pcm.duration_ms <= 200 for pcm in given)
    return np.concatenate([np.zeros(0, np.int16), *(pcm.samples for pcm in given)])


def whole(tts: Reader) -> np.ndarray:
    return np.concatenate([tone(request.text) for request in tts.requests])


def same(audio: np.ndarray, expected: np.ndarray, edges: int) -> bool:
    """But for the edges, of 5 ms on both sides, that rise and fall."""
    return len(audio) == len(expected) and int((audio != expected).sum()) <= edges * 2 * 120


@pytest.mark.parametrize("live", [True, False])
async def test_all_of_it_is_said_once_and_in_order(live: bool) -> None:
    tts = Reader()
    audio = await say(TEXT, tts, Slots(), voice="tara", speed=1.5, call="file_1", live=live)
    assert len(tts.requests) == (3 if live else 2)
    assert same(audio, whole(tts), len(tts.requests))
    assert {(each.voice, each.speed, each.priority, each.call) for each in tts.requests} == {
        ("tara", 1.5, Priority.BATCH, "file_1")
    }


@pytest.mark.parametrize("lost", [{0: 0.0}, {0: 0.03}, {0: 0.03, 1: 0.05, 4: 0.0}])
@pytest.mark.parametrize("piece", [700, 4_800, 100_000])
@pytest.mark.parametrize("live", [True, False])
async def test_a_phrase_that_loses_its_place_goes_on_where_it_was(
    lost: Any, piece: int, live: bool
) -> None:
    calm = await say(TEXT, Reader(piece), Slots(), live=live)
    tts, place = Reader(piece), Slots(100, lost)
    assert np.array_equal(await say(TEXT, tts, place, live=live), calm)
    assert len(tts.requests) == (3 if live else 2) + place.losses
    assert place.losses > 0 or piece > 700


async def test_pieces_that_come_otherwise_the_second_time_make_no_difference() -> None:
    class Fickle(Reader):
        async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
            self.piece = 1_700 if self.piece == 1_000 else 1_000
            async for pcm in super()._play(samples):
                yield pcm

    calm = await say("Good morning.", Reader(), Slots())
    lost = Slots(100, {0: 0.05, 1: 0.03})
    assert np.array_equal(await say("Good morning.", Fickle(), lost), calm)


@pytest.mark.parametrize("slots", [1, 2, 3, 50])
async def test_as_many_are_under_way_as_there_is_room_for(slots: int) -> None:
    text = " ".join(f"This is sentence {number}." for number in range(9))
    tts = Reader()
    audio = await say(text, tts, Slots(slots), ahead=4)
    assert tts.most == min(slots, 4)
    assert same(audio, whole(tts), 9)


async def test_one_slot_that_is_lost_at_any_time_loses_nothing() -> None:
    text = " ".join(f"This is sentence {number}." for number in range(5))
    calm = await say(text, Reader(), Slots())
    for number in range(5):
        for after_s in (0.0, 0.015, 0.11):
            audio = await say(text, Reader(), Slots(1, {number: after_s, number + 1: after_s}))
            assert np.array_equal(audio, calm)


async def test_no_more_is_made_than_may_wait_for_who_takes_it() -> None:
    text, tts, full = "One sentence. " * 30, Reader(), asyncio.Event()

    async def never(pcm: Pcm) -> None:
        full.set()
        await asyncio.get_running_loop().create_future()

    narration = Narration()
    said = pieces(chapters(blocks(text)), narration)
    work = asyncio.ensure_future(narrate(said, narration, tts, Slots(), never, ahead=4))
    await full.wait()
    await asyncio.sleep(60)
    assert (len(tts.requests), tts.busy) == (4, 0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_who_listens_has_the_beginning_before_a_piece_is_whole() -> None:
    tts, first = Reader(1_000), asyncio.Event()

    async def put(pcm: Pcm) -> None:
        first.set()

    narration = Narration(live=True)
    said = pieces(chapters(blocks(TEXT)), narration)
    work = asyncio.ensure_future(narrate(said, narration, tts, Slots(1), put))
    await first.wait()
    assert (tts.busy, len(tts.requests)) == (1, 1)
    await work


async def test_it_goes_on_from_a_seam_as_it_would_have() -> None:
    text = "A short one.\n\nAnd a very long one, of more words than that. Nothing.\n\nThe end."
    narration = Narration()
    said = list(pieces(chapters(blocks(text)), narration))
    tts = Reader(silent="Nothing.")
    sound: list[Pcm] = []
    seams: list[tuple[Piece, Any, int]] = []

    async def put(pcm: Pcm) -> None:
        sound.append(pcm)

    async def ended(piece: Piece, seam: Any) -> None:
        seams.append((piece, seam, len(sound)))

    await narrate(said, narration, tts, Slots(), put, ended=ended)
    calm = list(sound)
    assert [piece for piece, _, _ in seams] == said
    for number, (_, seam, count) in enumerate(list(seams), 1):
        sound = calm[:count]
        joiner = Joiner(narration.speed, seam)
        await narrate(said[number:], narration, tts, Slots(), put, joiner=joiner)
        samples = [np.concatenate([pcm.samples for pcm in each]) for each in (sound, calm)]
        assert np.array_equal(*samples)


async def test_a_voice_that_fails_ends_it() -> None:
    class Broken(Reader):
        async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
            yield Pcm(samples[:100], RATE)
            raise EngineError("tts", "failed", "broken")

    with pytest.raises(EngineError, match="broken"):
        await say(TEXT, Broken(), Slots())


async def test_a_voice_without_end_is_ended() -> None:
    class Endless(Reader):
        async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
            while True:
                await asyncio.sleep(0.01)
                yield Pcm(np.full(RATE, 5_000, np.int16), RATE)

    with pytest.raises(EngineError, match="does not come to an end"):
        await say(TEXT, Endless(), Slots())


async def test_what_takes_the_sound_may_fail() -> None:
    tts = Reader()

    async def full(pcm: Pcm) -> None:
        raise OSError(28, "No space left on device")

    narration = Narration()
    with pytest.raises(OSError, match="No space left"):
        await narrate(pieces(chapters(blocks(TEXT)), narration), narration, tts, Slots(), full)
    assert tts.busy == 0


async def test_nothing_to_be_said_is_no_sound() -> None:
    assert len(await say("---\n\n***\n", Reader(), Slots(), settings=NarrationSettings())) == 0


async def test_others_have_their_turn_while_a_text_has_nothing_to_be_said() -> None:
    turns, tts = 0, Reader()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(others())
    assert len(await say("- " * 2_000, tts, Slots(), live=True)) == 0
    busy.cancel()
    assert turns > 100
    assert tts.requests == []
