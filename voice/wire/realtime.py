"""The codec of the OpenAI Realtime protocol (GA): text in, events out, and the other way.

    event = decode(message)           # a ClientEvent, or WireError
    message = encode(SessionCreatedEvent(session))

The server decodes client events and the client decodes server events; both encode with the
same encoder. The types live in ``realtime_client``, ``realtime_server``, ``realtime_session``
and ``realtime_objects``. Source: https://platform.openai.com/docs/api-reference/realtime
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec

from voice.wire.realtime_client import (
    ClientEvent,
    ConversationItemCreateEvent,
    InputAudioBufferAppendEvent,
    ResponseCreateEvent,
    SessionUpdateEvent,
)
from voice.wire.realtime_errors import WireError, wire_error
from voice.wire.realtime_objects import (
    InputAudioContent,
    InputImageContent,
    InputTextContent,
    OutputAudioContent,
    OutputTextContent,
    RealtimeError,
    RealtimeMessageItem,
)
from voice.wire.realtime_server import RealtimeErrorEvent, ServerEvent
from voice.wire.realtime_session import check_update, read_tools

MOST_BYTES: Final = 1024 * 1024
"""Of a message that brings no audio. Larger ones take the loop too long to read, and a session or
a dialogue too much memory to keep."""

_client_events = msgspec.json.Decoder(ClientEvent)
_audio = msgspec.json.Decoder(InputAudioBufferAppendEvent)
_server_events = msgspec.json.Decoder(ServerEvent)
_encoder = msgspec.json.Encoder()

_CLIENT_TYPES = ", ".join(sorted(event.__struct_config__.tag for event in get_args(ClientEvent)))
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_CHECKED = (SessionUpdateEvent, ConversationItemCreateEvent, ResponseCreateEvent)
_CONTENT_OF_ROLE = {
    "user": (InputTextContent, InputAudioContent, InputImageContent),
    "system": (InputTextContent,),
    "assistant": (OutputTextContent, OutputAudioContent),
}


def encode(event: ServerEvent | ClientEvent) -> str:
    """The event as JSON text, absent fields left out, bytes as base64."""
    return _encoder.encode(event).decode()


def encode_utf8(event: ServerEvent | ClientEvent) -> bytes:
    """The same as bytes, for a socket that takes them as they are."""
    return _encoder.encode(event)


def decode(message: str | bytes) -> ClientEvent:
    """A client's message. Raises WireError, with the message's own event_id where it has one."""
    if len(message) > MOST_BYTES:
        return _decode_audio(message)
    try:
        event = _client_events.decode(message)
    except _UNREADABLE as error:
        raise _refusal(error, message) from error
    if isinstance(event, _CHECKED):
        _check(event)
    return event


def _decode_audio(message: str | bytes) -> InputAudioBufferAppendEvent:
    """A message that may only bring audio, and is not looked into if it does not."""
    try:
        return _audio.decode(message)
    except _UNREADABLE as error:
        refusal = wire_error(error)
    if refusal.param == "type":
        raise WireError(
            "invalid_value",
            f"The message has {len(message)} bytes. Only input_audio_buffer.append may have more"
            f" than {MOST_BYTES}.",
        )
    raise refusal


def decode_server_event(message: str | bytes) -> ServerEvent:
    """A server's message. Raises WireError; an event that is not known here is one with
    ``param == "type"``, which a client may pass over."""
    try:
        return _server_events.decode(message)
    except _UNREADABLE as error:
        raise wire_error(error) from error


def error_event(error: WireError) -> RealtimeErrorEvent:
    """The event that tells the client of its mistake."""
    return RealtimeErrorEvent(
        RealtimeError(error.type, error.message, error.code, error.param, error.event_id)
    )


class _Envelope(msgspec.Struct):
    """What can still be read of a message that is otherwise wrong."""

    event_id: Any = None
    type: Any = None


_envelopes = msgspec.json.Decoder(_Envelope)


def _refusal(error: Exception, message: str | bytes) -> WireError:
    try:
        envelope = _envelopes.decode(message)
    except _UNREADABLE:
        return wire_error(error)
    event_id = envelope.event_id if isinstance(envelope.event_id, str) else None
    refusal = wire_error(error, event_id=event_id)
    if refusal.code != "invalid_value" or refusal.param != "type":
        return refusal
    unknown = f"Unknown event type '{envelope.type}'. Known types: {_CLIENT_TYPES}."
    return WireError(refusal.code, unknown, refusal.param, event_id)


def _check(event: SessionUpdateEvent | ConversationItemCreateEvent | ResponseCreateEvent) -> None:
    """The rules that types cannot say."""
    try:
        if isinstance(event, SessionUpdateEvent):
            check_update(event.session)
        elif isinstance(event, ConversationItemCreateEvent):
            _check_roles([event.item], "item")
        elif event.response is not None:
            _check_roles(event.response.input or [], "response.input[{}]")
            read_tools(event.response.tools or [], "response.tools")
    except WireError as error:
        error.event_id = event.event_id
        raise


def _check_roles(items: Sequence[object], path: str) -> None:
    """A caller says input, an assistant output, and never the other way round."""
    for index, item in enumerate(items):
        if not isinstance(item, RealtimeMessageItem):
            continue
        allowed = _CONTENT_OF_ROLE[item.role]
        for place, content in enumerate(item.content):
            if isinstance(content, allowed):
                continue
            param = f"{path.format(index)}.content[{place}].type"
            tags = ", ".join(str(kind.__struct_config__.tag) for kind in allowed)
            raise WireError(
                "invalid_value",
                f"Invalid value for '{param}': a message of role '{item.role}' may hold {tags}.",
                param,
            )
