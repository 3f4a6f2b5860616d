"""From text to sound through the Realtime door: eight calls at once, and each frame once."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.models import ModelStore
from engines.ports import SpeechRequest
from engines.scripted import LlmOptions, ScriptedLlm, tokens_of
from engines.tts import orpheus
from loadtest import tiny_orpheus
from loadtest.orpheus_bench import FRAME_SAMPLES, damage, hear_replies

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SESSIONS = 8
PATIENCE_S = 120
TEXT = "Yes, of course."


@pytest.fixture
async def voice(tmp_path: Path) -> Any:
    tiny_orpheus.make(tmp_path, frames=1_000)  # so long that each piece ends by its limit
    options = orpheus.Options(
        model=str(tmp_path),
        snac=str(tmp_path / "snac"),
        source="transformers",
        device="cpu",
        slots=SESSIONS,
        watch=False,
    )
    engine = orpheus.create(options, ModelStore())
    await engine.warm_up()
    yield engine
    await engine.close()


async def test_eight_calls_hear_each_frame_once_and_as_if_alone(serve: Any, voice: Any) -> None:
    server = await serve(tts=voice, llm=ScriptedLlm(LlmOptions(script=tokens_of(TEXT))))
    async with asyncio.timeout(PATIENCE_S):
        replies = await hear_replies(server.url, SESSIONS)
        requests = {request.text: request for request in server.tts.requests}
        said = []
        for phrase in replies[0].phrases:
            async with voice.open(SpeechRequest(phrase)) as audio:
                said += [pcm.samples async for pcm in audio]
    assert len(server.tts.requests) == SESSIONS * len(requests)
    expected = np.concatenate(said)
    assert len(expected) > 8 * FRAME_SAMPLES
    assert len(expected) % FRAME_SAMPLES == 0
    for reply in replies:
        assert "".join(reply.phrases) == TEXT
        assert damage(reply.samples, expected) == (0, 0)
    assert voice.load().busy == 0
