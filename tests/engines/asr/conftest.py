import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, Transcript
from loadtest.speech import Recording, recordings

Listen = Callable[..., Awaitable[Transcript]]


@pytest.fixture(scope="session")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture(scope="session")
def spoken(models) -> list[Recording]:
    """Real speech: the folder that the environment names, else the store's."""
    folder = os.environ.get("ANTIPHON_SPEECH_DIR")
    return recordings(Path(folder) if folder else models.path("speech"))


@pytest.fixture
def listen() -> Listen:
    """The one transcript of some sound."""

    async def hear(asr: Asr, pcm: Pcm, **request: object) -> Transcript:
        async with asr.open(AsrRequest(pcm, **request)) as transcripts:
            (transcript,) = [transcript async for transcript in transcripts]
        return transcript

    return hear
