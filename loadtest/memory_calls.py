"""A caller in real time who asks one thing, for ``memory_bench``: how long the answer takes."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from engines.audio import Samples
from engines.models import ModelStore
from engines.ports import Llm
from engines.scripted import (
    AsrOptions,
    ScriptedAsr,
    ScriptedTts,
    TtsOptions,
)
from engines.vad import silero
from engines.vad.ears import Ears
from loadtest.speech import recordings
from pipelines.conversation.call import open_call
from pipelines.conversation.dialogue import AgentItem
from pipelines.conversation.events import ReplyAudio, ReplyText
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.recalled import Knowledge
from pipelines.conversation.settings import TurnSettings

FRAME_MS: Final = 20
_PATIENCE_S: Final = 20.0


@cache
def _speech() -> Samples:
    """The first recording of the store."""
    return recordings(ModelStore().path("speech"))[0].pcm.samples


@dataclass(slots=True)
class _Door:
    """Hears of everything, and waits for the first audio."""

    heard: asyncio.Future[float]

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:  # noqa: ARG002
        if isinstance(output, ReplyAudio) and not self.heard.done():
            self.heard.set_result(asyncio.get_running_loop().time())

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def first_audio_ms(
    knowledge: Knowledge | None, words: str, llm: Llm, delays: tuple[float, float]
) -> float:
    """From the last sound of a recording, which is heard as ``words``, to the reply's first audio.
    ``delays``: what recogniser and voice take, in ms."""
    loop = asyncio.get_running_loop()
    asr_ms, tts_ms = delays
    engines = Engines(
        Ears(silero.create(silero.Options(), ModelStore())),
        ScriptedAsr(AsrOptions(text=words, start_delay_ms=asr_ms)),
        llm,
        ScriptedTts(TtsOptions(start_delay_ms=tts_ms)),
        knowledge=knowledge,
    )
    door, numbers = _Door(loop.create_future()), itertools.count()
    settings = CallSettings(turns=TurnSettings())
    async with open_call(
        engines,
        settings,
        door,
        rate=16_000,
        new_id=lambda: f"item_{next(numbers)}",
    ) as call:
        speech = _speech()
        size, began = 16 * FRAME_MS, loop.time()
        silence = np.zeros(int(16_000 * _PATIENCE_S), np.int16)
        sound = np.concatenate([speech, silence])
        for at in range(0, len(sound), size):
            call.hear(sound[at : at + size])
            if door.heard.done():
                break
            await asyncio.sleep(max(0.0, began + (at + size) / 16_000 - loop.time()))
        heard_at = await door.heard
    return 1000.0 * (heard_at - began - len(speech) / 16_000)
