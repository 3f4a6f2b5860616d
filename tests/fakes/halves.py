"""A diarizer that gives each half of a recording a speaker: ``diarization.engine =
"tests.fakes.halves"``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from engines.diarization.turns import Diarization, DiarizationRequest, SpeakerTurn
from engines.ports import EngineError


@dataclass(frozen=True)
class Options:
    """``fails``: what it says in place of working."""

    fails: str = ""


class Halves:
    def __init__(self, options: Options) -> None:
        self.options = options

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, request: DiarizationRequest) -> AsyncIterator[AsyncIterator[Diarization]]:
        yield self._halves(request)

    async def _halves(self, request: DiarizationRequest) -> AsyncIterator[Diarization]:
        if self.options.fails:
            raise EngineError("halves", "failed", self.options.fails)
        end = int(request.pcm.duration_ms)
        turns = (SpeakerTurn("x", 0, end // 2), SpeakerTurn("y", end // 2, end))
        yield Diarization(turns, turns)


def create(options: Options, models: object) -> Halves:
    return Halves(options)
