"""Sessions: their defaults, their ranges, and how updates are laid over them."""

import json
from typing import Any

import msgspec
import pytest

from voice.wire.realtime import decode
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import RealtimeMcpTool
from voice.wire.realtime_session import (
    MOST_BYTES,
    RealtimeAudioPCMU,
    RealtimeFunctionTool,
    RealtimeSemanticVad,
    RealtimeServerVad,
    RealtimeSession,
    RealtimeToolChoiceFunction,
    RealtimeTranscription,
    RealtimeTranscriptionSession,
    RealtimeVoiceId,
    Session,
    merge,
    read_tools,
    voice_name,
    without_secrets,
)

START = RealtimeSession(id="sess_1", model="antiphon", instructions="Be kind.")


def conversation(session: Session) -> RealtimeSession:
    assert isinstance(session, RealtimeSession)
    return session


def changed(session: Session = START, **update: Any) -> RealtimeSession:
    return conversation(merge(session, update))


def with_input(session: Session = START, **settings: Any) -> RealtimeSession:
    return changed(session, audio={"input": settings})


def test_nothing_changes_what_is_not_named() -> None:
    session = with_input(turn_detection={"type": "server_vad", "silence_duration_ms": 200})
    assert session.audio.input.turn_detection == RealtimeServerVad(silence_duration_ms=200)
    later = with_input(session, transcription={"model": "whisper-1"})
    assert later.audio.input.turn_detection == RealtimeServerVad(silence_duration_ms=200)
    assert later.audio.input.transcription == RealtimeTranscription(model="whisper-1")
    assert later.instructions == "Be kind."


def test_another_turn_detection_replaces_the_first() -> None:
    session = with_input(turn_detection={"type": "server_vad", "create_response": False})
    session = with_input(session, turn_detection={"type": "semantic_vad"})
    assert session.audio.input.turn_detection == RealtimeSemanticVad()


def test_turn_detection_without_a_type_keeps_its_kind() -> None:
    session = with_input(turn_detection={"type": "semantic_vad", "eagerness": "high"})
    session = with_input(session, turn_detection={"interrupt_response": False})
    assert session.audio.input.turn_detection == RealtimeSemanticVad(
        eagerness="high", interrupt_response=False
    )


def test_null_turns_detection_off_and_an_object_turns_it_on() -> None:
    session = with_input(turn_detection=None)
    assert session.audio.input.turn_detection is None
    session = with_input(session, turn_detection={"type": "server_vad", "threshold": 0.9})
    assert session.audio.input.turn_detection == RealtimeServerVad(threshold=0.9)


def test_turning_detection_on_needs_a_type() -> None:
    with pytest.raises(WireError) as caught:
        with_input(with_input(turn_detection=None), turn_detection={"threshold": 0.9})
    assert caught.value.code == "missing_required_parameter"
    assert caught.value.param == "session.audio.input.turn_detection.type"


def test_null_says_nothing_where_nothing_can_be_off() -> None:
    assert changed(instructions=None, tools=None, audio=None) == START


def test_a_format_of_another_kind_replaces_the_first() -> None:
    session = with_input(format={"type": "audio/pcmu"})
    assert session.audio.input.format == RealtimeAudioPCMU()


def test_lists_are_replaced() -> None:
    session = changed(tools=[{"type": "function", "name": "a"}, {"type": "function", "name": "b"}])
    session = changed(session, tools=[{"name": "c", "parameters": {"type": "object"}}])
    assert [tool.name for tool in session.tools] == ["c"]


def test_tool_choice_goes_from_word_to_object_and_back() -> None:
    session = changed(tool_choice={"type": "function", "name": "a"})
    assert session.tool_choice == RealtimeToolChoiceFunction("a")
    assert changed(session, tool_choice="none").tool_choice == "none"


def test_a_session_keeps_its_name() -> None:
    assert changed(id="sess_2", object="realtime.other").id == "sess_1"


def test_a_voice_may_be_an_object() -> None:
    session = changed(audio={"output": {"voice": {"id": "nova"}}})
    assert session.audio.output.voice == RealtimeVoiceId("nova")
    assert voice_name(session.audio.output.voice) == "nova"
    assert voice_name("nova") == "nova"


def test_unknown_fields_are_dropped() -> None:
    assert changed(sparkle=1, audio={"input": {"gain": 3}}) == START


def test_a_session_may_become_one_that_only_transcribes() -> None:
    session = merge(with_input(turn_detection=None), {"type": "transcription"})
    assert isinstance(session, RealtimeTranscriptionSession)
    assert session.id == "sess_1"
    assert session.object == "realtime.transcription_session"
    assert session.audio.input.turn_detection is None


def test_a_session_is_encoded_whole() -> None:
    encoded = json.loads(msgspec.json.encode(START))
    assert encoded["type"] == "realtime"
    assert encoded["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    assert encoded["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert encoded["max_output_tokens"] == "inf"


INPUT = "session.audio.input"
DETECTION = f"{INPUT}.turn_detection"


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        (f"{DETECTION}.threshold", 1.1, "invalid_value"),
        (f"{DETECTION}.threshold", -0.1, "invalid_value"),
        (f"{DETECTION}.threshold", "0.5", "invalid_type"),
        (f"{DETECTION}.silence_duration_ms", 10_001, "invalid_value"),
        (f"{DETECTION}.silence_duration_ms", -1, "invalid_value"),
        (f"{DETECTION}.silence_duration_ms", 200.5, "invalid_type"),
        (f"{DETECTION}.prefix_padding_ms", 5_001, "invalid_value"),
        (f"{DETECTION}.type", "telepathy", "invalid_value"),
        (f"{DETECTION}.create_response", "yes", "invalid_type"),
        (DETECTION, "server_vad", "invalid_type"),
        (f"{INPUT}.format.rate", 16_000, "invalid_value"),
        (f"{INPUT}.format.type", "audio/opus", "invalid_value"),
        (f"{INPUT}.format", "pcm16", "invalid_type"),
        (f"{INPUT}.noise_reduction.type", "wind", "invalid_value"),
        ("session.audio.output.speed", 1.6, "invalid_value"),
        ("session.audio.output.speed", 0.2, "invalid_value"),
        ("session.audio.output.voice", 3, "invalid_type"),
        ("session.output_modalities", ["text", "audio"], "invalid_value"),
        ("session.output_modalities", [], "invalid_value"),
        ("session.max_output_tokens", 0, "invalid_value"),
        ("session.max_output_tokens", "many", "invalid_value"),
        ("session.tool_choice", "maybe", "invalid_value"),
        ("session.tools", {"name": "a"}, "invalid_type"),
        ("session.instructions", 3, "invalid_type"),
        ("session.type", "translation", "invalid_value"),
        ("session.audio", 3, "invalid_type"),
    ],
)
def test_a_value_out_of_place_is_named_before_it_is_applied(
    path: str, value: object, code: str
) -> None:
    body: Any = value
    for name in reversed(path.split(".")):
        body = {name: body}
    with pytest.raises(WireError) as caught:
        decode(json.dumps({"type": "session.update", "event_id": "mine", **body}))
    error = caught.value
    assert (error.code, error.param, error.event_id) == (code, path, "mine")


def test_the_message_says_what_would_do() -> None:
    with pytest.raises(WireError, match="low, medium, high, auto"):
        with_input(turn_detection={"type": "semantic_vad", "eagerness": "huge"})
    with pytest.raises(WireError, match="supported values are: function, mcp"):
        changed(tools=[{"type": "web_search"}])


def test_an_update_nested_without_end_is_refused() -> None:
    update: dict[str, Any] = {}
    for _ in range(100_000):
        update = {"tracing": update}
    with pytest.raises(WireError, match="nested"):
        merge(START, update)


def test_a_session_does_not_grow_without_end() -> None:
    session = merge(RealtimeSession(), {"tracing": {"a": "x" * (MOST_BYTES // 2)}})
    with pytest.raises(WireError, match="would exceed") as caught:
        merge(session, {"tracing": {"b": "x" * (MOST_BYTES // 2)}})
    assert caught.value.param == "session"


def test_what_opens_a_server_is_not_shown() -> None:
    secrets = {"authorization": "tok-1", "headers": {"X-Key": "tok-2"}}
    named = {"type": "mcp", "server_label": "a", "server_url": "https://a.test", **secrets}
    session = merge(RealtimeSession(), {"tools": [named, {"name": "f"}]})
    kept = session.tools[0] if isinstance(session, RealtimeSession) else None
    assert isinstance(kept, RealtimeMcpTool)
    assert (kept.authorization, kept.headers) == ("tok-1", {"X-Key": "tok-2"})
    assert "tok-" not in repr(session)
    shown = json.loads(msgspec.json.encode(without_secrets(session)))
    assert shown["tools"] == [
        {"type": "mcp", "server_label": "a", "server_url": "https://a.test"},
        {"type": "function", "name": "f"},
    ]
    heard = RealtimeTranscriptionSession()
    assert without_secrets(heard) is heard


def test_secrets_outlast_an_update_of_something_else() -> None:
    named = {"type": "mcp", "server_label": "a", "authorization": "tok-1"}
    session = merge(merge(RealtimeSession(), {"tools": [named]}), {"instructions": "Hi."})
    assert isinstance(session, RealtimeSession)
    assert session.tools == [RealtimeMcpTool("a", authorization="tok-1")]


def test_tools_of_a_response_are_read_as_those_of_a_session() -> None:
    named = [{"name": "f"}, {"type": "mcp", "server_label": "a"}]
    assert read_tools(named, "response.tools") == [RealtimeFunctionTool("f"), RealtimeMcpTool("a")]
    with pytest.raises(WireError) as caught:
        read_tools({"name": "f"}, "response.tools")
    assert caught.value.param == "response.tools"
