"""The audio endpoints' types: what may be asked, and what is answered."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import audio as sdk

from engines.ports import Segment, Word
from pipelines.transcription.captions import Utterance
from voice.wire.audio_api import (
    ServerVad,
    SpeechDelta,
    SpeechDone,
    SpeechUsage,
    TextDelta,
    TranscriptionForm,
    json_answer,
    segment_event,
    speech_body,
    sse,
    suspicion_of,
    text_done,
    text_of,
    timed_words,
    to_json,
    transcription_form,
    verbose_answer,
)
from voice.wire.realtime_errors import WireError

HEARD = [
    Utterance("Hello there.", (Segment("Hello there.", 500, 1_700, -0.2, 0.01, 0.9),), "en", ""),
    Utterance("", (), None, "noise"),
    Utterance("Bye.", (Segment("Bye.", 3_000, 3_400),), "en", "loop, noise"),
]


def spoken(**fields: Any) -> bytes:
    return json.dumps({"model": "tts-1", "voice": "alloy", "input": "hello"} | fields).encode()


# --- speech ---------------------------------------------------------------------------------


def test_what_a_client_must_say_and_what_is_taken_otherwise() -> None:
    body = speech_body(spoken(), 100)
    assert (body.input, body.voice_name, body.response_format) == ("hello", "alloy", "mp3")
    assert (body.speed, body.stream_format, body.instructions) == (1.0, "audio", None)


@pytest.mark.parametrize(
    ("voice", "name"), [({"id": "voice_1"}, "voice_1"), ("", None), (None, None), ("x", "x")]
)
def test_voices(voice: Any, name: str | None) -> None:
    assert speech_body(spoken(voice=voice), 100).voice_name == name


@pytest.mark.parametrize(
    ("fields", "apart"),
    [
        ({"response_format": "srt"}, False),
        ({"response_format": "diarized_json"}, True),
        ({"response_format": "srt", "diarize": "1"}, True),
        ({"response_format": "srt", "diarize": "false"}, False),
        ({"response_format": "vtt", "speakers": "3"}, True),
    ],
)
def test_when_speakers_are_told_apart(fields: Any, apart: bool) -> None:
    assert form(**fields).by_speaker is apart


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"response_format": "wma"}, "invalid_value", "response_format"),
        ({"speed": 0.2}, "invalid_value", "speed"),
        ({"speed": 4.1}, "invalid_value", "speed"),
        ({"speed": "fast"}, "invalid_type", "speed"),
        ({"stream_format": "x"}, "invalid_value", "stream_format"),
        ({"input": ""}, "invalid_value", "input"),
        ({"input": " \n"}, "invalid_value", "input"),
        ({"input": "x" * 101}, "string_above_max_length", "input"),
        ({"input": None}, "invalid_type", "input"),
        ({"voice": {"name": "x"}}, "missing_required_parameter", "voice.id"),
    ],
)
def test_what_is_refused(fields: Any, code: str, param: str) -> None:
    with pytest.raises(WireError) as refused:
        speech_body(spoken(**fields), 100)
    assert (refused.value.code, refused.value.param) == (code, param)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"input": "\xff"}', b"[" * 9_999])
def test_what_is_no_request(data: bytes) -> None:
    with pytest.raises(WireError):
        speech_body(data, 100)


def test_the_formats_that_there_are_are_named() -> None:
    with pytest.raises(WireError, match="supported values are: mp3, opus, aac, flac, wav, pcm"):
        speech_body(b'{"input": "hello", "model": "m", "response_format": "wma"}', 100)
    with pytest.raises(WireError, match="supported values are: json, text, srt, vtt, verbose_json"):
        form(response_format="doc")


def test_a_field_that_is_not_known_is_let_pass() -> None:
    assert speech_body(spoken(new_thing=1), 100).input == "hello"


def test_events_of_speech_are_the_sdks() -> None:
    assert sse(SpeechDelta(b"abc")) == b'data: {"type":"speech.audio.delta","audio":"YWJj"}\n\n'
    done = json.loads(sse(SpeechDone(SpeechUsage(2, 10, 12)))[6:])
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 2, "output_tokens": 10, "total_tokens": 12},
    }


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(
        lambda value: json.dumps({"input": value, "model": value, "voice": value}).encode()
    )
)
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        assert speech_body(data, 100).input
    except WireError as refused:
        assert refused.message


# --- transcriptions -------------------------------------------------------------------------


def form(**fields: str) -> Any:
    return transcription_form([("model", "whisper-1"), *fields.items()])


def test_a_form_of_nothing_but_a_model() -> None:
    plain = form()
    assert (plain.response_format, plain.stream, plain.prompt) == ("json", False, "")
    assert (plain.language, plain.chunking_strategy) == (None, None)


def test_a_forms_text_becomes_what_it_stands_for() -> None:
    full = transcription_form(
        [
            ("model", "x"),
            ("language", "de"),
            ("prompt", "Rolf"),
            ("temperature", "0.5"),
            ("response_format", "verbose_json"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
            ("stream", "True"),
            ("chunking_strategy", '{"type": "server_vad", "silence_duration_ms": 200}'),
            ("include[]", "logprobs"),
        ]
    )
    assert (full.language, full.prompt, full.temperature, full.stream) == ("de", "Rolf", 0.5, True)
    assert full.timestamp_granularities == ("word", "segment")
    assert full.chunking_strategy == ServerVad("server_vad", silence_duration_ms=200)


def test_an_object_may_come_field_by_field() -> None:
    fields = {"type": "server_vad", "threshold": "0.6", "silence_duration_ms": "200"}
    parted = form(**{f"chunking_strategy[{name}]": value for name, value in fields.items()})
    assert parted.chunking_strategy == ServerVad("server_vad", 0.6, silence_duration_ms=200)


def test_a_field_of_an_object_goes_over_what_was_no_object() -> None:
    later = transcription_form(
        [("model", "x"), ("chunking_strategy", "1"), ("chunking_strategy[type]", "server_vad")]
    )
    assert later.chunking_strategy == ServerVad("server_vad")


def test_what_is_empty_is_not_there() -> None:
    assert form(language="", response_format="", chunking_strategy="auto") == form()


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"diarize": "true"}, "unsupported_value", "response_format"),
        ({"speakers": "2", "response_format": "text"}, "unsupported_value", "response_format"),
        ({"speakers": "0", "response_format": "vtt"}, "invalid_value", "speakers"),
        ({"speakers": "two"}, "invalid_type", "speakers"),
        ({"known_speaker_names[]": "ann"}, "unsupported_value", "known_speaker_names"),
        ({"response_format": "doc"}, "invalid_value", "response_format"),
        ({"temperature": "2"}, "invalid_value", "temperature"),
        ({"temperature": "warm"}, "invalid_type", "temperature"),
        ({"stream": "perhaps"}, "invalid_type", "stream"),
        ({"stream": "true", "response_format": "srt"}, "unsupported_value", "stream"),
        ({"timestamp_granularities[]": "word"}, "invalid_value", "timestamp_granularities"),
        ({"timestamp_granularities[]": "hour"}, "invalid_value", "timestamp_granularities[0]"),
        ({"chunking_strategy": "sometimes"}, "invalid_json", None),
        ({"chunking_strategy": "[" * 9_999}, "invalid_json", None),
        (
            {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "high"},
            "invalid_type",
            "chunking_strategy.threshold",
        ),
        ({"chunking_strategy": '{"type":"x"}'}, "invalid_value", "chunking_strategy.type"),
    ],
)
def test_a_form_that_is_refused(fields: Any, code: str, param: str) -> None:
    with pytest.raises(WireError) as refused:
        form(**fields)
    assert (refused.value.code, refused.value.param) == (code, param)


FIELDS = st.sampled_from([*TranscriptionForm.__struct_fields__, "chunking_strategy[type]",
    "chunking_strategy[threshold]", "timestamp_granularities[]", "[", "x[y][z]"])  # fmt: skip
VALUES = st.text(max_size=20) | st.sampled_from(
    ["1e999", "nan", "auto", "{}", "[]", "1", "server_vad", "[" * 9_999]
)


@given(st.lists(st.tuples(FIELDS, VALUES), max_size=12))
def test_any_form_is_taken_or_refused(fields: list[tuple[str, str]]) -> None:
    try:
        assert 0 <= transcription_form(fields).temperature <= 1
    except WireError as refused:
        assert refused.message


def test_a_form_without_a_model() -> None:
    with pytest.raises(WireError) as refused:
        transcription_form([])
    assert (refused.value.code, refused.value.param) == ("missing_required_parameter", "model")


def test_json() -> None:
    answer = json.loads(to_json(json_answer(HEARD, 4_000, form())))
    assert answer == {
        "text": "Hello there. Bye.",
        "usage": {"type": "duration", "seconds": 4.0},
        "languages": [{"code": "en"}],
        "suspicion": "noise, loop",
    }
    sdk.Transcription.model_validate(answer)
    assert "languages" not in json.loads(to_json(json_answer([], 4_000, form())))


def test_verbose_json() -> None:
    asked = transcription_form(
        [
            ("model", "x"),
            ("response_format", "verbose_json"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
        ]
    )
    answer = json.loads(to_json(verbose_answer(HEARD, 4_000, asked)))
    parsed = sdk.TranscriptionVerbose.model_validate(answer)
    assert (parsed.language, parsed.duration, parsed.text) == ("en", 4.0, "Hello there. Bye.")
    first, second = parsed.segments or []
    assert (first.id, first.start, first.end, first.avg_logprob) == (0, 0.5, 1.7, -0.2)
    assert (second.id, second.start, second.avg_logprob, second.tokens) == (1, 3.0, 0.0, [])
    assert [word.word for word in parsed.words or []] == ["Hello", "there.", "Bye."]
    assert (answer["segments"][1]["suspicion"], "suspicion" in answer["segments"][0]) == (
        "loop, noise",
        False,
    )


def test_only_what_was_asked_for_is_there() -> None:
    segments = json.loads(to_json(verbose_answer(HEARD, 1, form(response_format="verbose_json"))))
    words = json.loads(
        to_json(
            verbose_answer(
                HEARD,
                1,
                form(**{"response_format": "verbose_json", "timestamp_granularities[]": "word"}),
            )
        )
    )
    assert ("words" in segments, "segments" in words) == (False, False)
    assert len(segments["segments"]), len(words["words"]) == (2, 3)


def test_words_have_their_own_times_where_they_are_known() -> None:
    own = (Word("Yes,", 40, 200, 0.9), Word("yes.", 900, 1_000, 0.8))
    heard = [Utterance("Yes, yes.", (Segment("Yes, yes.", 0, 1_000, words=own),), "en", "")]
    assert [(word.start, word.end) for word in timed_words(heard)] == [(0.04, 0.2), (0.9, 1.0)]


def test_nothing_was_said() -> None:
    answer = json.loads(to_json(verbose_answer([], 1_000, form(response_format="verbose_json"))))
    assert (answer["text"], answer["segments"], answer["language"]) == ("", [], "")
    assert (text_of([]), suspicion_of([])) == ("", "")


def test_events_of_a_transcription_are_the_sdks() -> None:
    delta = json.loads(sse(TextDelta(" more"))[6:])
    done = json.loads(sse(text_done(HEARD, 1_500))[6:])
    segment = json.loads(sse(segment_event(3, HEARD[0].segments[0]))[6:])
    sdk.TranscriptionTextDeltaEvent.model_validate(delta)
    sdk.TranscriptionTextDoneEvent.model_validate(done)
    sdk.TranscriptionTextSegmentEvent.model_validate(segment)
    words = len(text_of(HEARD).split())
    assert (done["type"], done["text"]) == ("transcript.text.done", text_of(HEARD))
    assert done["usage"] == {
        "type": "tokens", "input_tokens": 15, "output_tokens": words, "total_tokens": 15 + words,
    }  # fmt: skip
    assert (segment["id"], segment["start"], segment["end"]) == ("seg_3", 0.5, 1.7)
