"""What the server says in the OpenAI Realtime protocol (GA), one Struct an event.

Named after the types of the openai package. An event numbers itself: ``event_id`` comes last
and is filled in when the event is made.
"""

from __future__ import annotations

from itertools import count
from typing import TypeAlias
from uuid import uuid4

from msgspec import Struct, field

from voice.wire.realtime_mcp import RealtimeMcpError
from voice.wire.realtime_objects import (
    RealtimeContentPart,
    RealtimeConversation,
    RealtimeError,
    RealtimeItem,
    RealtimeRateLimit,
    RealtimeResponse,
    TranscriptionError,
    TranscriptionUsage,
)
from voice.wire.realtime_session import Session

# Unique over restarts by the prefix, and drawn without a line of Python by the map.
_next_event_id = map(f"event_{uuid4().hex[:12]}{{:x}}".format, count()).__next__


class _ServerEvent(
    Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type"
):
    event_id: str = field(default_factory=_next_event_id)


class _OfItem(_ServerEvent, frozen=True, gc=False):
    """``output_index``: the item's place in the response."""

    response_id: str
    item_id: str
    output_index: int


class _OfPart(_OfItem, frozen=True, gc=False):
    """``content_index``: the part's place in the item."""

    content_index: int


class _OfAudio(_ServerEvent, frozen=True, gc=False):
    """The caller's speech: the item, and the part of it that holds the audio."""

    item_id: str
    content_index: int


class SessionCreatedEvent(_ServerEvent, frozen=True, gc=False, tag="session.created"):
    session: Session


class SessionUpdatedEvent(_ServerEvent, frozen=True, gc=False, tag="session.updated"):
    session: Session


class ConversationCreatedEvent(_ServerEvent, frozen=True, gc=False, tag="conversation.created"):
    conversation: RealtimeConversation


class ConversationItemAdded(_ServerEvent, frozen=True, gc=False, tag="conversation.item.added"):
    item: RealtimeItem
    previous_item_id: str | None = None


class ConversationItemDone(_ServerEvent, frozen=True, gc=False, tag="conversation.item.done"):
    item: RealtimeItem
    previous_item_id: str | None = None


class ConversationItemRetrieved(
    _ServerEvent, frozen=True, gc=False, tag="conversation.item.retrieved"
):
    item: RealtimeItem


class ConversationItemDeletedEvent(
    _ServerEvent, frozen=True, gc=False, tag="conversation.item.deleted"
):
    item_id: str


class ConversationItemTruncatedEvent(
    _OfAudio, frozen=True, gc=False, tag="conversation.item.truncated"
):
    audio_end_ms: int


class InputAudioTranscriptionDeltaEvent(
    _OfAudio, frozen=True, gc=False, tag="conversation.item.input_audio_transcription.delta"
):
    delta: str


class InputAudioTranscriptionCompletedEvent(
    _OfAudio, frozen=True, gc=False, tag="conversation.item.input_audio_transcription.completed"
):
    """``suspicion`` is ours: why words are doubted, or were thrown away."""

    transcript: str
    usage: TranscriptionUsage
    suspicion: str | None = None


class InputAudioTranscriptionSegment(
    _OfAudio, frozen=True, gc=False, tag="conversation.item.input_audio_transcription.segment"
):
    """``start`` and ``end`` in seconds."""

    id: str
    start: float
    end: float
    text: str
    speaker: str


class InputAudioTranscriptionFailedEvent(
    _OfAudio, frozen=True, gc=False, tag="conversation.item.input_audio_transcription.failed"
):
    error: TranscriptionError


class InputAudioBufferCommittedEvent(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.committed"
):
    item_id: str
    previous_item_id: str | None = None


class InputAudioBufferClearedEvent(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.cleared"
):
    pass


class InputAudioBufferSpeechStartedEvent(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.speech_started"
):
    """Milliseconds of all audio that was ever appended in this session."""

    audio_start_ms: int
    item_id: str


class InputAudioBufferSpeechStoppedEvent(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.speech_stopped"
):
    audio_end_ms: int
    item_id: str


class InputAudioBufferTimeoutTriggered(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.timeout_triggered"
):
    audio_start_ms: int
    audio_end_ms: int
    item_id: str


class InputAudioBufferDtmfEventReceivedEvent(
    _ServerEvent, frozen=True, gc=False, tag="input_audio_buffer.dtmf_event_received"
):
    """``received_at`` in seconds since 1970."""

    event: str
    received_at: int


class ResponseCreatedEvent(_ServerEvent, frozen=True, gc=False, tag="response.created"):
    response: RealtimeResponse


class ResponseDoneEvent(_ServerEvent, frozen=True, gc=False, tag="response.done"):
    response: RealtimeResponse


class ResponseOutputItemAddedEvent(
    _ServerEvent, frozen=True, gc=False, tag="response.output_item.added"
):
    response_id: str
    output_index: int
    item: RealtimeItem


class ResponseOutputItemDoneEvent(
    _ServerEvent, frozen=True, gc=False, tag="response.output_item.done"
):
    response_id: str
    output_index: int
    item: RealtimeItem


class ResponseContentPartAddedEvent(
    _OfPart, frozen=True, gc=False, tag="response.content_part.added"
):
    part: RealtimeContentPart


class ResponseContentPartDoneEvent(
    _OfPart, frozen=True, gc=False, tag="response.content_part.done"
):
    part: RealtimeContentPart


class ResponseTextDeltaEvent(_OfPart, frozen=True, gc=False, tag="response.output_text.delta"):
    delta: str


class ResponseTextDoneEvent(_OfPart, frozen=True, gc=False, tag="response.output_text.done"):
    text: str


class ResponseAudioDeltaEvent(_OfPart, frozen=True, gc=False, tag="response.output_audio.delta"):
    """``delta`` is in the session's output format; base64 is made when it is encoded."""

    delta: bytes


class ResponseAudioDoneEvent(_OfPart, frozen=True, gc=False, tag="response.output_audio.done"):
    pass


class ResponseAudioTranscriptDeltaEvent(
    _OfPart, frozen=True, gc=False, tag="response.output_audio_transcript.delta"
):
    delta: str


class ResponseAudioTranscriptDoneEvent(
    _OfPart, frozen=True, gc=False, tag="response.output_audio_transcript.done"
):
    transcript: str


class ResponseFunctionCallArgumentsDeltaEvent(
    _OfItem, frozen=True, gc=False, tag="response.function_call_arguments.delta"
):
    call_id: str
    delta: str


class ResponseFunctionCallArgumentsDoneEvent(
    _OfItem, frozen=True, gc=False, tag="response.function_call_arguments.done"
):
    call_id: str
    name: str
    arguments: str


class McpListToolsInProgress(_ServerEvent, frozen=True, gc=False, tag="mcp_list_tools.in_progress"):
    item_id: str


class McpListToolsCompleted(_ServerEvent, frozen=True, gc=False, tag="mcp_list_tools.completed"):
    item_id: str


class McpListToolsFailed(_ServerEvent, frozen=True, gc=False, tag="mcp_list_tools.failed"):
    """``error`` is ours: why."""

    item_id: str
    error: RealtimeMcpError | None = None


class ResponseMcpCallArgumentsDelta(
    _OfItem, frozen=True, gc=False, tag="response.mcp_call_arguments.delta"
):
    delta: str


class ResponseMcpCallArgumentsDone(
    _OfItem, frozen=True, gc=False, tag="response.mcp_call_arguments.done"
):
    arguments: str


class _OfMcpCall(_ServerEvent, frozen=True, gc=False):
    """``output_index``: the item's place in the response; 0 for a call that was approved later."""

    item_id: str
    output_index: int


class ResponseMcpCallInProgress(
    _OfMcpCall, frozen=True, gc=False, tag="response.mcp_call.in_progress"
):
    pass


class ResponseMcpCallCompleted(
    _OfMcpCall, frozen=True, gc=False, tag="response.mcp_call.completed"
):
    pass


class ResponseMcpCallFailed(_OfMcpCall, frozen=True, gc=False, tag="response.mcp_call.failed"):
    pass


class RateLimitsUpdatedEvent(_ServerEvent, frozen=True, gc=False, tag="rate_limits.updated"):
    rate_limits: list[RealtimeRateLimit]


class RealtimeErrorEvent(_ServerEvent, frozen=True, gc=False, tag="error"):
    error: RealtimeError


ServerEvent: TypeAlias = (
    SessionCreatedEvent
    | SessionUpdatedEvent
    | ConversationCreatedEvent
    | ConversationItemAdded
    | ConversationItemDone
    | ConversationItemRetrieved
    | ConversationItemDeletedEvent
    | ConversationItemTruncatedEvent
    | InputAudioTranscriptionDeltaEvent
    | InputAudioTranscriptionCompletedEvent
    | InputAudioTranscriptionSegment
    | InputAudioTranscriptionFailedEvent
    | InputAudioBufferCommittedEvent
    | InputAudioBufferClearedEvent
    | InputAudioBufferSpeechStartedEvent
    | InputAudioBufferSpeechStoppedEvent
    | InputAudioBufferTimeoutTriggered
    | InputAudioBufferDtmfEventReceivedEvent
    | ResponseCreatedEvent
    | ResponseDoneEvent
    | ResponseOutputItemAddedEvent
    | ResponseOutputItemDoneEvent
    | ResponseContentPartAddedEvent
    | ResponseContentPartDoneEvent
    | ResponseTextDeltaEvent
    | ResponseTextDoneEvent
    | ResponseAudioDeltaEvent
    | ResponseAudioDoneEvent
    | ResponseAudioTranscriptDeltaEvent
    | ResponseAudioTranscriptDoneEvent
    | ResponseFunctionCallArgumentsDeltaEvent
    | ResponseFunctionCallArgumentsDoneEvent
    | McpListToolsInProgress
    | McpListToolsCompleted
    | McpListToolsFailed
    | ResponseMcpCallArgumentsDelta
    | ResponseMcpCallArgumentsDone
    | ResponseMcpCallInProgress
    | ResponseMcpCallCompleted
    | ResponseMcpCallFailed
    | RateLimitsUpdatedEvent
    | RealtimeErrorEvent
)
