"""Those who are told of a phone call: the telephone itself, and clients that have joined it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pipelines.conversation.dialogue import AgentItem, CallerItem, ToolCallItem
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText, StopReason
from pipelines.conversation.ports import Door


class Guest(Door, Protocol):
    """A client that has joined a call. Nothing that it does or leaves undone may raise."""

    def key_pressed(self, digit: str) -> None:
        """The caller has pressed a key."""

    def item_added(self, item: CallerItem, previous_id: str | None) -> None:
        """What was typed, or happened, is a message of the dialogue."""


class Company:
    """Tells each of them everything, the telephone first; implements
    ``pipelines.conversation.ports.Door``."""

    def __init__(self, telephone: Door) -> None:
        self.guests: list[Guest] = []
        self._telephone = telephone

    def _each(self, tell: Callable[[Door], None]) -> None:
        tell(self._telephone)
        for guest in self.guests[:]:
            tell(guest)

    def key_pressed(self, digit: str) -> None:
        """Told to guests: the telephone has told it."""
        for guest in self.guests[:]:
            guest.key_pressed(digit)

    def item_added(self, item: CallerItem, previous_id: str | None) -> None:
        """Told to guests: the telephone has added it."""
        for guest in self.guests[:]:
            guest.item_added(item, previous_id)

    def turn_opened(self, item_id: str, at_ms: int) -> None:
        self._each(lambda door: door.turn_opened(item_id, at_ms))

    def turn_committed(self, item: CallerItem, at_ms: int, previous_id: str | None) -> None:
        self._each(lambda door: door.turn_committed(item, at_ms, previous_id))

    def words_shown(self, item_id: str, text: str) -> None:
        self._each(lambda door: door.words_shown(item_id, text))

    def transcript_ready(self, item: CallerItem, audio_ms: int, suspicion: str) -> None:
        self._each(lambda door: door.transcript_ready(item, audio_ms, suspicion))

    def transcript_failed(self, item: CallerItem, reason: str) -> None:
        self._each(lambda door: door.transcript_failed(item, reason))

    def reply_started(self, epoch: int) -> None:
        self._each(lambda door: door.reply_started(epoch))

    def reply_began_item(self, item: AgentItem, previous_id: str | None) -> None:
        self._each(lambda door: door.reply_began_item(item, previous_id))

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        self._each(lambda door: door.reply_said(item, output))

    def reply_called(self, item: ToolCallItem, previous_id: str | None) -> None:
        self._each(lambda door: door.reply_called(item, previous_id))

    def reply_finished(self, output: ReplyFinished, item: AgentItem | None) -> None:
        self._each(lambda door: door.reply_finished(output, item))

    def reply_stopped(self, epoch: int, reason: StopReason, item: AgentItem | None) -> None:
        self._each(lambda door: door.reply_stopped(epoch, reason, item))

    def caller_idle(self, since_ms: int, at_ms: int) -> None:
        self._each(lambda door: door.caller_idle(since_ms, at_ms))

    def send_digits(self, digits: str) -> None:
        self._each(lambda door: door.send_digits(digits))

    def speechless(self) -> None:
        self._each(lambda door: door.speechless())

    def hung_up(self) -> None:
        self._each(lambda door: door.hung_up())
