"""Exotel's wire."""

import json
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    EXOTEL_START,
    TRANSCRIPTS,
    b64,
    begun,
    exotel_media,
    samples_in,
    take_all,
)
from voice.wire.phone import DigitPressed, LegEnded, LegStarted, MarkPlayed, PhoneWireError
from voice.wire.phone_streams import ExotelCodec


def start(encoding: str, rate: str) -> str:
    told: Any = json.loads(json.dumps(EXOTEL_START))
    told["start"]["media_format"] = {"encoding": encoding, "sample_rate": rate}
    return json.dumps(told)


def payload_of(message: str | bytes) -> str:
    return str(json.loads(message)["media"]["payload"])


def test_the_start_tells_the_call_its_numbers_and_parameters() -> None:
    (started,) = take_all(ExotelCodec(), TRANSCRIPTS["exotel"][:2])
    assert started == LegStarted("CA9", 8_000, "+919876543210", "+918047491899", {"key1": "value1"})


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_audio_goes_out_in_whole_multiples_of_320_bytes(rate: int) -> None:
    codec = begun("exotel", start("audio/x-raw", str(rate)))
    assert codec.rate == rate
    said = codec.speak(Pcm.silence(250, rate))
    assert len(said) == 2
    size = rate // 10 * 2
    assert size % 320 == 0
    assert {payload_of(message) for message in said} == {b64(bytes(size))}
    rest, mark = codec.mark("e1-1")
    assert payload_of(rest) == b64(bytes(size))
    assert json.loads(mark) == {"event": "mark", "stream_sid": "MZ9", "mark": {"name": "e1-1"}}


def test_linear_audio_is_little_endian() -> None:
    assert samples_in(list(begun("exotel").take(exotel_media(b"\x34\x12")))) == [0x1234]


def test_mulaw_is_taken_where_an_applet_sends_it() -> None:
    codec = begun("exotel", start("audio/x-mulaw", "8000"))
    (said,) = codec.speak(Pcm(np.zeros(1_600, np.int16), 8_000))
    assert payload_of(said) == b64(b"\xff" * 1_600)


def test_a_clear_forgets_what_was_kept() -> None:
    codec = begun("exotel")
    codec.speak(Pcm.silence(50, 8_000))
    assert [json.loads(m) for m in codec.clear()] == [{"event": "clear", "stream_sid": "MZ9"}]
    assert len(codec.mark("m")) == 1


@pytest.mark.parametrize(
    ("encoding", "rate"),
    [("audio/opus", "8000"), ("audio/x-raw", "44100"), ("audio/x-mulaw", "16000")],
)
def test_another_format_is_refused_with_what_to_set(encoding: str, rate: str) -> None:
    with pytest.raises(PhoneWireError, match="sample-rate=8000"):
        ExotelCodec().take(start(encoding, rate))


def test_a_start_may_leave_the_format_out() -> None:
    told: Any = json.loads(json.dumps(EXOTEL_START))
    del told["start"]["media_format"]
    (started,) = ExotelCodec().take(json.dumps(told))
    assert isinstance(started, LegStarted)
    assert started.rate == 8_000


def test_one_stream_has_one_start_and_media_comes_after_it() -> None:
    with pytest.raises(PhoneWireError, match="one start"):
        begun("exotel").take(json.dumps(EXOTEL_START))
    with pytest.raises(PhoneWireError, match="'media' where 'start'"):
        ExotelCodec().take(exotel_media())


def test_a_stop_is_an_end() -> None:
    codec = begun("exotel")
    (ended,) = codec.take(TRANSCRIPTS["exotel"][-1])
    assert isinstance(ended, LegEnded)
    assert list(codec.take(exotel_media())) == []
    assert list(codec.mark("m")) == []


def test_empty_audio_and_events_of_the_future_are_passed_over() -> None:
    codec = begun("exotel")
    assert list(codec.take(exotel_media(b""))) == []
    assert list(codec.take('{"event": "weather"}')) == []
    assert list(codec.press("1")) == []
    assert list(codec.hang_up()) == []


def test_a_call_as_it_is_documented() -> None:
    codec = ExotelCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["exotel"])
    assert DigitPressed("1") in events
    assert MarkPlayed("e1-1") in events
