"""What a session asks for, and what a call makes of it."""

import logging
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engines.ports import Tool
from pipelines.conversation.endpoint import EndpointSettings
from pipelines.conversation.ports import CallSettings
from pipelines.conversation.settings import TurnSettings
from voice.doors.realtime_settings import call_settings, first_session, response_settings
from voice.wire.realtime_objects import RealtimeResponseCreateParams
from voice.wire.realtime_session import (
    RealtimeSession,
    RealtimeTranscriptionSession,
    Session,
    merge,
)

BASE = CallSettings(
    turns=TurnSettings(endpoint=EndpointSettings(threshold=0.4, silence_ms=320, ahead_ms=96)),
    instructions="Be kind.",
    voice="mia",
    language="en",
    max_tokens=99,
    temperature=0.7,
)


def first(base: CallSettings = BASE, **query: str) -> Session:
    return first_session({name: [value] for name, value in query.items()}, base, "ours", "sess_1")


def settings_after(base: CallSettings = BASE, **update: Any) -> CallSettings:
    return call_settings(merge(first(base), {"type": "realtime", **update}), base)


def test_a_first_session_changes_nothing() -> None:
    assert call_settings(first(), BASE) == BASE
    for profile in ("normal", "patient", "digits"):
        semantic = replace(BASE, turns=replace(BASE.turns, profile=profile))
        assert call_settings(first(semantic), semantic) == semantic
    manual = replace(BASE, turns=replace(BASE.turns, detect=False, create_response=False))
    assert call_settings(first(manual), manual) == manual


def test_a_client_gets_our_model_under_the_name_it_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert first(model="ours").model == first().model == "ours"
    assert caplog.text == ""
    for _ in range(3):
        assert first(model="gpt\nunheard of").model == "gpt\nunheard of"
    assert [record.message for record in caplog.records] == [
        r"clients that ask for model 'gpt\nunheard of' get ours"
    ]


def test_a_session_shows_what_is_in_force() -> None:
    session = first()
    assert isinstance(session, RealtimeSession)
    assert (session.id, session.instructions, session.max_output_tokens) == (
        "sess_1",
        "Be kind.",
        99,
    )
    detection = session.audio.input.turn_detection
    assert (detection.threshold, detection.silence_duration_ms) == (0.4, 320)
    assert session.audio.output.voice == "mia"
    assert session.audio.input.transcription.language == "en"


def test_a_transcription_session_is_not_answered() -> None:
    session = first(intent="transcription")
    assert isinstance(session, RealtimeTranscriptionSession)
    settings = call_settings(session, BASE)
    assert not settings.turns.create_response
    assert settings.turns.endpoint == BASE.turns.endpoint


def test_server_vad_sets_what_it_names_and_keeps_the_house_rules() -> None:
    detection = {
        "type": "server_vad",
        "threshold": 0.6,
        "silence_duration_ms": 700,
        "prefix_padding_ms": 200,
        "create_response": False,
        "interrupt_response": False,
    }
    turns = settings_after(audio={"input": {"turn_detection": detection}}).turns
    assert (turns.endpoint.threshold, turns.endpoint.silence_ms) == (0.6, 700)
    assert (turns.endpoint.prefix_ms, turns.endpoint.ahead_ms) == (200, 96)
    assert (turns.create_response, turns.interrupt_response) == (False, False)


@pytest.mark.parametrize(
    ("detection", "profile"),
    [
        ({"eagerness": "high"}, "normal"),
        ({"eagerness": "medium"}, "normal"),
        ({"eagerness": "auto"}, "normal"),
        ({"eagerness": "low"}, "patient"),
        ({"eagerness": "low", "profile": "digits"}, "digits"),
    ],
)
def test_semantic_vad_waits_by_its_eagerness(detection: dict[str, str], profile: str) -> None:
    detection = {"type": "semantic_vad", **detection}
    turns = settings_after(audio={"input": {"turn_detection": detection}}).turns
    assert turns.profile == profile
    assert turns.endpoint.threshold == 0.4


def test_turns_by_hand_are_not_answered_unasked() -> None:
    turns = settings_after(audio={"input": {"turn_detection": None}}).turns
    assert (turns.detect, turns.create_response) == (False, False)


def test_the_rest_of_a_session() -> None:
    tool = {"type": "function", "name": "time"}
    settings = settings_after(
        instructions="Be rude.",
        output_modalities=["text"],
        tools=[tool, tool | {"description": "Now.", "parameters": {"type": "object"}}],
        tool_choice={"type": "function", "name": "time"},
        max_output_tokens="inf",
        audio={
            "input": {"transcription": {"language": "de", "prompt": "Zürich"}},
            "output": {"voice": {"id": "leo"}, "speed": 1.2},
        },
    )
    assert settings.instructions == "Be rude."
    assert settings.tools == (Tool("time"), Tool("time", "Now.", {"type": "object"}))
    assert (settings.tool_choice, settings.max_tokens) == ("time", None)
    assert (settings.language, settings.asr_prompt) == ("de", "Zürich")
    assert (settings.voice, settings.speed, settings.spoken) == ("leo", 1.2, False)
    assert settings.temperature == 0.7


def response(**params: Any) -> CallSettings:
    return response_settings(BASE, msgspec.convert(params, RealtimeResponseCreateParams))


def test_a_response_keeps_to_its_session_where_it_says_nothing() -> None:
    assert response_settings(BASE, None) is BASE
    assert response() == BASE
    assert response(metadata={"a": "b"}, audio={"output": {}}) == BASE


def test_a_response_may_differ_from_its_session() -> None:
    settings = response(
        instructions="",
        output_modalities=["text"],
        tools=[],
        tool_choice="none",
        max_output_tokens="inf",
        audio={"output": {"voice": "leo"}},
    )
    assert settings == replace(
        BASE,
        instructions="",
        spoken=False,
        tools=(),
        tool_choice="none",
        max_tokens=None,
        voice="leo",
    )


IDLE = replace(BASE, turns=replace(BASE.turns, idle_ms=5_000, hang_up_ms=2_000))


def test_nothing_is_said_of_itself_where_nobody_listens() -> None:
    turns = call_settings(first(IDLE, intent="transcription"), IDLE).turns
    assert (turns.idle_ms, turns.hang_up_ms, turns.filler_ms) == (None, None, None)
    written = settings_after(IDLE, output_modalities=["text"]).turns
    assert written.filler_ms is None
    assert settings_after(IDLE).turns.filler_ms == IDLE.turns.filler_ms


def test_calls_may_be_had_one_at_a_time() -> None:
    assert settings_after().parallel_tools
    settings = settings_after(parallel_tool_calls=False)
    assert not settings.parallel_tools
    params = RealtimeResponseCreateParams(parallel_tool_calls=True)
    assert response_settings(settings, params).parallel_tools


def test_a_key_that_was_made_for_a_session_begins_it() -> None:
    granted = merge(first(), {"type": "realtime", "instructions": "Be a pirate.", "model": "x"})
    begun = first_session({"model": ["gpt"]}, BASE, "ours", "sess_2", granted)
    assert isinstance(begun, RealtimeSession)
    assert (begun.id, begun.model, begun.instructions) == ("sess_2", "x", "Be a pirate.")
