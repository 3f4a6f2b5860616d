"""Asterisk's wire over a WebSocket, in JSON and in plain text."""

import json

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import ASTERISK_START, TRANSCRIPTS, begun, samples_in
from voice.wire.phone import (
    DigitPressed,
    FlowChanged,
    LegStarted,
    MarkPlayed,
    PhoneWireError,
)
from voice.wire.phone_asterisk import AsteriskCodec

PLAIN = (
    "MEDIA_START connection_id:c1 channel:WebSocket/c1/0x7f channel_id:pbx-1"
    " format:slin16 optimal_frame_size:640 ptime:20"
)


def start(**changes: object) -> str:
    return json.dumps({**ASTERISK_START, **changes})


def test_the_start_tells_the_call_and_its_variables() -> None:
    (started,) = AsteriskCodec().take(TRANSCRIPTS["asterisk"][0])
    assert started == LegStarted("pbx-1", 8_000, "+15550100", "", {"from": "+15550100"})


@pytest.mark.parametrize(
    ("spoken", "size", "rate", "frame_ms"),
    [
        ("ulaw", 160, 8_000, 20),
        ("alaw", 160, 8_000, 20),
        ("slin", 320, 8_000, 20),
        ("slin12", 480, 12_000, 20),
        ("slin16", 640, 16_000, 20),
        ("slin24", 960, 24_000, 20),
        ("slin44", 1_764, 44_100, 20),
        ("slin48", 1_920, 48_000, 20),
        ("ulaw", 240, 8_000, 30),
    ],
)
def test_the_format_is_the_channels(spoken: str, size: int, rate: int, frame_ms: int) -> None:
    codec = begun("asterisk", start(format=spoken, optimal_frame_size=size))
    assert (codec.rate, codec.frame_ms) == (rate, frame_ms)
    said = codec.speak(Pcm.silence(100, rate))
    assert {len(message) for message in said} == {size}


def test_only_whole_frames_go_out_since_asterisk_drops_the_rest() -> None:
    codec = begun("asterisk")
    assert list(codec.speak(Pcm(np.zeros(100, np.int16), 8_000))) == []
    assert list(codec.speak(Pcm(np.zeros(100, np.int16), 8_000))) == [b"\xff" * 160]
    rest, mark = codec.mark("e1-1")
    assert rest == b"\xff" * 160
    assert json.loads(mark) == {"command": "MARK_MEDIA", "correlation_id": "e1-1"}


def test_a_flush_forgets_what_was_kept_and_a_hang_up_ends() -> None:
    codec = begun("asterisk")
    codec.speak(Pcm(np.zeros(100, np.int16), 8_000))
    assert [json.loads(m) for m in [*codec.clear(), *codec.hang_up()]] == [
        {"command": "FLUSH_MEDIA"},
        {"command": "HANGUP"},
    ]
    assert len(codec.mark("m")) == 1
    assert list(AsteriskCodec().hang_up()) == []


def test_a_leg_in_plain_text_is_answered_in_plain_text() -> None:
    codec = begun("asterisk", PLAIN)
    assert codec.rate == 16_000
    said = [*codec.mark("e1-1"), *codec.clear(), *codec.hang_up()]
    assert said == ["MARK_MEDIA e1-1", "FLUSH_MEDIA", "HANGUP"]
    assert list(codec.take("MEDIA_MARK_PROCESSED e1-1")) == [MarkPlayed("e1-1")]
    assert list(codec.take("DTMF_END digit:# channel_id:pbx-1")) == [DigitPressed("#")]
    assert list(codec.take("MEDIA_XOFF")) == [FlowChanged(open=False)]
    assert list(codec.take("QUEUE_DRAINED")) == []


def test_flow_is_told() -> None:
    codec = begun("asterisk")
    assert list(codec.take(TRANSCRIPTS["asterisk"][4])) == [FlowChanged(open=False)]
    assert list(codec.take(TRANSCRIPTS["asterisk"][5])) == [FlowChanged(open=True)]


def test_a_mark_too_long_for_a_command_is_not_set() -> None:
    codec = begun("asterisk")
    assert list(codec.mark("m" * 80)) != []
    assert list(codec.mark("m" * 100)) == []


@pytest.mark.parametrize("spoken", ["opus", "g722", "slin192"])
def test_another_format_is_refused_with_what_to_set(spoken: str) -> None:
    with pytest.raises(PhoneWireError, match=r"c\(slin16\)"):
        AsteriskCodec().take(start(format=spoken))


@pytest.mark.parametrize("size", [0, -160, 10**6])
def test_frames_of_no_or_any_size_are_refused(size: int) -> None:
    with pytest.raises(PhoneWireError, match="passthrough"):
        AsteriskCodec().take(start(optimal_frame_size=size))


@pytest.mark.parametrize("size", ["", "x", "9" * 5_000, "321"])
def test_plain_text_that_lies_about_sizes_is_refused(size: str) -> None:
    with pytest.raises(PhoneWireError, match="passthrough"):
        AsteriskCodec().take(PLAIN.replace("640", size))


def test_a_start_of_old_without_its_format_is_refused() -> None:
    with pytest.raises(PhoneWireError, match="MEDIA_START"):
        AsteriskCodec().take("MEDIA_START connection_id:c1 optimal_frame_size:160")


@pytest.mark.parametrize("message", [b"\0" * 160, "MEDIA_XON", '{"event": "MEDIA_XON"}'])
def test_the_start_comes_first(message: str | bytes) -> None:
    with pytest.raises(PhoneWireError, match="'MEDIA_START' should have come"):
        AsteriskCodec().take(message)


def test_the_start_comes_once() -> None:
    with pytest.raises(PhoneWireError, match="where 'audio'"):
        begun("asterisk").take(start())


def test_no_audio_is_none_and_other_events_are_passed_over() -> None:
    codec = begun("asterisk")
    assert samples_in(list(codec.take(b""))) == []
    assert list(codec.take('{"event": "ERROR", "error_text": "x"}')) == []
    assert list(codec.press("1")) == []
