"""Who speaks when in a file: gathering, asking, and giving way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.audio import Pcm
from engines.diarization.turns import Diarization, DiarizationRequest, SpeakerTurn
from engines.ports import EngineError
from pipelines import diarization
from pipelines.diarization import (
    Speakers,
    blocks_of,
    diarize,
    gathered,
    heard_and_told_apart,
    told_apart,
)

TURNS = (SpeakerTurn("b", 0, 900), SpeakerTurn("a", 500, 2000))
EXCLUSIVE = (SpeakerTurn("b", 0, 500), SpeakerTurn("a", 500, 2000))

SOUND = Pcm(np.zeros(10, np.int16), 16_000)


class Teller:
    """A diarizer that says the same of everything, once it may go on."""

    def __init__(self) -> None:
        self.requests: list[DiarizationRequest] = []
        self.heard: list[np.ndarray] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.gives: tuple[Diarization, ...] = (Diarization(TURNS, EXCLUSIVE),)

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    @asynccontextmanager
    async def open(self, request: DiarizationRequest):
        self.requests.append(request)
        self.heard.append(np.array(request.pcm.samples))
        yield self._given()

    async def _given(self) -> AsyncIterator[Diarization]:
        await self.go_on.wait()
        for given in self.gives:
            yield given


class Patient(Teller):
    """One that can stand still."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


async def blocks(*lengths: int) -> AsyncIterator[np.ndarray]:
    at = 0
    for length in lengths:
        yield np.arange(at, at + length).astype(np.int16)
        at += length


async def test_all_of_the_sound_is_told_apart_at_once():
    teller = Teller()
    found = await diarize(blocks(1000, 3, 500), teller, call="file_1")
    assert found == (SpeakerTurn("Speaker 1", 0, 500), SpeakerTurn("Speaker 2", 500, 2000))
    [request], [heard] = teller.requests, teller.heard
    assert heard.tolist() == list(range(1503))
    assert request.pcm.rate == 16_000
    assert request.call == "file_1"
    assert isinstance(request.pcm.samples, np.memmap)


async def test_several_may_speak_at_once_where_that_is_wanted():
    found = await diarize(blocks(10), Teller(), Speakers(exclusive=False))
    assert [turn.end_ms for turn in found] == [900, 2000]


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [(None, (None, 1, None)), (Speakers(3), (3, 1, None)), (Speakers(None, 2, 5), (None, 2, 5))],
)
async def test_how_many_speak_is_passed_on(wanted, asked):
    teller = Teller()
    await diarize(blocks(10), teller, wanted)
    [request] = teller.requests
    assert (request.speakers, request.least, request.most) == asked


async def test_a_file_without_sound_can_be_asked_about():
    teller = Teller()
    await diarize(blocks(), teller)
    assert len(teller.requests[0].pcm) == 0


async def test_what_is_gathered_has_no_name_that_could_be_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(diarization.tempfile, "tempdir", str(tmp_path))
    async with gathered(blocks(1000)) as pcm:
        again = np.memmap(pcm.samples.filename, np.int16, mode="r")
        assert again.tolist() == list(range(1000))
        assert not list(tmp_path.iterdir())


async def test_what_was_gathered_can_be_heard_again(monkeypatch):
    monkeypatch.setattr(diarization, "_BLOCK", 400)
    async with gathered(blocks(1000, 1)) as pcm:
        again = [block async for block in blocks_of(pcm)]
        assert [len(block) for block in again] == [400, 400, 201]
        assert np.array_equal(np.concatenate(again), pcm.samples)
        assert await told_apart(pcm, Teller()) == await diarize(blocks(5), Teller())


async def test_a_diarizer_that_gives_nothing_is_told_of():
    teller = Teller()
    teller.gives = ()
    with pytest.raises(EngineError, match="no diarization was given"):
        await diarize(blocks(10), teller)


async def test_a_full_disk_is_told_with_where_it_is(monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(diarization.np, "ascontiguousarray", full)
    with pytest.raises(EngineError, match=r"No space left on device.*make room there"):
        await diarize(blocks(10), Teller())


async def test_what_blocks_raise_is_raised():
    async def broken():
        yield np.zeros(5, np.int16)
        raise LookupError("damaged")

    with pytest.raises(LookupError, match="damaged"):
        await diarize(broken(), Teller())


async def test_it_is_heard_and_told_apart_at_once():
    teller = Teller()
    teller.go_on.clear()

    async def hear(sound: AsyncIterator[np.ndarray]) -> int:
        heard = sum([len(block) async for block in sound])
        teller.go_on.set()  # so neither waits for the other
        return heard

    async def tell_apart(pcm: Pcm) -> tuple[SpeakerTurn, ...]:
        return await told_apart(pcm, teller)

    heard, turns = await heard_and_told_apart(blocks(5, 3), hear, tell_apart)
    assert (heard, len(turns)) == (8, 2)


async def test_what_goes_wrong_first_is_raised_by_itself():
    async def hear(_sound: AsyncIterator[np.ndarray]) -> int:
        raise EngineError("asr", "failed", "no ears")

    async def tell_apart(_pcm: Pcm) -> tuple[SpeakerTurn, ...]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(EngineError, match="no ears"):
        await heard_and_told_apart(blocks(5), hear, tell_apart)


# --- giving way -----------------------------------------------------------------------------


@pytest.mark.virtual_clock
async def test_it_stands_still_while_files_may_not_run():
    teller, may_run = Patient(), asyncio.Event()
    may_run.set()
    teller.go_on.clear()
    asked = asyncio.create_task(told_apart(SOUND, teller, may_run=may_run))
    await asyncio.sleep(1)
    assert teller.told == []
    may_run.clear()
    await asyncio.sleep(1)
    assert teller.told == ["pause"]
    may_run.set()
    await asyncio.sleep(1)
    assert teller.told == ["pause", "resume"]
    teller.go_on.set()
    assert len(await asked) == 2


@pytest.mark.virtual_clock
async def test_one_that_is_left_while_it_is_paused_goes_on():
    teller, may_run = Patient(), asyncio.Event()
    teller.go_on.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await told_apart(SOUND, teller, may_run=may_run)
    assert teller.told == ["pause", "resume"]


@pytest.mark.virtual_clock
async def test_one_that_cannot_be_paused_goes_on():
    assert len(await told_apart(SOUND, Teller(), may_run=asyncio.Event())) == 2
