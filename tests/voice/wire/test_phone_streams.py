"""Twilio's wire."""

import json

import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    MULAW_20_MS,
    TRANSCRIPTS,
    TWILIO_START,
    b64,
    begun,
    take_all,
    twilio_media,
)
from voice.wire import g711
from voice.wire.phone import (
    AudioCame,
    DigitPressed,
    LegEnded,
    LegStarted,
    MarkPlayed,
    PhoneWireError,
)
from voice.wire.phone_streams import TwilioCodec


def test_the_start_tells_the_call_and_what_was_passed_on() -> None:
    (started,) = take_all(TwilioCodec(), TRANSCRIPTS["twilio"][:2])
    assert started == LegStarted(
        "CA1",
        8_000,
        "+15550100",
        "+15550199",
        {"from": "+15550100", "to": "+15550199", "FirstName": "Jane"},
    )


def test_audio_goes_both_ways_as_mulaw() -> None:
    codec = begun("twilio")
    (heard,) = codec.take(twilio_media(1))
    assert isinstance(heard, AudioCame)
    assert heard.pcm.samples.tolist() == g711.decode(MULAW_20_MS, "mulaw").tolist()
    (said,) = codec.speak(heard.pcm)
    assert json.loads(said) == {
        "event": "media",
        "streamSid": "MZ1",
        "media": {"payload": b64(g711.encode(heard.pcm.samples, "mulaw"))},
    }


def test_marks_and_clear_name_the_stream() -> None:
    codec = begun("twilio")
    assert [json.loads(m) for m in [*codec.mark("e1-1"), *codec.clear()]] == [
        {"event": "mark", "streamSid": "MZ1", "mark": {"name": "e1-1"}},
        {"event": "clear", "streamSid": "MZ1"},
    ]


def test_what_twilio_has_no_words_for_is_nothing() -> None:
    codec = begun("twilio")
    assert list(codec.press("1")) == []
    assert list(codec.hang_up()) == []


def test_what_we_said_ourselves_is_not_heard() -> None:
    assert list(begun("twilio").take(twilio_media(1, track="outbound"))) == []


def test_after_the_stop_nothing_is_heard_or_said() -> None:
    codec = begun("twilio")
    (ended,) = codec.take('{"event": "stop", "streamSid": "MZ1"}')
    assert isinstance(ended, LegEnded)
    assert list(codec.take(twilio_media(1))) == []
    assert list(codec.speak(Pcm.silence(20, 8_000))) == []
    assert list(codec.clear()) == []


def test_a_stop_before_the_start_is_an_end() -> None:
    (ended,) = TwilioCodec().take('{"event": "stop"}')
    assert isinstance(ended, LegEnded)


def test_events_of_the_future_are_passed_over() -> None:
    assert list(begun("twilio").take('{"event": "weather", "sequenceNumber": "9"}')) == []


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (twilio_media(1), "'media' where 'start'"),
        ('{"event": "start"}', "without what belongs to it"),
        ("[]", "no message"),
        (b"\0" * 160, "binary"),
    ],
)
def test_a_call_that_begins_otherwise_is_refused(message: str | bytes, says: str) -> None:
    with pytest.raises(PhoneWireError, match=says):
        TwilioCodec().take(message)


@pytest.mark.parametrize(
    "media",
    [
        {"encoding": "audio/x-alaw", "sampleRate": 8000},
        {"encoding": "audio/x-mulaw", "sampleRate": 16000},
        {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 2},
    ],
)
def test_another_format_is_refused(media: dict[str, object]) -> None:
    start = {**TWILIO_START, "start": {**TWILIO_START["start"], "mediaFormat": media}}  # type: ignore[dict-item]
    with pytest.raises(PhoneWireError, match="audio/x-mulaw at 8000 Hz"):
        TwilioCodec().take(json.dumps(start))


def test_one_stream_has_one_start() -> None:
    with pytest.raises(PhoneWireError, match="one start"):
        begun("twilio").take(json.dumps(TWILIO_START))


def test_what_is_not_base64_is_refused() -> None:
    with pytest.raises(PhoneWireError, match="base64"):
        begun("twilio").take('{"event": "media", "media": {"payload": "!!"}}')


def test_an_empty_payload_is_no_audio() -> None:
    assert list(begun("twilio").take('{"event": "media", "media": {"payload": ""}}')) == []


def test_a_call_as_it_is_documented() -> None:
    codec = TwilioCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["twilio"])
    assert DigitPressed("1") in events
    assert MarkPlayed("e1-1") in events
