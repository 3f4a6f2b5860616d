"""A reply beside the dialogue: nobody's turn, and nothing of it is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engines.ports import ChatRequest, Llm, Message, Priority, Tts
from pipelines.conversation.dialogue import AgentItem, ToolCallItem
from pipelines.conversation.events import (
    Output,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    ReplyToolCall,
)
from pipelines.conversation.ports import CallSettings
from pipelines.conversation.reply import Reply, ReplyPlan


class AsideListener(Protocol):
    """Whom an aside is told to; none of these may block."""

    def began_item(self, item: AgentItem) -> None:
        """It has words."""

    def said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        """More of them."""

    def called(self, item: ToolCallItem) -> None:
        """It calls a tool."""

    def finished(self, output: ReplyFinished) -> None:
        """It is complete, or has failed."""


class Aside:
    """Makes one, of its own ``messages``. No speech interrupts it, and it interrupts nothing; to
    stop it, cancel what runs it. Its audio is made about as fast as it can be listened to."""

    def __init__(
        self,
        settings: CallSettings,
        messages: tuple[Message, ...],
        llm: Llm,
        tts: Tts,
        listener: AsideListener,
        *,
        new_id: Callable[[], str],
        call_id: str = "",
    ) -> None:
        chat = ChatRequest(
            messages,
            settings.tools,
            settings.tool_choice,
            settings.max_tokens,
            settings.temperature,
            Priority.FINAL,
            call_id,
            settings.parallel_tools,
        )
        self._settings = settings
        self._plan = ReplyPlan(
            0, chat, settings.voice, settings.speed, settings.spoken, settings.language
        )
        self._llm, self._tts = llm, tts
        self._listener = listener
        self._new_id = new_id
        self._loop = asyncio.get_running_loop()
        self._began: float | None = None
        self.item: AgentItem | None = None

    async def run(self) -> None:
        """From the first word to the last."""
        reply = Reply(self._plan, self._llm, self._tts, put=self._put, lead_ms=self._lead_ms)
        await reply.run()

    def _lead_ms(self) -> float:
        """Audio that a listener would have in hand who has listened since the first of it."""
        if self.item is None or self._began is None:
            return 0.0
        return self.item.audio_ms - 1000.0 * (self._loop.time() - self._began)

    def _put(self, output: Output) -> bool:
        match output:
            case ReplyText() | ReplyAudio():
                self._say(output)
            case ReplyToolCall(call=call):
                if self.item is not None:
                    self.item.status = "completed"  # calls come last
                self._listener.called(ToolCallItem(self._new_id(), call))
            case ReplyFinished():
                if self.item is not None:
                    self.item.status = "incomplete" if output.code else "completed"
                self._listener.finished(output)
        return True

    def _say(self, output: ReplyText | ReplyAudio) -> None:
        item = self.item
        if item is None:
            item = self.item = AgentItem(self._new_id(), spoken=self._settings.spoken)
            self._listener.began_item(item)
        if isinstance(output, ReplyText):
            item.say(output.text, output.spoken)
        else:
            item.sound(output.pcm.duration_ms, output.pcm.marks)
            self._began = self._began or self._loop.time()
        self._listener.said(item, output)
