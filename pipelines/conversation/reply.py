"""One reply: the model's words become phrases, each phrase becomes audio, both as they come.

The two halves run side by side, so the model goes on writing while the voice speaks. Whatever
comes out is put into the playback under the reply's epoch; a reply never knows whether anyone
hears it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engines.audio import Pcm
from engines.ports import (
    ChatRequest,
    EngineError,
    Llm,
    Priority,
    SpeechRequest,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Tts,
    Usage,
)
from pipelines.conversation.events import (
    Output,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    ReplyToolCall,
)
from pipelines.conversation.pieces import Pieces
from pipelines.conversation.pulse import Pulse
from pipelines.failures import cause_of
from pipelines.speaking.loudness import Leveller
from pipelines.speaking.script import Line, Script
from pipelines.stall import timely

MOST_LEAD_MS: Final = 5_000
"""No phrase is begun further ahead of the listener: a barge-in would waste it."""

READ_LEAD_MS: Final = 2_000
"""Audio of a phrase is not read further ahead of the listener: a model that speaks as it is read
gives its place to others meanwhile. Less than above, for one that gives a phrase at a time may
need a while for the next."""

_STRIDE_MS: Final = 200
"""Reading is taken up again once so much less is in hand: to wake for less would cost more."""

MOST_CHARACTERS: Final = 100_000
"""A model that has written so much, two hours of speech, will not end."""

MOST_TOOL_CALLS: Final = 128
"""As many as OpenAI's API takes tools."""

_PHRASES_AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """What to answer and how. ``spoken`` off makes it a reply in text. ``language`` is that of the
    answer, for how its numbers are read."""

    epoch: int
    chat: ChatRequest
    voice: str | None = None
    speed: float = 1.0
    spoken: bool = True
    language: str | None = None


@dataclass(slots=True)
class Stages:
    """When each stage of a reply first gave something, and when the model had ``written`` and the
    voice had ``spoken`` all of it: loop time in seconds, None for not yet."""

    began: float
    first_token: float | None = None
    first_phrase: float | None = None
    first_audio: float | None = None
    written: float | None = None
    spoken: float | None = None
    epoch: int = 0

    def mark(self, stage: str, now: float) -> None:
        """Keep the first time only."""
        if getattr(self, stage) is None:
            setattr(self, stage, now)


@dataclass(slots=True)
class _ToolCalls:
    """The tool calls of a reply, put together from their deltas."""

    calls: dict[int, ToolCall] = field(default_factory=dict)

    def add(self, delta: ToolCallDelta) -> None:
        known = self.calls.get(delta.index, ToolCall("", "", ""))
        self.calls[delta.index] = ToolCall(
            known.id or delta.id, known.name or delta.name, known.arguments + delta.arguments
        )


class Reply:
    """Makes one reply; see the module. ``put`` says False once nobody wants it any more.
    ``released`` says that it may be heard: from then on its phrases are as urgent as any, or a
    caller who listens would wait for one who may not even have finished. ``leveller`` is the
    call's, so that its replies are as loud as one another; ``pulse`` is the call's, too."""

    def __init__(
        self,
        plan: ReplyPlan,
        llm: Llm,
        tts: Tts,
        *,
        put: Callable[[Output], bool],
        lead_ms: Callable[[], float],
        released: Callable[[], bool] = lambda: False,
        leveller: Leveller | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self.plan = plan
        self._llm = llm
        self._tts = tts
        self._put = put
        self._lead_ms = lead_ms
        self._released = released
        self._leveller = leveller or Leveller()
        self._pulse = pulse or Pulse()
        self._loop = asyncio.get_running_loop()
        self.stages = Stages(self._loop.time(), epoch=plan.epoch)

    async def run(self) -> None:
        """Make the reply; its last output is always a ReplyFinished."""
        phrases: asyncio.Queue[Line | None] = asyncio.Queue(_PHRASES_AHEAD)
        finished = ReplyFinished(self.plan.epoch, Usage())
        try:
            async with asyncio.TaskGroup() as group:
                thinking = group.create_task(self._think(phrases))
                await self._utter(phrases)
            usage, calls = thinking.result()
            for call in calls:
                self._put(ReplyToolCall(self.plan.epoch, call))
            finished = ReplyFinished(self.plan.epoch, usage)
        except* EngineError as failures:
            failure = cause_of(failures)
            finished = ReplyFinished(self.plan.epoch, Usage(), failure.code, str(failure))
        self._put(finished)

    async def _think(self, phrases: asyncio.Queue[Line | None]) -> tuple[Usage, list[ToolCall]]:
        """The model's half: its words as lines (in a written reply, as they come)."""
        script, tools = Script(self.plan.language), _ToolCalls()
        usage, written = Usage(), 0
        async with self._llm.open(self.plan.chat) as given, timely(given, "llm") as deltas:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    self.stages.mark("first_token", self._loop.time())
                    written += len(delta.text)
                    for line in self._lines(script, delta.text):
                        await phrases.put(line)
                elif isinstance(delta, ToolCallDelta):
                    written += len(delta.arguments)
                    tools.add(delta)
                else:
                    usage = delta
                if written > MOST_CHARACTERS or len(tools.calls) > MOST_TOOL_CALLS:
                    raise EngineError("llm", "bad_response", "the model's answer does not end")
        self.stages.mark("written", self._loop.time())
        if not written and not tools.calls:
            raise EngineError("llm", "empty", "the model gave neither words nor tool calls")
        for line in script.finish():
            await phrases.put(line)
        await phrases.put(None)
        most = None if self.plan.chat.parallel_tools else 1  # not every model knows what one is
        return usage, list(tools.calls.values())[:most]

    def _lines(self, script: Script, text: str) -> list[Line]:
        return script.feed(text) if self.plan.spoken else [Line(text, "")]

    async def _utter(self, phrases: asyncio.Queue[Line | None]) -> None:
        """The voice's half: phrases to text and audio."""
        while (line := await phrases.get()) is not None:
            self.stages.mark("first_phrase", self._loop.time())
            if line.spoken:
                await self._wait_for_listener(self._lead_ms() - MOST_LEAD_MS)
                await self._speak(line)
            else:
                self._put(ReplyText(self.plan.epoch, line.text))
        self.stages.mark("spoken", self._loop.time())

    async def _wait_for_listener(self, ahead_ms: float, stride_ms: float = 0) -> None:
        if ahead_ms > 0:
            await asyncio.sleep((ahead_ms + stride_ms) / 1000)

    async def _speak(self, line: Line) -> None:
        plan, levelled, pieces = self.plan, self._leveller.phrase(), Pieces()
        priority = Priority.FINAL if self._released() else plan.chat.priority
        request = SpeechRequest(line.spoken, plan.voice, plan.speed, priority, plan.chat.call)
        text: ReplyText | None = ReplyText(self.plan.epoch, line.text, line.spoken)
        asked_at = self._loop.time()
        async with self._tts.open(request) as given, timely(given, "tts") as audio:
            async for pcm in audio:
                came_at = self._loop.time()
                self._pulse.made(pcm.duration_ms, (came_at - asked_at) * 1000.0)
                self.stages.mark("first_audio", came_at)
                if text is not None:
                    self._put(text)
                    text = None
                self._sound(pieces.add(levelled.feed(pcm), self._lead_ms()))
                lead_ms = self._lead_ms() + pieces.gathered_ms
                await self._wait_for_listener(lead_ms - READ_LEAD_MS, _STRIDE_MS)
                asked_at = self._loop.time()
        self._sound(pieces.finish())
        levelled.finish()
        if text is not None:
            self._put(text)

    def _sound(self, pieces: list[Pcm]) -> None:
        for piece in pieces:
            self._put(ReplyAudio(self.plan.epoch, piece))
