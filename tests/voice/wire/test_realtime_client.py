"""Every client event that the openai package can build is understood."""

import base64
import json
from typing import Any

import pytest
from openai.types import realtime as sdk
from openai.types.realtime import realtime_client_event
from pydantic import TypeAdapter

from voice.wire.realtime import decode, encode
from voice.wire.realtime_client import ResponseCreateEvent, SessionUpdateEvent

FUNCTION = {
    "type": "function",
    "name": "look_up",
    "description": "Look it up.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
}
DETECTION = {
    "type": "server_vad",
    "threshold": 0.4,
    "prefix_padding_ms": 100,
    "silence_duration_ms": 300,
    "idle_timeout_ms": 6000,
    "create_response": True,
    "interrupt_response": False,
}
SESSION = {
    "type": "realtime",
    "model": "gpt-realtime",
    "instructions": "Be kind.",
    "output_modalities": ["audio"],
    "include": ["item.input_audio_transcription.logprobs"],
    "max_output_tokens": 200,
    "parallel_tool_calls": True,
    "tool_choice": {"type": "function", "name": "look_up"},
    "tools": [FUNCTION],
    "tracing": {"workflow_name": "w", "group_id": "g", "metadata": {"a": 1}},
    "truncation": {"type": "retention_ratio", "retention_ratio": 0.5},
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": {"type": "far_field"},
            "transcription": {"model": "whisper-1", "language": "en", "prompt": "names"},
            "turn_detection": DETECTION,
        },
        "output": {"format": {"type": "audio/pcma"}, "voice": "marin", "speed": 1.2},
    },
}
TRANSCRIPTION = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcmu"},
            "noise_reduction": None,
            "transcription": {"model": "gpt-4o-transcribe"},
            "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
        }
    },
}
AUDIO = base64.b64encode(bytes(960)).decode()
USER = {
    "type": "message",
    "role": "user",
    "id": "msg_1",
    "object": "realtime.item",
    "status": "completed",
    "content": [
        {"type": "input_text", "text": "hello"},
        {"type": "input_audio", "audio": AUDIO, "transcript": "hello"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
    ],
}
ASSISTANT = {
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "output_text", "text": "hi"},
        {"type": "output_audio", "audio": AUDIO, "transcript": "hi"},
    ],
}
SYSTEM = {
    "type": "message",
    "role": "system",
    "content": [{"type": "input_text", "text": "Be brief."}],
}
CALL = {"type": "function_call", "name": "look_up", "arguments": "{}", "call_id": "call_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
RESPONSE = {
    "conversation": "none",
    "instructions": "Say hello.",
    "max_output_tokens": "inf",
    "metadata": {"topic": "greeting"},
    "output_modalities": ["text"],
    "tool_choice": "required",
    "tools": [FUNCTION],
    "input": [USER, CALL, OUTPUT],
    "audio": {"output": {"format": {"type": "audio/pcmu"}, "voice": {"id": "v"}}},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "session.update", "session": SESSION},
    {"type": "session.update", "session": TRANSCRIPTION},
    {"type": "input_audio_buffer.append", "audio": AUDIO},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "output_audio_buffer.clear"},
    *(
        {"type": "conversation.item.create", "item": item, "previous_item_id": "root"}
        for item in (USER, ASSISTANT, SYSTEM, CALL, OUTPUT)
    ),
    {"type": "conversation.item.retrieve", "item_id": "msg_1"},
    {"type": "conversation.item.delete", "item_id": "msg_1"},
    {"type": "conversation.item.truncate", "item_id": "m", "content_index": 0, "audio_end_ms": 9},
    {"type": "response.create"},
    {"type": "response.create", "response": RESPONSE},
    {"type": "response.cancel"},
    {"type": "response.cancel", "response_id": "resp_1"},
]

SDK_EVENTS: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeClientEvent)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event["type"]))
def test_what_the_openai_package_builds_is_understood(event: dict[str, Any]) -> None:
    built = SDK_EVENTS.validate_python({"event_id": "mine", **event})
    understood = decode(built.model_dump_json(exclude_unset=True))
    assert understood.event_id == "mine"
    if not isinstance(understood, SessionUpdateEvent):
        echoed = json.loads(encode(understood))
        SDK_EVENTS.validate_python(echoed)
        assert {**event, "event_id": "mine"}.items() <= with_objects(echoed, event).items()


def with_objects(echoed: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """``echoed`` less the ``object`` that items carry though the client left it out."""
    if "item" in echoed and "object" not in event["item"]:
        del echoed["item"]["object"]
    for item, sent in zip(
        (echoed.get("response") or {}).get("input", []),
        (event.get("response") or {}).get("input", []),
        strict=True,
    ):
        if "object" not in sent:
            del item["object"]
    return echoed


def test_no_client_event_of_the_package_is_missing() -> None:
    known = {event["type"] for event in EVENTS}
    union = realtime_client_event.RealtimeClientEvent.__origin__  # type: ignore[attr-defined]
    assert {model.model_fields["type"].annotation.__args__[0] for model in union.__args__} == known


def test_a_reference_may_stand_for_an_item_of_the_input() -> None:
    event = decode(
        '{"type":"response.create","response":{"input":[{"type":"item_reference","id":"a"}]}}'
    )
    assert isinstance(event, ResponseCreateEvent)
    assert event.response is not None
    assert event.response.input is not None
    assert len(event.response.input) == 1
