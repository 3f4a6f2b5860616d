"""Vonage's wire."""

import json

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    TRANSCRIPTS,
    begun,
    samples_in,
    take_all,
)
from voice.wire.phone import DigitPressed, LegStarted, MarkPlayed, PhoneWireError
from voice.wire.phone_vonage import VonageCodec


def connected(content_type: str) -> str:
    return json.dumps({"event": "websocket:connected", "content-type": content_type})


def test_the_greeting_tells_the_format_and_the_headers() -> None:
    (started,) = VonageCodec().take(TRANSCRIPTS["vonage"][0])
    assert started == LegStarted(
        "aaaa-bbbb",
        16_000,
        "15550100",
        "",
        {"uuid": "aaaa-bbbb", "from": "15550100", "prop1": "value1"},
    )


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_audio_goes_both_ways_little_endian_in_frames_of_20_ms(rate: int) -> None:
    codec = begun("vonage", connected(f"audio/l16;rate={rate}"))
    assert codec.rate == rate
    assert samples_in(list(codec.take(b"\x34\x12"))) == [0x1234]
    said = codec.speak(Pcm(np.full(rate // 20, 0x1234, np.int16), rate))
    assert [len(message) for message in said] == [rate // 50 * 2] * 2
    rest, notify = codec.mark("e1-1")
    assert rest == b"\x34\x12" * (rate // 100) + bytes(rate // 100 * 2)
    assert json.loads(notify) == {"action": "notify", "payload": {"name": "e1-1"}}


def test_a_clear_forgets_what_was_kept() -> None:
    codec = begun("vonage")
    codec.speak(Pcm.silence(10, 16_000))
    assert [json.loads(m) for m in codec.clear()] == [{"action": "clear"}]
    assert len(codec.mark("m")) == 1


@pytest.mark.parametrize("content_type", ["audio/l16;rate=44100", "audio/x-mulaw;rate=8000", ""])
def test_another_format_is_refused_with_what_to_set(content_type: str) -> None:
    with pytest.raises(PhoneWireError, match="audio/l16;rate=16000"):
        VonageCodec().take(connected(content_type))


@pytest.mark.parametrize("message", [b"\0\0", '{"event": "websocket:dtmf", "digit": "1"}'])
def test_the_greeting_comes_first(message: str | bytes) -> None:
    with pytest.raises(PhoneWireError, match="websocket:connected"):
        VonageCodec().take(message)


def test_the_greeting_comes_once() -> None:
    with pytest.raises(PhoneWireError, match="where 'audio'"):
        begun("vonage").take(TRANSCRIPTS["vonage"][0])


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(PhoneWireError, match="even number"):
        begun("vonage").take(b"\0\0\0")


def test_notices_that_are_not_ours_are_passed_over() -> None:
    codec = begun("vonage")
    assert list(codec.take('{"event": "websocket:notify", "payload": {"other": 1}}')) == []
    assert list(codec.take(b"")) == []
    assert list(codec.press("1")) == []
    assert list(codec.hang_up()) == []


def test_a_call_as_it_is_documented() -> None:
    codec = VonageCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["vonage"])
    assert DigitPressed("1") in events
    assert MarkPlayed("e1-1") in events
