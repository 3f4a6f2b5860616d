"""A diarizer that is made when it is asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.audio import Pcm
from engines.diarization.turns import Diarization, DiarizationRequest, Pausable
from engines.ports import EngineError
from voice.late_diarizer import LateDiarizer

REQUEST = DiarizationRequest(Pcm(np.zeros(1, np.int16), 16_000))


class Made:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def warm_up(self) -> None:
        self.told.append("warm_up")

    async def close(self) -> None:
        self.told.append("close")

    @asynccontextmanager
    async def open(self, request: DiarizationRequest) -> AsyncIterator[AsyncIterator[Diarization]]:
        self.told.append("open")
        yield self.given()

    async def given(self) -> AsyncIterator[Diarization]:
        yield Diarization()


class Patient(Made):
    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


async def test_it_is_made_once_and_at_the_first_request() -> None:
    made: list[Made] = []

    def make() -> Made:
        made.append(Made())
        return made[-1]

    late = LateDiarizer(make)
    assert made == []
    await late.warm_up()
    for _ in range(2):
        async with late.open(REQUEST) as given:
            assert [each async for each in given] == [Diarization()]
    await late.close()
    [only] = made
    assert only.told == ["warm_up", "open", "open", "close"]


async def test_one_that_was_never_asked_has_nothing_to_close_or_pause() -> None:
    late = LateDiarizer(Made)
    late.pause()
    late.resume()
    await late.close()


async def test_what_cannot_be_made_is_told_each_time() -> None:
    def make() -> Made:
        raise EngineError("pyannote", "unavailable", "a package is missing")

    late = LateDiarizer(make)
    for _ in range(2):
        with pytest.raises(EngineError, match="a package is missing"):
            late.open(REQUEST)


@pytest.mark.parametrize("kind", [Made, Patient])
async def test_it_is_paused_where_it_can_be(kind: type[Made]) -> None:
    made = kind()
    late = LateDiarizer(lambda: made)
    assert isinstance(late, Pausable)
    await late.warm_up()
    late.pause()
    late.resume()
    assert made.told == ["warm_up", *(["pause", "resume"] if kind is Patient else [])]
