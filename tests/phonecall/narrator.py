"""A voice that speaks the model store's recordings, over a tone so faint that it disturbs nobody.

An engine like any other: ``[tts] engine = "tests.phonecall.narrator"``. The tone goes through the
pauses between words, too, so where a listener hears nothing at all something was lost on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import EngineError, SpeechRequest
from loadtest.speech import RATE, recordings
from loadtest.wer import spoken_words

TONE_HZ: Final = 440
TONE: Final = 0.01
"""Its amplitude: 40 dB below full scale, half of it being silence to ``listening``."""

CHUNK: Final = RATE // 25


@dataclass(frozen=True, slots=True)
class Options:
    """There are none."""


def create(options: Options, models: ModelStore) -> Narrator:
    """The plug-in contract."""
    return Narrator(spoken(models))


class Narrator:
    """A Tts."""

    def __init__(self, recorded: Mapping[str, Pcm]) -> None:
        self._recorded = recorded

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncGenerator[AsyncIterator[Pcm], None]:
        yield self._speak(" ".join(spoken_words(request.text)))

    async def _speak(self, words: str) -> AsyncGenerator[Pcm, None]:
        pcm = self._recorded.get(words)
        if pcm is None:
            raise EngineError("narrator", "bad_request", f"no recording says {words!r}")
        for at in range(0, len(pcm), CHUNK):
            await asyncio.sleep(0)
            yield pcm.part(at, at + CHUNK)


def spoken(models: ModelStore) -> dict[str, Pcm]:
    """What is said in each recording, and its sound with the tone."""
    told = recordings(models.path("speech"))
    return {recording.words: Pcm.from_floats(_toned(recording.pcm), RATE) for recording in told}


def _toned(pcm: Pcm) -> NDArray[np.floating]:
    turns = TONE_HZ * np.arange(len(pcm)) / RATE
    return pcm.floats() + TONE * np.sin(2 * np.pi * turns)
