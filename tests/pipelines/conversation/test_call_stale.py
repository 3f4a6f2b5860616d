"""Interruptions of every kind, at any moment: nothing stale is ever heard.

ANTIPHON_INTERRUPTIONS sets how many; 10,000 take some minutes.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, SpeechRequest, Transcript
from engines.scripted import TONE, LlmOptions, ScriptedLlm, ScriptedTts, tokens_of
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText

pytestmark = pytest.mark.virtual_clock

INTERRUPTIONS = int(os.environ.get("ANTIPHON_INTERRUPTIONS", "400"))
STORY = " ".join(f"Then came the {number}th of many days." for number in range(4, 9))
SAYINGS = ("No, stop that.", "Mm-hm.", "", "And what then?", "Yeah.", "[cough]")


class Moody:
    """A recogniser that takes a while, fails at times, and hears anything."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        del request
        yield self._hear()

    async def _hear(self) -> AsyncIterator[Transcript]:
        await asyncio.sleep(self._draw.choice((0.0, 0.05, 0.2, 0.6)))
        if self._draw.random() < 0.05:
            raise EngineError("asr", "failed", "a bad day")
        yield Transcript(self._draw.choice(SAYINGS), "en")


class Late(ScriptedTts):
    """A voice that hears of its end late, and gives more meanwhile."""

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        yield self._speak(len(request.text.split()))

    async def _speak(self, words: int) -> AsyncIterator[Pcm]:
        await asyncio.sleep(0.03)
        for _ in range(2 * words):
            try:
                await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                yield TONE
                await asyncio.sleep(0)
                yield TONE
                raise
            yield TONE


class Ledger:
    """What the door is told, and whatever of it is stale."""

    def __init__(self) -> None:
        self.newest = self.stopped = self.interruptions = self.finished = 0
        self.speaking: int | None = None
        self.stale: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def reply_started(self, epoch: int) -> None:
        if epoch < self.newest or self.speaking is not None:
            self.stale.append(f"reply {epoch} began during {self.speaking}")
        self.newest, self.speaking = epoch, epoch

    def reply_said(self, _item: Any, output: ReplyText | ReplyAudio) -> None:
        if output.epoch != self.speaking:
            self.stale.append(f"{output!r:.60} while {self.speaking} speaks")

    def reply_finished(self, output: ReplyFinished, _item: Any) -> None:
        if output.epoch != self.speaking:
            self.stale.append(f"{output.epoch} ended while {self.speaking} speaks")
        self.speaking = None
        self.finished += 1

    def reply_stopped(self, epoch: int, _reason: str, _item: Any) -> None:
        if epoch != self.newest:
            self.stale.append(f"{epoch} was stopped and {self.newest} is the newest")
        self.speaking = None
        self.interruptions += 1


@pytest.mark.parametrize("seed", range(4))
async def test_no_stale_audio_however_the_agent_is_interrupted(stage: Any, seed: int) -> None:
    draw = random.Random(seed)
    stage.asr.engine = Moody(draw)
    stage.llm.engine = ScriptedLlm(LlmOptions(script=tokens_of(STORY), item_delay_ms=5))
    stage.tts.engine = Late()
    ledger = Ledger()
    async with stage.call(ledger) as line:
        while ledger.interruptions < INTERRUPTIONS // 4:
            if not line.call.replying:
                line.call.request_reply()
            await line.pause(20 * draw.randrange(1, 120))
            await line.speak(20 * draw.randrange(3, 40))
            if draw.random() < 0.1:
                line.call.cancel_reply()
    assert ledger.stale == []
    assert ledger.finished
