"""A text spoken as a job that gives way to calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import EngineError, Priority, SpeechRequest
from pipelines.narration import Narration, lines_of, narrate
from pipelines.places import DisplacedError

pytestmark = pytest.mark.virtual_clock

TEXT = "Dr. Green paid $5 today. Then he went home by the old road along the river."


class Reader:
    """Says each phrase as a ramp, the same each time, in pieces of its own."""

    def __init__(self, piece: int = 1_000) -> None:
        self.requests: list[SpeechRequest] = []
        self.piece = piece

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        self.requests.append(request)
        yield self._play(ramp(request.text))

    async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
        for start in range(0, len(samples), self.piece):
            await asyncio.sleep(0.01)
            yield Pcm(samples[start : start + self.piece], 24_000)


def ramp(text: str) -> np.ndarray:
    return (np.arange(len(text) * 500) % 16_000).astype(np.int16)


class Losing:
    """A place that is lost after so many seconds, each time it is held, until it is kept."""

    def __init__(self, *after_s: float) -> None:
        self.after_s = list(after_s)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.after_s.pop(0) if self.after_s else None):
                yield
        except TimeoutError:
            raise DisplacedError from None


async def say(text: str, tts: Any, place: Any, **narration: Any) -> np.ndarray:
    given: list[Pcm] = []

    async def put(pcm: Pcm) -> None:
        await asyncio.sleep(0.001)
        given.append(pcm)

    await narrate(Narration(text, **narration), tts, place, put)
    assert all(pcm.duration_ms <= 200 for pcm in given)
    return np.concatenate([np.zeros(0, np.int16), *(pcm.samples for pcm in given)])


def test_lines_are_what_a_call_would_say() -> None:
    lines = [line.spoken for line in lines_of(Narration(TEXT))]
    assert " ".join(lines) == (
        "doctor Green paid five dollars today. Then he went home by the old road along the river."
    ).replace("doctor", lines[0].split()[0])
    assert len(lines) >= 2


def test_what_is_not_to_be_said_is_no_line() -> None:
    assert list(lines_of(Narration("---\n\n***\n"))) == []


async def test_all_of_it_is_said_once_and_in_order() -> None:
    tts = Reader()
    audio = await say(TEXT, tts, Losing(), voice="tara", speed=1.5, call="file_1")
    assert audio.tolist() == np.concatenate([ramp(each.text) for each in tts.requests]).tolist()
    assert {(each.voice, each.speed, each.priority, each.call) for each in tts.requests} == {
        ("tara", 1.5, Priority.BATCH, "file_1")
    }


@pytest.mark.parametrize("after_s", [(0.0,), (0.03,), (0.031, 0.05, 0.0), (0.5,)])
@pytest.mark.parametrize("piece", [700, 4_800, 100_000])
async def test_a_phrase_that_loses_its_place_goes_on_where_it_was(after_s: Any, piece: int) -> None:
    calm = await say(TEXT, Reader(piece), Losing())
    tts = Reader(piece)
    audio = await say(TEXT, tts, Losing(*after_s))
    assert np.array_equal(audio, calm)


async def test_pieces_that_come_otherwise_the_second_time_make_no_difference() -> None:
    class Fickle(Reader):
        async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
            self.piece = 1_700 if self.piece == 1_000 else 1_000
            async for pcm in super()._play(samples):
                yield pcm

    calm = await say("Good morning.", Reader(), Losing())
    assert np.array_equal(await say("Good morning.", Fickle(), Losing(0.05, 0.03)), calm)


async def test_a_voice_that_fails_ends_it() -> None:
    class Broken(Reader):
        async def _play(self, samples: np.ndarray) -> AsyncIterator[Pcm]:
            yield Pcm(samples[:100], 24_000)
            raise EngineError("tts", "failed", "broken")

    with pytest.raises(EngineError, match="broken"):
        await say(TEXT, Broken(), Losing())
