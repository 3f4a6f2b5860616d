"""The things that Realtime events speak of: items, their content, responses, errors.

Absent fields are left out of the JSON and never null: the JavaScript SDK refuses a null
inside an item. Fields that always have the same value come from a default factory, since
``omit_defaults`` would leave out a plain default.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from voice.wire.realtime_mcp import RealtimeMcpItem
from voice.wire.realtime_session import (
    MaxTokens,
    Modalities,
    RealtimeAudioFormat,
    RealtimeToolChoice,
    RealtimeVoiceId,
)

ItemStatus: TypeAlias = Literal["completed", "incomplete", "in_progress"]
ItemObject: TypeAlias = Literal["realtime.item"]
ResponseObject: TypeAlias = Literal["realtime.response"]


def _item_object() -> ItemObject:
    return "realtime.item"


def _response_object() -> ResponseObject:
    return "realtime.response"


# --- content --------------------------------------------------------------------------------


class InputTextContent(Struct, frozen=True, tag="input_text"):
    text: str


class InputAudioContent(Struct, frozen=True, omit_defaults=True, tag="input_audio"):
    """``audio`` is in the session's input format; the server leaves it out of what it sends."""

    audio: bytes | None = None
    transcript: str | None = None


class InputImageContent(Struct, frozen=True, omit_defaults=True, tag="input_image"):
    image_url: str
    detail: Literal["auto", "low", "high"] | None = None


class OutputTextContent(Struct, frozen=True, tag="output_text"):
    text: str


class OutputAudioContent(Struct, frozen=True, omit_defaults=True, tag="output_audio"):
    transcript: str | None = None
    audio: bytes | None = None


RealtimeContent: TypeAlias = (
    InputTextContent
    | InputAudioContent
    | InputImageContent
    | OutputTextContent
    | OutputAudioContent
)


class AudioPart(Struct, frozen=True, tag="audio"):
    """A content part as ``response.content_part`` events name it."""

    transcript: str = ""


class TextPart(Struct, frozen=True, tag="text"):
    text: str = ""


RealtimeContentPart: TypeAlias = AudioPart | TextPart

# --- items ----------------------------------------------------------------------------------


class RealtimeMessageItem(Struct, frozen=True, omit_defaults=True, tag="message"):
    """``id`` and ``status`` are absent where a client leaves them to the server."""

    role: Literal["user", "assistant", "system"]
    content: list[RealtimeContent]
    id: str | None = None
    status: ItemStatus | None = None
    object: ItemObject = field(default_factory=_item_object)


class RealtimeFunctionCallItem(Struct, frozen=True, omit_defaults=True, tag="function_call"):
    """``arguments`` is JSON text."""

    name: str
    arguments: str
    call_id: str | None = None
    id: str | None = None
    status: ItemStatus | None = None
    object: ItemObject = field(default_factory=_item_object)


class RealtimeFunctionCallOutputItem(
    Struct, frozen=True, omit_defaults=True, tag="function_call_output"
):
    call_id: str
    output: str
    id: str | None = None
    status: ItemStatus | None = None
    object: ItemObject = field(default_factory=_item_object)


RealtimeItem: TypeAlias = (
    RealtimeMessageItem
    | RealtimeFunctionCallItem
    | RealtimeFunctionCallOutputItem
    | RealtimeMcpItem
)


class RealtimeItemReference(Struct, frozen=True, tag="item_reference"):
    """An item of the conversation, in a response's own input."""

    id: str


# --- responses ------------------------------------------------------------------------------


def _no_items() -> list[RealtimeItem]:
    """Not ``list``, which ``omit_defaults`` sees through: an empty output must be sent."""
    return []


class RealtimeResponseAudioOutput(Struct, frozen=True, omit_defaults=True):
    format: RealtimeAudioFormat | None = None
    voice: str | RealtimeVoiceId | None = None


class RealtimeResponseAudio(Struct, frozen=True, omit_defaults=True):
    output: RealtimeResponseAudioOutput | None = None


class RealtimeResponseCreateParams(Struct, frozen=True, omit_defaults=True):
    """What one response does differently; None keeps to the session.

    ``input`` None means the conversation so far; an empty list means no context at all. ``tools``
    are read by ``realtime_session.read_tools``.
    """

    audio: RealtimeResponseAudio | None = None
    conversation: Literal["auto", "none"] | None = None
    input: list[RealtimeItem | RealtimeItemReference] | None = None
    instructions: str | None = None
    max_output_tokens: MaxTokens | None = None
    metadata: dict[str, str] | None = None
    output_modalities: Modalities | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: RealtimeToolChoice | None = None
    tools: list[dict[str, Any]] | None = None


class RealtimeResponseError(Struct, frozen=True, omit_defaults=True):
    """Why a response failed."""

    type: str | None = None
    code: str | None = None
    message: str | None = None


class RealtimeResponseStatus(Struct, frozen=True, omit_defaults=True):
    type: Literal["completed", "cancelled", "incomplete", "failed"] | None = None
    reason: (
        Literal["turn_detected", "client_cancelled", "max_output_tokens", "content_filter"] | None
    ) = None
    error: RealtimeResponseError | None = None


class RealtimeInputTokenDetails(Struct, frozen=True):
    text_tokens: int = 0
    audio_tokens: int = 0
    cached_tokens: int = 0


class RealtimeOutputTokenDetails(Struct, frozen=True):
    text_tokens: int = 0
    audio_tokens: int = 0


class RealtimeResponseUsage(Struct, frozen=True):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    input_token_details: RealtimeInputTokenDetails = RealtimeInputTokenDetails()
    output_token_details: RealtimeOutputTokenDetails = RealtimeOutputTokenDetails()


class RealtimeResponse(Struct, frozen=True, omit_defaults=True):
    """``conversation_id`` is absent from a response outside the conversation."""

    id: str
    status: Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]
    output: list[RealtimeItem] = field(default_factory=_no_items)
    status_details: RealtimeResponseStatus | None = None
    output_modalities: list[Literal["text", "audio"]] | None = None
    conversation_id: str | None = None
    max_output_tokens: MaxTokens | None = None
    audio: RealtimeResponseAudio | None = None
    usage: RealtimeResponseUsage | None = None
    metadata: dict[str, str] | None = None
    object: ResponseObject = field(default_factory=_response_object)


# --- the rest -------------------------------------------------------------------------------


class RealtimeConversation(Struct, frozen=True):
    id: str
    object: Literal["realtime.conversation"] = "realtime.conversation"


class TranscriptionDurationUsage(Struct, frozen=True, tag="duration"):
    seconds: float


class TranscriptionTokensUsage(Struct, frozen=True, tag="tokens"):
    input_tokens: int
    output_tokens: int
    total_tokens: int


TranscriptionUsage: TypeAlias = TranscriptionDurationUsage | TranscriptionTokensUsage


class TranscriptionError(Struct, frozen=True, omit_defaults=True):
    type: str | None = None
    code: str | None = None
    message: str | None = None
    param: str | None = None


class RealtimeError(Struct, frozen=True, omit_defaults=True):
    """``event_id`` is that of the client's event that caused it."""

    type: str
    message: str
    code: str | None = None
    param: str | None = None
    event_id: str | None = None


class RealtimeRateLimit(Struct, frozen=True, omit_defaults=True):
    name: Literal["requests", "tokens"] | None = None
    limit: int | None = None
    remaining: int | None = None
    reset_seconds: float | None = None
