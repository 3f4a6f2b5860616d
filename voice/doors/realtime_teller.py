"""The half of the Realtime door that speaks: what happens in a call becomes events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pipelines.conversation.dialogue import AgentItem, CallerItem, Item, ToolCallItem
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText, StopReason
from pipelines.conversation.ports import CallSettings
from voice.doors.outbox import Outbox
from voice.doors.ration import RationedLlm
from voice.doors.realtime_items import to_wire
from voice.doors.realtime_replies import Response
from voice.doors.refusals import without_paths
from voice.doors.voicing import VoiceEncoder
from voice.wire.realtime import encode_utf8, error_event
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_objects import (
    RealtimeConversation,
    TranscriptionDurationUsage,
    TranscriptionError,
)
from voice.wire.realtime_server import (
    ConversationCreatedEvent,
    ConversationItemAdded,
    ConversationItemDone,
    InputAudioBufferCommittedEvent,
    InputAudioBufferSpeechStartedEvent,
    InputAudioBufferSpeechStoppedEvent,
    InputAudioBufferTimeoutTriggered,
    InputAudioTranscriptionCompletedEvent,
    InputAudioTranscriptionDeltaEvent,
    InputAudioTranscriptionFailedEvent,
    ServerEvent,
    SessionCreatedEvent,
    SessionUpdatedEvent,
)
from voice.wire.realtime_session import RealtimeSession, Session, without_secrets

_PART = 0


@dataclass(slots=True)
class Asked:
    """What a client's response.create asked for, kept for the response that comes of it.
    ``unasked``: the server has asked by itself, ``depth`` times in a row."""

    settings: CallSettings
    metadata: dict[str, str] | None
    unasked: bool = False
    depth: int = 0


class Hosts(Protocol):
    """Whoever carries out what the model calls, so that the client need not."""

    def called(
        self, item: ToolCallItem, previous_id: str | None, response: Response, asked: Asked
    ) -> None:
        """The response calls a hosted tool: tell of it, and see to it."""


class RealtimeTeller:
    """Tells one client of its call; implements ``pipelines.conversation.ports.Door``."""

    def __init__(
        self,
        outbox: Outbox,
        session: Session,
        settings: CallSettings,
        new_id: Callable[[str], str],
        hang_up: Callable[[], None],
        ration: RationedLlm | None = None,
    ) -> None:
        self.session = session
        self.conversation_id = new_id("conv")
        self.asked: Asked | None = None
        self.settings = settings
        self.hosts: Hosts | None = None
        self._outbox = outbox
        self._new_id = new_id
        self._hang_up = hang_up
        self._ration = ration
        self._detected: str | None = None
        self._shown: tuple[str, list[str]] | None = None
        self._response: Response | None = None
        self._asked_last = (0, Asked(settings, None))
        self._said_last = ""

    def tell(self, event: ServerEvent) -> None:
        """Queue an event for the client."""
        self._outbox.put(encode_utf8(event))

    def refuse(self, error: WireError) -> None:
        """Tell the client of its mistake."""
        self.tell(error_event(error))

    def greet(self) -> None:
        """The client learns what its session is."""
        self.tell(SessionCreatedEvent(session=without_secrets(self.session)))
        conversation = RealtimeConversation(self.conversation_id)
        self.tell(ConversationCreatedEvent(conversation=conversation))

    def tell_item(self, item: Item, previous_id: str | None) -> None:
        """An item that is whole when it comes."""
        wire = to_wire(item)
        self.tell(ConversationItemAdded(item=wire, previous_item_id=previous_id))
        self.tell(ConversationItemDone(item=wire, previous_item_id=previous_id))

    @property
    def response_id(self) -> str | None:
        """The response that is under way."""
        return self._response.id if self._response is not None else None

    def take_session(self, session: Session, settings: CallSettings) -> None:
        """The call goes by this session from now on."""
        self.session, self.settings = session, settings
        self.tell(SessionUpdatedEvent(session=without_secrets(session)))

    def is_answered(self, last_id: str | None) -> bool:
        """The server has asked by itself for the reply that is under way, or to come, or that was
        the last thing said (``last_id``): a client that asks for one, too, has it. So once."""
        asked = self.asked or self._asked_last[1]
        over = self.asked is None and self._response is None and last_id != self._said_last
        if over or not asked.unasked:
            return False
        asked.unasked = False
        return True

    # --- the caller's turns -------------------------------------------------------------

    def turn_opened(self, item_id: str, at_ms: int) -> None:
        self._detected = item_id
        self.tell(InputAudioBufferSpeechStartedEvent(audio_start_ms=at_ms, item_id=item_id))

    def turn_committed(self, item: CallerItem, at_ms: int, previous_id: str | None) -> None:
        if item.id == self._detected:
            self.tell(InputAudioBufferSpeechStoppedEvent(audio_end_ms=at_ms, item_id=item.id))
        self.tell(InputAudioBufferCommittedEvent(item_id=item.id, previous_item_id=previous_id))
        self.tell_item(item, previous_id)

    def words_shown(self, item_id: str, text: str) -> None:
        if self.session.audio.input.transcription is None:
            return
        shown = self._shown if self._shown and self._shown[0] == item_id else None
        words = text.split()
        known = len(shown[1]) if shown else 0
        self._shown = (item_id, words)
        self._tell_words(item_id, words[known:], after=known)

    def _tell_words(self, item_id: str, words: list[str], after: int) -> None:
        if words:
            delta = (" " if after else "") + " ".join(words)
            self.tell(
                InputAudioTranscriptionDeltaEvent(item_id=item_id, content_index=_PART, delta=delta)
            )

    def transcript_ready(self, item: CallerItem, audio_ms: int, suspicion: str) -> None:
        if self.session.audio.input.transcription is None:
            return
        text = item.text or ""
        if self._shown is None or self._shown[0] != item.id:
            self._tell_words(item.id, text.split(), after=0)
        elif text.split()[: len(self._shown[1])] == self._shown[1]:
            known = len(self._shown[1])
            self._tell_words(item.id, text.split()[known:], after=known)
        self.tell(
            InputAudioTranscriptionCompletedEvent(
                item_id=item.id,
                content_index=_PART,
                transcript=text,
                usage=TranscriptionDurationUsage(audio_ms / 1000),
                suspicion=suspicion or None,
            )
        )

    def transcript_failed(self, item: CallerItem, reason: str) -> None:
        self.tell(
            InputAudioTranscriptionFailedEvent(
                item_id=item.id,
                content_index=_PART,
                error=TranscriptionError(
                    "server_error", "transcription_failed", without_paths(reason)
                ),
            )
        )

    def caller_idle(self, since_ms: int, at_ms: int) -> None:
        self.tell(
            InputAudioBufferTimeoutTriggered(
                audio_start_ms=since_ms, audio_end_ms=at_ms, item_id=self._new_id("item")
            )
        )

    def hung_up(self) -> None:
        self._hang_up()

    # --- what a client is told otherwise, or is not offered -----------------------------

    def speechless(self) -> None: ...

    def send_digits(self, digits: str) -> None: ...

    # --- replies ------------------------------------------------------------------------

    def reply_started(self, epoch: int) -> None:
        if epoch != self._asked_last[0]:  # what goes on is what was asked for before
            self._asked_last = epoch, self.asked or Asked(self.settings, None)
            self.asked = None
            if self._ration is not None:
                self._ration.begin_reply()
        asked, tell_audio = self._asked_last[1], partial(self._tell_audio, epoch)
        self._response = self._response_to(asked, self.conversation_id, tell_audio)
        self._response.start()

    def aside(self, asked: Asked) -> Response:
        """A response that is no part of the conversation."""
        return self._response_to(asked, None, self.tell)

    def _response_to(
        self, asked: Asked, conversation: str | None, tell_audio: Callable[[ServerEvent], None]
    ) -> Response:
        audio = self.session.audio.output if isinstance(self.session, RealtimeSession) else None
        return Response(
            self._new_id("resp"),
            conversation,
            asked.settings,
            asked.metadata,
            VoiceEncoder(audio.format if audio else self.session.audio.input.format),
            self.tell,
            tell_audio,
            self._ration.limits if self._ration is not None else list,
        )

    def reply_began_item(self, item: AgentItem, previous_id: str | None) -> None:
        if self._response is not None:
            self._response.begin_message(item, previous_id)

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        if self._response is not None:
            self._response.say(item, output)

    def reply_called(self, item: ToolCallItem, previous_id: str | None) -> None:
        if self._response is None:
            return
        if item.hosted is not None and self.hosts is not None:
            self.hosts.called(item, previous_id, self._response, self._asked_last[1])
        else:
            self._response.call_tool(item, previous_id)

    def reply_finished(self, output: ReplyFinished, item: AgentItem | None) -> None:
        self._said_last = item.id if item is not None else ""
        if self._response is not None:
            self._response.end_message(complete=True)
            self._response.finish(output)
            self._response = None

    def reply_stopped(
        self,
        epoch: int,
        reason: StopReason,
        item: AgentItem | None,  # noqa: ARG002
    ) -> None:
        self._outbox.take_back(epoch)
        if self._response is not None:
            self._response.end_message(complete=False)
            self._response.cancel(reason)
            self._response = None

    def _tell_audio(self, epoch: int, event: ServerEvent) -> None:
        self._outbox.put(encode_utf8(event), epoch)
