"""The seams of a call: what serves it, how it behaves, and whom it tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engines.audio import Samples
from engines.ports import Asr, EndOfTurn, Llm, Message, Tool, Tts
from engines.vad.ears import Ears
from pipelines.conversation.dialogue import AgentItem, CallerItem, ToolCallItem
from pipelines.conversation.events import (
    Command,
    Event,
    Output,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    StopReason,
)
from pipelines.conversation.playback import Listener
from pipelines.conversation.recalled import Knowledge
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings


@dataclass(frozen=True, slots=True)
class Engines:
    """What a call is served by; shared by all calls. ``end_of_turn`` judges by its sound whether a
    turn is over, where there is something that can; ``knowledge``: what may be looked up."""

    ears: Ears
    asr: Asr
    llm: Llm
    tts: Tts
    end_of_turn: EndOfTurn | None = None
    knowledge: Knowledge | None = None


@dataclass(frozen=True, slots=True)
class HostedTool:
    """A tool that the door has done by a ``host``, which knows it by ``name``."""

    tool: Tool
    host: str
    name: str


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How one call behaves; its door may change it at any time. ``words``: what a reply says where
    no model is to be asked; ``apology``, where a reply has failed, if it is not the line for it.
    ``own_tools`` are those of the server's own that the model may use: see ``own_tools``;
    ``hosted``, those that the door has done elsewhere, and asks for another reply when they are.
    ``context_tokens``: what the model may be given to read, tools included, before the beginning of
    the call is summed up. ``short_tokens``: the longest reply while the house is strained.
    ``context``: what a reply is to answer in place of the dialogue."""

    turns: TurnSettings = field(default_factory=TurnSettings)
    instructions: str = ""
    context: tuple[Message, ...] | None = None
    tools: tuple[Tool, ...] = ()
    own_tools: tuple[str, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    tool_choice: str = "auto"
    parallel_tools: bool = True
    max_tokens: int | None = None
    temperature: float | None = None
    context_tokens: int = 6_000
    short_tokens: int = 80
    voice: str | None = None
    speed: float = 1.0
    spoken: bool = True
    language: str | None = None
    asr_prompt: str = ""
    words: str = ""
    apology: str = ""


class Door(Protocol):
    """What a call tells the wire it came in by. None of these may block or await."""

    def turn_opened(self, item_id: str, at_ms: int) -> None:
        """The caller has begun to speak."""

    def turn_committed(self, item: CallerItem, at_ms: int, previous_id: str | None) -> None:
        """The caller's turn is over and is part of the dialogue."""

    def words_shown(self, item_id: str, text: str) -> None:
        """The open turn surely begins with these words."""

    def transcript_ready(self, item: CallerItem, audio_ms: int, suspicion: str) -> None:
        """The words of a turn; ``suspicion`` says why they are doubted, empty for not at all."""

    def transcript_failed(self, item: CallerItem, reason: str) -> None:
        """A turn stays without words."""

    def reply_started(self, epoch: int) -> None:
        """A reply is under way."""

    def reply_began_item(self, item: AgentItem, previous_id: str | None) -> None:
        """The reply's words are an item of the dialogue from now on."""

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        """More words or audio of the reply."""

    def reply_called(self, item: ToolCallItem, previous_id: str | None) -> None:
        """The reply calls a tool."""

    def reply_finished(self, output: ReplyFinished, item: AgentItem | None) -> None:
        """The reply is complete, or has failed."""

    def reply_stopped(self, epoch: int, reason: StopReason, item: AgentItem | None) -> None:
        """The reply was cut off: nothing that is unsent of it may go out any more."""

    def caller_idle(self, since_ms: int, at_ms: int) -> None:
        """Nobody has spoken from one place in the call's audio to the other."""

    def send_digits(self, digits: str) -> None:
        """The agent presses keys for the other side. Asked only of doors that offer the tool."""

    def speechless(self) -> None:
        """Not even words that need no model could be spoken."""

    def hung_up(self) -> None:
        """The call is over: close the wire once all is sent."""


class Observer(Protocol):
    """Reads along: metrics and the journal. Must be quick and must not raise."""

    def stepped(self, event: Event, commands: Sequence[Command], now: int) -> None:
        """The machine took ``event`` at ``now`` (ms) and gave ``commands``."""

    def said(self, output: Output, now: float) -> None:
        """A reply's output went out at ``now`` (ms)."""

    def staged(self, stages: Stages) -> None:
        """A reply has ended; this is when its stages first gave something."""


class Recorder(Listener, Protocol):
    """Is given the sound of a call, both ways."""

    def heard(self, window: Samples, now: float) -> None:
        """The caller's next window (512,) of 16 kHz, whose last sample came just before ``now``
        (ms); not to be changed."""
