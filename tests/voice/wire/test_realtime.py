"""The Realtime codec: what it takes, what it refuses and in which words."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.wire.realtime import MOST_BYTES, decode, decode_server_event, encode, error_event
from voice.wire.realtime_client import (
    InputAudioBufferAppendEvent,
    InputAudioBufferCommitEvent,
    ResponseCancelEvent,
)
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_server import InputAudioBufferClearedEvent, ResponseAudioDeltaEvent


def refusal(message: str | bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        decode(message)
    return caught.value


def refusal_of(**event: Any) -> WireError:
    return refusal(json.dumps(event))


def test_audio_arrives_as_bytes() -> None:
    pcm = bytes(range(256))
    text = json.dumps(
        {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}
    )
    assert decode(text) == InputAudioBufferAppendEvent(pcm)
    assert decode(text.encode()) == InputAudioBufferAppendEvent(pcm)


def test_audio_leaves_as_base64() -> None:
    event = json.loads(encode(ResponseAudioDeltaEvent("resp", "item", 0, 0, b"\x00\x01\xff")))
    assert base64.b64decode(event["delta"]) == b"\x00\x01\xff"
    assert event["type"] == "response.output_audio.delta"


def test_both_sides_read_what_the_other_writes() -> None:
    said = ResponseAudioDeltaEvent("resp", "item", 0, 0, b"ab")
    assert decode_server_event(encode(said)) == said
    asked = ResponseCancelEvent("resp", event_id="mine")
    assert decode(encode(asked)) == asked


def test_absent_fields_are_left_out() -> None:
    assert encode(InputAudioBufferCommitEvent()) == '{"type":"input_audio_buffer.commit"}'


def test_every_server_event_has_an_id_of_its_own() -> None:
    ids = {InputAudioBufferClearedEvent().event_id for _ in range(100)}
    assert len(ids) == 100
    assert all(event_id.startswith("event_") for event_id in ids)


def test_unknown_fields_are_passed_over() -> None:
    assert decode('{"type":"input_audio_buffer.commit","x":{"y":1}}').event_id is None


@pytest.mark.parametrize("message", ["", "{", "nonsense", b"\xff\xfe", "\ud800", '{"a":"\\ud800"}'])
def test_what_is_not_json_is_refused(message: str | bytes) -> None:
    assert refusal(message).code == "invalid_json"


def test_deep_nesting_is_refused() -> None:
    assert refusal('{"a":' * 100_000).code == "invalid_json"
    nested: dict[str, Any] = {}
    for _ in range(400):
        nested = {"a": nested}
    text = json.dumps({"type": "session.update", "session": {"tracing": nested}})
    assert encode(decode(text))


@pytest.mark.parametrize("message", ["[]", "5", "null", '"text"'])
def test_what_is_not_an_object_is_refused(message: str) -> None:
    error = refusal(message)
    assert (error.code, error.param) == ("invalid_type", None)


def test_unknown_type_is_named_with_the_known_ones() -> None:
    error = refusal_of(type="session.shrug", event_id="mine")
    assert (error.code, error.param, error.event_id) == ("invalid_value", "type", "mine")
    assert "session.shrug" in error.message
    assert "response.create" in error.message
    assert str(error) == error.message


def test_missing_type_is_named() -> None:
    error = refusal_of(event_id="mine")
    assert (error.code, error.param, error.event_id) == (
        "missing_required_parameter",
        "type",
        "mine",
    )


def test_type_that_is_no_text_is_refused() -> None:
    error = refusal_of(type=5)
    assert (error.code, error.param) == ("invalid_type", "type")


def test_missing_audio_is_named() -> None:
    error = refusal_of(type="input_audio_buffer.append", event_id="mine")
    assert (error.code, error.param, error.event_id) == (
        "missing_required_parameter",
        "audio",
        "mine",
    )


@pytest.mark.parametrize("audio", ["!!!!", "YWI", "Y"])
def test_bad_base64_is_named(audio: str) -> None:
    error = refusal_of(type="input_audio_buffer.append", audio=audio, event_id="mine")
    assert (error.code, error.param, error.event_id) == ("invalid_audio", "audio", "mine")


def test_event_id_of_a_wrong_type_is_not_echoed() -> None:
    error = refusal_of(type="input_audio_buffer.commit", event_id=7)
    assert (error.code, error.param, error.event_id) == ("invalid_type", "event_id", None)


@pytest.mark.parametrize("field", ["content_index", "audio_end_ms"])
def test_negative_positions_are_refused(field: str) -> None:
    event = {"item_id": "a", "content_index": 0, "audio_end_ms": 0, field: -1}
    error = refusal_of(type="conversation.item.truncate", **event)
    assert (error.code, error.param) == ("invalid_value", field)


@pytest.mark.parametrize(
    ("role", "content"),
    [("user", "output_text"), ("assistant", "input_text"), ("system", "output_text")],
)
def test_a_role_speaks_only_its_own_content(role: str, content: str) -> None:
    item = {"type": "message", "role": role, "content": [{"type": content, "text": "hello"}]}
    error = refusal_of(type="conversation.item.create", item=item, event_id="mine")
    assert (error.code, error.param) == ("invalid_value", "item.content[0].type")
    assert error.event_id == "mine"
    error = refusal_of(type="response.create", response={"input": [item]})
    assert error.param == "response.input[0].content[0].type"


def test_a_refusal_becomes_an_error_event() -> None:
    event = error_event(WireError("invalid_value", "No.", "item.id", "mine"))
    assert json.loads(encode(event))["error"] == {
        "type": "invalid_request_error",
        "message": "No.",
        "code": "invalid_value",
        "param": "item.id",
        "event_id": "mine",
    }


def test_a_server_event_that_is_not_known_says_so() -> None:
    with pytest.raises(WireError) as caught:
        decode_server_event('{"type":"conversation.item.created","event_id":"e","item_id":"i"}')
    assert caught.value.param == "type"


# --- fuzz -----------------------------------------------------------------------------------

WORDS = st.sampled_from(
    (
        *("type", "event_id", "session", "audio", "input", "output"),
        *(
            "turn_detection",
            "server_vad",
            "semantic_vad",
            "threshold",
            "silence_duration_ms",
            "format",
        ),
        *("rate", "audio/pcm", "audio/pcmu", "voice", "speed", "tools"),
        *("tool_choice", "function", "name", "item", "message", "role"),
        *("user", "content", "input_text", "text", "input_audio", "content_index"),
        *("audio_end_ms", "item_id", "response", "metadata", "output_modalities", "realtime"),
        *(
            "transcription",
            "null",
            "tracing",
            "session.update",
            "input_audio_buffer.append",
            "conversation.item.create",
        ),
        *("conversation.item.truncate", "response.create", "response.cancel"),
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | WORDS
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


def survives(message: str | bytes) -> None:
    try:
        event = decode(message)
    except WireError as error:
        assert error.code in {
            "invalid_json",
            "invalid_type",
            "invalid_value",
            "invalid_audio",
            "missing_required_parameter",
        }
        assert encode(error_event(error))
    else:
        assert decode(encode(event)) == event


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_noise_is_refused_politely(message: str | bytes) -> None:
    survives(message)


@given(TREES)
def test_any_json_is_taken_or_refused_politely(tree: Any) -> None:
    survives(json.dumps(tree))


@given(st.sampled_from(["session.update", "conversation.item.create", "response.create"]), TREES)
def test_any_body_is_taken_or_refused_politely(kind: str, body: Any) -> None:
    field = {"session.update": "session", "conversation.item.create": "item"}.get(kind, "response")
    survives(json.dumps({"type": kind, "event_id": "mine", field: body}))


# --- sizes ----------------------------------------------------------------------------------


def test_only_audio_may_be_large() -> None:
    pcm = bytes(MOST_BYTES)
    audio = {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}
    assert decode(json.dumps(audio)) == InputAudioBufferAppendEvent(pcm)
    session = {"type": "realtime", "instructions": "x" * MOST_BYTES}
    error = refusal_of(type="session.update", session=session)
    assert error.code == "invalid_value"
    assert str(MOST_BYTES) in error.message


def test_large_audio_that_is_wrong_is_told_why() -> None:
    error = refusal_of(type="input_audio_buffer.append", audio="?" * MOST_BYTES)
    assert (error.code, error.param) == ("invalid_audio", "audio")
