"""The speaking half of a call: it makes replies and lets them out when it is told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from engines.ports import ChatRequest, EngineError, Priority
from pipelines.conversation.dialogue import AgentItem, Dialogue, ToolCallItem
from pipelines.conversation.events import (
    Event,
    Output,
    ReplyAudio,
    ReplyEnded,
    ReplyFinished,
    ReplyText,
    ReplyToolCall,
    StopReason,
)
from pipelines.conversation.playback import Playback
from pipelines.conversation.ports import CallSettings, Door, Engines, Observer
from pipelines.conversation.reply import Reply, ReplyPlan

logger = logging.getLogger(__name__)


class Speaker:
    """Makes one reply at a time. A prepared one is heard of by nobody, not even the dialogue,
    until it is released."""

    def __init__(
        self,
        engines: Engines,
        dialogue: Dialogue,
        door: Door,
        tasks: asyncio.TaskGroup,
        happen: Callable[[Event], None],
        *,
        new_id: Callable[[], str],
        call_id: str,
        observers: Sequence[Observer],
    ) -> None:
        self._engines = engines
        self._dialogue = dialogue
        self._door = door
        self._tasks = tasks
        self._happen = happen
        self._new_id = new_id
        self._call_id = call_id
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self._playback = Playback(self._emit)
        self._making: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._item: AgentItem | None = None
        self._spoken = True

    def read_ahead(self, settings: CallSettings) -> None:
        """The caller has begun to speak: the model may read all that was said before."""
        if self._reading is not None:
            self._reading.cancel()
        chat = self._chat(settings)
        self._reading = self._tasks.create_task(
            self._read(replace(chat, max_tokens=0, priority=Priority.BATCH))
        )

    def prepare(self, epoch: int, settings: CallSettings, heard: str) -> None:
        """Work out what to answer if ``heard`` is what the caller has said."""
        self._begin(epoch, settings, heard)

    def start(self, epoch: int, settings: CallSettings) -> None:
        """Answer the dialogue as it stands."""
        self._door.reply_started(epoch)
        self._begin(epoch, settings)

    def release(self, epoch: int) -> None:
        """Let out what was prepared, and all that follows."""
        self._door.reply_started(epoch)
        self._playback.release(epoch, self._now())

    def drop(self, epoch: int) -> None:
        """Forget what was prepared."""
        self._playback.stop(epoch)
        self.close()

    def stop(self, epoch: int, reason: StopReason) -> None:
        """Fall silent: the gate, the wire and the task, in one step and without awaiting."""
        self._playback.stop(epoch)
        self.cut_what_was_not_heard()
        if self._item is not None:
            self._item.status = "incomplete"
        self._door.reply_stopped(epoch, reason, self._item)
        self.close()

    def cut_what_was_not_heard(self) -> None:
        """An interrupted listener has heard what the ledger says, until the client says better."""
        now = self._now()
        self._playback.flush(now)
        if self._item is not None and self._item.heard_ms is None:
            self._item.cut(self._playback.heard_ms(now))

    def close(self) -> None:
        """Stop making the reply, if there is one."""
        for task in (self._reading, self._making):
            if task is not None:
                task.cancel()
        self._reading = self._making = None

    def _chat(self, settings: CallSettings, heard: str = "") -> ChatRequest:
        return ChatRequest(
            self._dialogue.messages(settings.instructions, heard),
            settings.tools,
            settings.tool_choice,
            settings.max_tokens,
            settings.temperature,
            Priority.SPECULATIVE if heard else Priority.FINAL,
            self._call_id,
        )

    async def _read(self, chat: ChatRequest) -> None:
        try:
            async with self._engines.llm.open(chat) as deltas:
                async for _ in deltas:
                    pass
        except EngineError as error:
            logger.debug("nothing was read ahead: %s", error)  # the reply will tell the caller

    def _begin(self, epoch: int, settings: CallSettings, heard: str = "") -> None:
        chat = self._chat(settings, heard)
        self._item, self._spoken = None, settings.spoken
        self._playback.begin(epoch, held=bool(heard))
        reply = Reply(
            ReplyPlan(epoch, chat, settings.voice, settings.speed, settings.spoken),
            self._engines.llm,
            self._engines.tts,
            put=self._put,
            lead_ms=self._lead_ms,
        )
        self._making = self._tasks.create_task(self._make(reply))

    async def _make(self, reply: Reply) -> None:
        await reply.run()
        for observer in self._observers:
            observer.staged(reply.stages)

    # --- outputs: before the gate, and past it --------------------------------------------

    def _put(self, output: Output) -> bool:
        if isinstance(output, ReplyFinished) and output.code and self._playback.holds(output.epoch):
            self._happen(ReplyEnded(output.epoch))  # nobody heard of it: the commit tries again
            return False
        return self._playback.put(output, self._now())

    def _lead_ms(self) -> float:
        return self._playback.lead_ms(self._now())

    def _now(self) -> float:
        return self._loop.time() * 1000.0

    def _emit(self, output: Output) -> None:
        _LET_OUT[type(output)](self, output)
        for observer in self._observers:
            observer.said(output, self._now())

    def _say(self, output: ReplyText | ReplyAudio) -> None:
        item = self._item
        if item is None:
            item = self._item = AgentItem(self._new_id(), spoken=self._spoken)
            self._door.reply_began_item(item, self._dialogue.append(item))
        if isinstance(output, ReplyText):
            item.say(output.text)
        else:
            item.sound(output.pcm.duration_ms)
        self._door.reply_said(item, output)

    def _call_tool(self, output: ReplyToolCall) -> None:
        if self._item is not None:
            self._item.status = "completed"  # calls come last: the words are all said
        item = ToolCallItem(self._new_id(), output.call)
        self._door.reply_called(item, self._dialogue.append(item))

    def _finish(self, output: ReplyFinished) -> None:
        if output.code:
            logger.warning("a reply failed: %s", output.message)
        if self._item is not None:
            self._item.status = "incomplete" if output.code else "completed"
        self._door.reply_finished(output, self._item)
        self._happen(ReplyEnded(output.epoch))


_LET_OUT: Final[dict[type[Any], Callable[[Speaker, Any], None]]] = {
    ReplyText: Speaker._say,
    ReplyAudio: Speaker._say,
    ReplyToolCall: Speaker._call_tool,
    ReplyFinished: Speaker._finish,
}
