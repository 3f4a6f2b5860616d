"""Plivo's wire."""

import json
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    PLIVO_START,
    TRANSCRIPTS,
    b64,
    begun,
    plivo_media,
    samples_in,
    take_all,
)
from voice.wire.phone import DigitPressed, LegEnded, LegStarted, MarkPlayed, PhoneWireError
from voice.wire.phone_plivo import PlivoCodec


def start(encoding: str, rate: int, headers: str = "") -> str:
    told: Any = json.loads(json.dumps(PLIVO_START))
    told["start"]["mediaFormat"] = {"encoding": encoding, "sampleRate": rate}
    told["extra_headers"] = headers
    return json.dumps(told)


def test_the_start_tells_the_call_and_its_headers() -> None:
    (started,) = PlivoCodec().take(TRANSCRIPTS["plivo"][0])
    assert started == LegStarted(
        "12345678-1234", 8_000, "+15550100", "", {"userId": "12345", "from": "+15550100"}
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("{a=1; b=x y}", {"a": "1", "b": "x y"}),
        ("{}", {}),
        ("", {}),
        ("nothing", {}),
    ],
)
def test_headers_come_in_more_than_one_spelling(written: str, read: dict[str, str]) -> None:
    (started,) = PlivoCodec().take(start("audio/x-mulaw", 8_000, written))
    assert isinstance(started, LegStarted)
    assert started.parameters == read


@pytest.mark.parametrize("rate", [8_000, 16_000])
def test_linear_audio_is_little_endian(rate: int) -> None:
    codec = begun("plivo", start("audio/x-l16", rate))
    assert codec.rate == rate
    assert samples_in(list(codec.take(plivo_media(b"\x34\x12")))) == [0x1234]
    (said,) = codec.speak(Pcm(np.array([0x1234], np.int16), rate))
    assert json.loads(said) == {
        "event": "playAudio",
        "media": {"contentType": "audio/x-l16", "sampleRate": rate, "payload": b64(b"\x34\x12")},
    }


def test_checkpoints_clears_and_keys() -> None:
    codec = begun("plivo")
    said = [*codec.mark("e1-1"), *codec.clear(), *codec.press("12#x")]
    assert [json.loads(m) for m in said] == [
        {"event": "checkpoint", "streamId": "87654321-4321", "name": "e1-1"},
        {"event": "clearAudio", "streamId": "87654321-4321"},
        {"event": "sendDTMF", "dtmf": "12#"},
    ]
    assert list(codec.press("x")) == []
    assert list(codec.hang_up()) == []


def test_a_checkpoint_that_was_played_has_a_name() -> None:
    with pytest.raises(PhoneWireError, match="playedStream"):
        begun("plivo").take('{"event": "playedStream"}')


@pytest.mark.parametrize(("encoding", "rate"), [("audio/x-mulaw", 16_000), ("audio/opus", 8_000)])
def test_another_format_is_refused_with_what_to_set(encoding: str, rate: int) -> None:
    with pytest.raises(PhoneWireError, match='contentType="audio/x-mulaw;rate=8000"'):
        PlivoCodec().take(start(encoding, rate))


def test_one_stream_has_one_start_and_media_comes_after_it() -> None:
    with pytest.raises(PhoneWireError, match="one start"):
        begun("plivo").take(json.dumps(PLIVO_START))
    with pytest.raises(PhoneWireError, match="'media' where 'start'"):
        PlivoCodec().take(plivo_media())


def test_a_stop_is_an_end() -> None:
    codec = begun("plivo")
    (ended,) = codec.take('{"event": "stop"}')
    assert isinstance(ended, LegEnded)
    assert list(codec.take(plivo_media())) == []
    assert list(codec.press("1")) == []


def test_our_own_side_and_empty_audio_are_not_heard() -> None:
    codec = begun("plivo")
    assert list(codec.take(plivo_media().replace('"inbound"', '"outbound"'))) == []
    assert list(codec.take(plivo_media(b""))) == []


def test_a_call_as_it_is_documented() -> None:
    codec = PlivoCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["plivo"])
    assert DigitPressed("1") in events
    assert MarkPlayed("e1-1") in events
