"""The speaking half of a call: it makes replies and lets them out when it is told to."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from engines.ports import ChatRequest, EngineError, Llm, Message, Priority, Tool, ToolCall
from pipelines.conversation.brevity import briefly
from pipelines.conversation.completeness import expects_digits
from pipelines.conversation.dialogue import (
    AgentItem,
    Dialogue,
    Hosted,
    ToolCallItem,
    ToolResultItem,
)
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.events import (
    Event,
    Line,
    Output,
    ProfileChosen,
    ReplyAudio,
    ReplyEnded,
    ReplyFinished,
    ReplyRequested,
    ReplySounded,
    ReplyText,
    ReplyToolCall,
    StopReason,
    ToolsCalled,
)
from pipelines.conversation.lines import Recital, line_in
from pipelines.conversation.memory import Memory
from pipelines.conversation.own_tools import OWN_TOOLS, DigitsChosen, perform
from pipelines.conversation.playback import Playback
from pipelines.conversation.ports import CallSettings, Door, Engines, Observer, Recorder
from pipelines.conversation.recall import Recall, informed
from pipelines.conversation.reply import Reply, ReplyPlan
from pipelines.speaking.loudness import Leveller
from pipelines.strain import Strain

if TYPE_CHECKING:
    from pipelines.memory.store import Found

logger = logging.getLogger(__name__)

_RECENT_PHRASES: Final = 6
"""About ten seconds of speech."""

_NOBODYS: Final = EchoGuard()
"""For calls that are over. Their own is most of what they hold, and their cycles are found late."""


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
        recorder: Recorder | None = None,
    ) -> None:
        self._engines = engines
        self._dialogue = dialogue
        self._memory = Memory(dialogue, engines.llm, tasks, call_id)
        self._recall = Recall(engines.knowledge, tasks, call_id)
        self._door = door
        self._tasks = tasks
        self._happen = happen
        self._new_id = new_id
        self._call_id = call_id
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self.echo = EchoGuard()
        """What of the microphone's audio is the agent's own voice."""
        self._playback = Playback(self._emit, self.echo, *([recorder] if recorder else []))
        self.pulse = self._playback.pulse
        self.strain = Strain.NONE
        self._leveller = Leveller()
        self._making: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._item: AgentItem | None = None
        self._settings = CallSettings()
        self._paused = self._sounded = self._said = False
        self._did_own = self._called_out = self._asked_again = self._recites = False
        self._recent: deque[str] = deque(maxlen=_RECENT_PHRASES)

    def read_ahead(
        self, settings: CallSettings, words: str = "", found: Sequence[Found] = ()
    ) -> None:
        """The caller has begun to speak: the model may read all that was said before; and, as soon
        as that is there, what was ``found`` for the ``words`` so far."""
        if self._reading is not None:
            self._reading.cancel()
        chat = self._chat(settings, words)
        if found:
            chat = informed(chat, found, settings.context_tokens)
        self._reading = self._tasks.create_task(
            self._read(replace(chat, max_tokens=0, priority=Priority.BATCH))
        )

    def look_ahead(self, settings: CallSettings, words: str) -> None:
        """The caller pauses, and has said so much: see what there is to be told of it."""

        def read(found: Sequence[Found]) -> None:
            if self._making is None or self._making.done():
                self.read_ahead(settings, words, found)

        if settings.context is None:
            self._recall.look_ahead(words, settings.language, read)

    def prepare(self, epoch: int, settings: CallSettings, heard: str) -> None:
        """Work out what to answer if ``heard`` is what the caller has said."""
        self._begin(epoch, settings, self._engines.llm, heard)

    def start(self, epoch: int, settings: CallSettings) -> None:
        """Answer the dialogue as it stands."""
        self._door.reply_started(epoch)
        llm = Recital(settings.words) if settings.words else self._engines.llm
        self._begin(epoch, settings, llm)

    def say(self, epoch: int, settings: CallSettings, line: Line) -> None:
        """Say something that needs no model."""
        self._door.reply_started(epoch)
        words = (line == "sorry" and settings.apology) or line_in(settings.language, line)
        self._begin(epoch, settings, Recital(words))
        self._recites = True

    def release(self, epoch: int) -> None:
        """Let out what was prepared, and all that follows."""
        self._door.reply_started(epoch)
        self._playback.release(epoch, self._now())

    def drop(self, epoch: int) -> None:
        """Forget what was prepared."""
        self._playback.stop(epoch)
        self._give_up()

    def pause(self, epoch: int) -> None:
        """Fall silent: the gate and the wire, in one step and without awaiting. The reply is still
        made, until it is far enough ahead."""
        self._paused = True
        now = self._now()
        self._playback.pause(epoch, now)
        self._fall_silent(epoch, "turn_detected", now)

    def resume(self, epoch: int) -> None:
        """Go on where the listener stopped hearing, by the client's word or else by the ledger."""
        self._paused = False
        item = self._item
        heard_ms = item.played_ms if item is not None else 0.0
        if not self._playback.has_more(heard_ms):
            self._happen(ReplyEnded(epoch))
            return
        if item is not None and (cut := self._playback.cut(heard_ms)) is not None:
            item.end_within(*cut)
        self._item = None
        self._door.reply_started(epoch)
        self._playback.resume(epoch, heard_ms, self._now())

    def stop(self, epoch: int, reason: StopReason) -> None:
        """Fall silent for good: the gate, the wire and the task, in one step."""
        self._playback.stop(epoch)
        if not self._paused:
            now = self._now()
            self._playback.flush(now)
            self._fall_silent(epoch, reason, now)
        self._paused = self._asked_again = False
        self._give_up()
        self._maintain_memory()

    def messages(self, settings: CallSettings, heard: str = "") -> tuple[Message, ...]:
        """What the model is given to read."""
        if settings.context is not None:
            return settings.context
        return self._memory.messages(settings, _tools(settings), heard)

    def recent_text(self) -> str:
        """What was said last."""
        return "".join(self._recent)

    def audible(self, last_ms: float) -> bool:
        """It may have come back by the microphone within the last so many milliseconds."""
        return self.echo.audible(self._now(), last_ms)

    def _fall_silent(self, epoch: int, reason: StopReason, now: float) -> None:
        """An interrupted listener has heard what the ledger says, until the client says better."""
        item = self._item
        if item is not None and item.heard_ms is None:
            item.cut(self._playback.heard_ms(now))
        if item is not None and item.status == "in_progress":
            item.status = "incomplete"
        self._door.reply_stopped(epoch, reason, item)

    def close(self) -> None:
        """The call is over."""
        self._give_up()
        self._memory.close()
        self._recall.close()
        self._playback.close()
        self.echo = _NOBODYS

    def _give_up(self) -> None:
        """Stop making the reply, if there is one."""
        for task in (self._reading, self._making):
            if task is not None:
                task.cancel()
        self._reading = self._making = None

    def _chat(self, settings: CallSettings, heard: str = "") -> ChatRequest:
        return ChatRequest(
            self.messages(settings, heard),
            _tools(settings),
            settings.tool_choice,
            settings.max_tokens,
            settings.temperature,
            Priority.SPECULATIVE if heard else Priority.FINAL,
            self._call_id,
            settings.parallel_tools,
        )

    def _maintain_memory(self) -> None:
        self._memory.maintain(self._settings, _tools(self._settings))

    async def _read(self, chat: ChatRequest) -> None:
        try:
            async with self._engines.llm.open(chat) as deltas:
                async for _ in deltas:
                    pass
        except EngineError as error:
            logger.debug("nothing was read ahead: %s", error)  # the reply will tell the caller

    def _begin(self, epoch: int, settings: CallSettings, llm: Llm, heard: str = "") -> None:
        chat = self._chat(settings, heard)
        asks = llm is self._engines.llm and settings.context is None
        question = self._recall.question(chat, settings.language) if asks else ""
        if self.strain >= Strain.SHORT_REPLIES:
            chat = briefly(chat, settings.language, settings.short_tokens)
        self._item, self._settings = None, settings
        self._paused = self._sounded = self._said = False
        self._did_own = self._called_out = self._recites = False
        self._playback.begin(epoch, held=bool(heard))
        plan = ReplyPlan(
            epoch, chat, settings.voice, settings.speed, settings.spoken, settings.language
        )
        reply = Reply(
            plan,
            llm,
            self._engines.tts,
            put=self._put,
            lead_ms=self._lead_ms,
            released=lambda: not self._playback.holds(epoch),
            leveller=self._leveller,
            pulse=self.pulse,
        )
        self._making = self._tasks.create_task(self._make(reply, question))

    async def _make(self, reply: Reply, question: str) -> None:
        try:
            if question:
                reply.plan = await self._informed(reply.plan, question)
            await reply.run()
        finally:
            for observer in self._observers:
                observer.staged(reply.stages)

    async def _informed(self, plan: ReplyPlan, question: str) -> ReplyPlan:
        """With what the documents say to it, if they say it in time."""
        room = self._settings.context_tokens
        chat, recalled = await self._recall.inform(plan.chat, question, plan.epoch, room)
        for observer in self._observers:
            observer.said(recalled, self._now())
        return replace(plan, chat=chat)

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
        item, self._said = self._item, True
        if item is None:
            item = self._item = AgentItem(self._new_id(), spoken=self._settings.spoken)
            self._door.reply_began_item(item, self._dialogue.append(item))
        if isinstance(output, ReplyText):
            item.say(output.text, output.spoken)
            self._recent.append(output.text)
        else:
            item.sound(output.pcm.duration_ms, output.pcm.marks)
        self._door.reply_said(item, output)
        if isinstance(output, ReplyAudio) and not self._sounded:
            self._sounded = True
            self._happen(ReplySounded(output.epoch))

    def _call_tool(self, output: ReplyToolCall) -> None:
        if self._item is not None:
            self._item.status = "completed"  # calls come last: the words are all said
        own = output.call.name in _own_tools(self._settings)
        item = ToolCallItem(self._new_id(), output.call, own, self._hosted(output.call.name))
        previous = self._dialogue.append(item)
        if own:
            self._do_own(output.call)
        else:
            self._called_out = True
            self._door.reply_called(item, previous)
            self._happen(ToolsCalled(output.epoch))

    def _hosted(self, name: str) -> Hosted | None:
        tools = (tool for tool in self._settings.hosted if tool.tool.name == name)
        return next((Hosted(tool.host, tool.name) for tool in tools), None)

    def _do_own(self, call: ToolCall) -> None:
        deed, outcome = perform(call.name, call.arguments)
        self._dialogue.append(ToolResultItem(self._new_id(), call.id, outcome, own=True))
        if isinstance(deed, DigitsChosen):  # now the other side's answer is waited for
            self._door.send_digits(deed.digits)
            return
        self._did_own = True
        if deed is not None:
            self._happen(deed)

    def _ask_again(self) -> None:
        """A model that did something and said nothing is asked for words, once: some would go on
        for ever. Where a client has something to do, it asks."""
        mute = self._did_own and not self._said and not self._called_out
        self._asked_again = mute and not self._asked_again
        if self._asked_again:
            self._happen(ReplyRequested())

    def _finish(self, output: ReplyFinished) -> None:
        item = self._item
        if output.code:
            logger.warning("a reply failed: %s", output.message)
        if item is not None:
            item.status = "incomplete" if output.code else "completed"
        self._door.reply_finished(output, item)
        if output.code and self._recites:
            self._door.speechless()
        if (
            self._settings.turns.profile
            and item is not None
            and expects_digits(item.text, self._settings.language)
        ):
            self._happen(ProfileChosen("digits", once=True))
        self._ask_again()
        lead_ms = round(self._playback.lead_ms(self._now()))
        self._happen(ReplyEnded(output.epoch, lead_ms, failed=bool(output.code)))
        self._maintain_memory()


def _tools(settings: CallSettings) -> tuple[Tool, ...]:
    """All that the model may call."""
    hosted = (hosted.tool for hosted in settings.hosted)
    return (*settings.tools, *hosted, *(OWN_TOOLS[name].tool for name in _own_tools(settings)))


def _own_tools(settings: CallSettings) -> list[str]:
    """Those of our own that the model may call: a client's of the same name stands in for ours."""
    theirs = {tool.name for tool in (*settings.tools, *(each.tool for each in settings.hosted))}
    return [name for name in settings.own_tools if name not in theirs]


_LET_OUT: Final[dict[type[Any], Callable[[Speaker, Any], None]]] = {
    ReplyText: Speaker._say,
    ReplyAudio: Speaker._say,
    ReplyToolCall: Speaker._call_tool,
    ReplyFinished: Speaker._finish,
}
