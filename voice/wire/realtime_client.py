"""What a client says in the OpenAI Realtime protocol (GA), one Struct an event.

Named after the types of the openai package.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from voice.wire.realtime_objects import RealtimeItem, RealtimeResponseCreateParams

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class _ClientEvent(
    Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type"
):
    """``event_id`` is echoed in the error that the event may cause."""

    event_id: str | None = None


class SessionUpdateEvent(_ClientEvent, frozen=True, gc=False, tag="session.update"):
    """``session`` is part of a session; ``realtime_session.merge`` applies it."""

    session: dict[str, Any]


class InputAudioBufferAppendEvent(
    _ClientEvent, frozen=True, gc=False, tag="input_audio_buffer.append"
):
    """``audio`` is in the session's input format, decoded from base64."""

    audio: bytes


class InputAudioBufferCommitEvent(
    _ClientEvent, frozen=True, gc=False, tag="input_audio_buffer.commit"
):
    pass


class InputAudioBufferClearEvent(
    _ClientEvent, frozen=True, gc=False, tag="input_audio_buffer.clear"
):
    pass


class OutputAudioBufferClearEvent(
    _ClientEvent, frozen=True, gc=False, tag="output_audio_buffer.clear"
):
    """Stop what is being played. Only where the server owns playback."""


class ConversationItemCreateEvent(
    _ClientEvent, frozen=True, gc=False, tag="conversation.item.create"
):
    """``previous_item_id``: ``root`` puts the item in front, None at the end."""

    item: RealtimeItem
    previous_item_id: str | None = None


class ConversationItemRetrieveEvent(
    _ClientEvent, frozen=True, gc=False, tag="conversation.item.retrieve"
):
    item_id: str


class ConversationItemDeleteEvent(
    _ClientEvent, frozen=True, gc=False, tag="conversation.item.delete"
):
    item_id: str


class ConversationItemTruncateEvent(
    _ClientEvent, frozen=True, gc=False, tag="conversation.item.truncate"
):
    """``audio_end_ms``: how much of the item's audio the caller has heard."""

    item_id: str
    content_index: Count
    audio_end_ms: Count


class ResponseCreateEvent(_ClientEvent, frozen=True, gc=False, tag="response.create"):
    response: RealtimeResponseCreateParams | None = None


class ResponseCancelEvent(_ClientEvent, frozen=True, gc=False, tag="response.cancel"):
    response_id: str | None = None


ClientEvent: TypeAlias = (
    SessionUpdateEvent
    | InputAudioBufferAppendEvent
    | InputAudioBufferCommitEvent
    | InputAudioBufferClearEvent
    | OutputAudioBufferClearEvent
    | ConversationItemCreateEvent
    | ConversationItemRetrieveEvent
    | ConversationItemDeleteEvent
    | ConversationItemTruncateEvent
    | ResponseCreateEvent
    | ResponseCancelEvent
)
