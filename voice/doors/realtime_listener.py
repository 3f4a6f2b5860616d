"""The half of the Realtime door that listens: what a client asks for is done to its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from engines.vad.ears import BacklogError
from pipelines.conversation.call import MOST_UNDETECTED_MS, Call
from pipelines.conversation.dialogue import (
    AgentItem,
    DuplicateItemError,
    Item,
    UnknownItemError,
)
from pipelines.conversation.ports import CallSettings
from voice.doors.realtime_asides import Asides, messages_for
from voice.doors.realtime_items import from_wire, to_wire
from voice.doors.realtime_mcp import RealtimeMcp
from voice.doors.realtime_mcp_tools import refuse_servers
from voice.doors.realtime_settings import call_settings, response_settings
from voice.doors.realtime_teller import Asked, RealtimeTeller
from voice.doors.voicing import decode as decode_audio
from voice.doors.voicing import rate_of
from voice.wire.realtime import decode
from voice.wire.realtime_client import (
    ConversationItemCreateEvent,
    ConversationItemDeleteEvent,
    ConversationItemRetrieveEvent,
    ConversationItemTruncateEvent,
    InputAudioBufferAppendEvent,
    InputAudioBufferClearEvent,
    InputAudioBufferCommitEvent,
    OutputAudioBufferClearEvent,
    ResponseCancelEvent,
    ResponseCreateEvent,
    SessionUpdateEvent,
)
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import RealtimeMcpApprovalResponseItem
from voice.wire.realtime_objects import RealtimeItem, RealtimeResponseCreateParams
from voice.wire.realtime_server import (
    ConversationItemDeletedEvent,
    ConversationItemRetrieved,
    ConversationItemTruncatedEvent,
    InputAudioBufferClearedEvent,
)
from voice.wire.realtime_session import RealtimeSession, merge

LEAST_COMMIT_MS: Final = 100
"""OpenAI refuses to commit less audio than this; so do we."""


class RealtimeListener:
    """One client's requests. Every refusal is an ``error`` event, and the call goes on.
    ``by_phone``: somebody else is the caller."""

    def __init__(
        self,
        call: Call,
        teller: RealtimeTeller,
        base: CallSettings,
        new_id: Callable[[str], str],
        asides: Asides,
        mcp: RealtimeMcp,
        *,
        sees_images: bool = False,
        by_phone: bool = False,
    ) -> None:
        self._call = call
        self._asides = asides
        self._mcp = mcp
        self._teller = teller
        self._base = base
        self._new_id = new_id
        self._format = teller.session.audio.input.format
        self._overflowed = False
        self._sees_images = sees_images
        self._by_phone = by_phone

    def _from_wire(self, item: RealtimeItem, path: str) -> Item:
        new_id = partial(self._new_id, "item")
        return from_wire(item, new_id, path, sees_images=self._sees_images)

    def take(self, message: str | bytes) -> None:
        """Do what one message asks for."""
        try:
            event = decode(message)
        except WireError as error:
            self._teller.refuse(error)
            return
        try:
            _TAKE[type(event)](self, event)
        except WireError as error:
            error.event_id = event.event_id
            self._teller.refuse(error)

    # --- the session --------------------------------------------------------------------

    def _update_session(self, event: SessionUpdateEvent) -> None:
        session = merge(self._teller.session, event.session)
        self._mcp.check(session)
        settings = self._mcp.equip(call_settings(session, self._base), session)
        if not self._by_phone:  # whose audio is what its wire makes it
            self._format = session.audio.input.format
            self._call.set_rate(rate_of(self._format))
        self._call.configure(settings)
        self._teller.take_session(session, settings)
        self._mcp.list_new(session)

    # --- the caller's audio -------------------------------------------------------------

    def _append_audio(self, event: InputAudioBufferAppendEvent) -> None:
        if self._by_phone:
            raise WireError("invalid_value", "The caller of this call speaks by phone.", "type")
        try:
            self._call.hear(decode_audio(event.audio, self._format))
        except ValueError as error:
            raise WireError("invalid_audio", f"Invalid audio: {error}.", "audio") from error
        except BacklogError as error:
            raise WireError("input_audio_buffer_full", f"{error}.", "audio") from error
        told, self._overflowed = self._overflowed, self._call.overflowed
        if self._overflowed and not told:
            raise WireError(
                "input_audio_buffer_full",
                f"The buffer holds {MOST_UNDETECTED_MS // 1000} s of audio and takes no more:"
                " commit or clear it.",
                "audio",
            )

    def _commit_audio(self, _event: InputAudioBufferCommitEvent) -> None:
        if (buffered := self._call.buffered_ms) < LEAST_COMMIT_MS:
            raise WireError(
                "input_audio_buffer_commit_empty",
                f"Error committing input audio buffer: buffer too small. Expected at least"
                f" {LEAST_COMMIT_MS}ms of audio, but buffer only has {buffered}.00ms of audio.",
            )
        self._call.commit()

    def _clear_audio(self, _event: InputAudioBufferClearEvent) -> None:
        self._call.clear()
        self._teller.tell(InputAudioBufferClearedEvent())

    # --- the conversation ---------------------------------------------------------------

    def _create_item(self, event: ConversationItemCreateEvent) -> None:
        answer = event.item if isinstance(event.item, RealtimeMcpApprovalResponseItem) else None
        if answer is not None:
            self._mcp.check_answer(answer)
        item = self._from_wire(event.item, "item")
        try:
            previous = self._call.dialogue.add(item, event.previous_item_id)
        except DuplicateItemError as error:
            raise WireError(
                "item_create_duplicate_item_id",
                f"Error adding item: an item with id '{item.id}' already exists.",
                "item.id",
            ) from error
        except UnknownItemError as error:
            raise _unknown(event.previous_item_id, "item_create", "previous_item_id") from error
        self._teller.tell_item(item, previous)
        if answer is not None:
            self._mcp.take_answer(answer)

    def _retrieve_item(self, event: ConversationItemRetrieveEvent) -> None:
        try:
            item = self._call.dialogue.get(event.item_id)
        except UnknownItemError as error:
            raise _unknown(event.item_id, "item_retrieve") from error
        self._teller.tell(ConversationItemRetrieved(item=to_wire(item)))

    def _delete_item(self, event: ConversationItemDeleteEvent) -> None:
        try:
            self._call.dialogue.remove(event.item_id)
        except UnknownItemError as error:
            raise _unknown(event.item_id, "item_delete") from error
        self._teller.tell(ConversationItemDeletedEvent(item_id=event.item_id))

    def _truncate_item(self, event: ConversationItemTruncateEvent) -> None:
        try:
            item = self._call.dialogue.get(event.item_id)
        except UnknownItemError as error:
            raise _unknown(event.item_id, "item_truncate") from error
        if not isinstance(item, AgentItem):
            raise WireError(
                "invalid_value",
                f"Item '{event.item_id}' is not the assistant's: only what was spoken can be cut.",
                "item_id",
            )
        item.cut(event.audio_end_ms)
        self._teller.tell(
            ConversationItemTruncatedEvent(
                item_id=event.item_id,
                content_index=event.content_index,
                audio_end_ms=event.audio_end_ms,
            )
        )

    # --- responses ----------------------------------------------------------------------

    def _create_response(self, event: ResponseCreateEvent) -> None:
        params = event.response
        if not isinstance(self._teller.session, RealtimeSession):
            raise WireError("invalid_value", "A transcription session has no responses.", "type")
        if params is not None and params.conversation == "none":
            self._create_aside(params)
            return
        bare = params is None or params == RealtimeResponseCreateParams()
        if bare and self._teller.is_answered(self._call.dialogue.last_id):
            return
        if self._call.replying:
            raise WireError(
                "conversation_already_has_active_response",
                "Conversation already has an active response in progress:"
                f" {self._teller.response_id}. Wait until the response is finished before"
                " creating a new one.",
            )
        settings = response_settings(self._teller.settings, params)
        settings = self._mcp.equip_response(settings, params)
        if params is not None and params.input is not None:
            context = messages_for(params, settings, self._call, self._from_wire)
            settings = replace(settings, context=context)
        self._teller.asked = Asked(settings, params.metadata if params else None)
        self._call.request_reply(settings)

    def _create_aside(self, params: RealtimeResponseCreateParams) -> None:
        refuse_servers(params)
        settings = response_settings(self._teller.settings, params)
        messages = messages_for(params, settings, self._call, self._from_wire)
        response = self._teller.aside(Asked(settings, params.metadata))
        self._asides.start(response, settings, messages, self._call.id)

    def _cancel_response(self, event: ResponseCancelEvent) -> None:
        if self._asides.cancel(event.response_id):
            return
        active = self._teller.response_id
        known = active is not None or self._call.replying
        if not known or event.response_id not in (None, active):
            if not known:  # what is paused is over to the client, and must not come back
                self._call.cancel_reply()
            raise WireError(
                "response_cancel_not_active",
                "Cancellation failed: no active response found"
                + (f" with id '{event.response_id}'." if event.response_id else "."),
                "response_id" if event.response_id else None,
            )
        self._teller.asked = None
        self._call.cancel_reply()

    def _clear_output(self, _event: OutputAudioBufferClearEvent) -> None:
        raise WireError(
            "invalid_value",
            "output_audio_buffer.clear is for WebRTC and SIP; on a WebSocket the client owns"
            " playback: flush it and send conversation.item.truncate.",
            "type",
        )


def _unknown(item_id: str | None, action: str, param: str = "item_id") -> WireError:
    verb = {"retrieve": "retrieving", "delete": "deleting", "truncate": "truncating"}
    doing = verb.get(action.removeprefix("item_"), "adding")
    return WireError(
        f"{action}_invalid_item_id",
        f"Error {doing} item: the item with id '{item_id}' does not exist.",
        param,
    )


_TAKE: Final[dict[type[Any], Callable[[RealtimeListener, Any], None]]] = {
    SessionUpdateEvent: RealtimeListener._update_session,
    InputAudioBufferAppendEvent: RealtimeListener._append_audio,
    InputAudioBufferCommitEvent: RealtimeListener._commit_audio,
    InputAudioBufferClearEvent: RealtimeListener._clear_audio,
    OutputAudioBufferClearEvent: RealtimeListener._clear_output,
    ConversationItemCreateEvent: RealtimeListener._create_item,
    ConversationItemRetrieveEvent: RealtimeListener._retrieve_item,
    ConversationItemDeleteEvent: RealtimeListener._delete_item,
    ConversationItemTruncateEvent: RealtimeListener._truncate_item,
    ResponseCreateEvent: RealtimeListener._create_response,
    ResponseCancelEvent: RealtimeListener._cancel_response,
}
