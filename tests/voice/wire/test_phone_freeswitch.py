"""FreeSWITCH's wire, where nothing names the rate."""

import json

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    L16_20_MS,
    TRANSCRIPTS,
    b64,
    begun,
    samples_in,
    take_all,
)
from voice.wire.phone import AudioCame, DigitPressed, LegStarted, PhoneWireError
from voice.wire.phone_freeswitch import FreeSwitchCodec


def test_the_metadata_names_the_call_and_the_rate() -> None:
    (started,) = FreeSwitchCodec().take(TRANSCRIPTS["freeswitch"][0])
    assert isinstance(started, LegStarted)
    assert (started.call, started.rate) == ("9a1c", 16_000)
    assert (started.caller, started.called) == ("1000", "2000")


def test_without_metadata_the_call_begins_with_audio_at_8_khz() -> None:
    codec = FreeSwitchCodec()
    started, audio = codec.take(L16_20_MS)
    assert started == LegStarted("", 8_000)
    assert isinstance(audio, AudioCame)
    assert codec.rate == 8_000


@pytest.mark.parametrize("metadata", ["hello", "", "{", "[1]", "\ud800"])
def test_metadata_may_be_any_text(metadata: str) -> None:
    (started,) = FreeSwitchCodec().take(metadata)
    assert started == LegStarted("", 8_000, parameters={"metadata": metadata})


def test_another_rate_is_refused_with_what_to_set() -> None:
    with pytest.raises(PhoneWireError, match="8000 for 8k"):
        FreeSwitchCodec().take('{"sampleRate": 44100}')


def test_audio_goes_both_ways_little_endian() -> None:
    codec = begun("freeswitch")
    assert samples_in(list(codec.take(b"\x34\x12"))) == [0x1234]
    (said,) = codec.speak(Pcm(np.array([0x1234], np.int16), 16_000))
    assert json.loads(said) == {
        "type": "streamAudio",
        "data": {"audioDataType": "raw", "sampleRate": 16_000, "audioData": b64(b"\x34\x12")},
    }


def test_a_script_is_told_to_stop_and_to_hang_up() -> None:
    codec = begun("freeswitch")
    assert [json.loads(m) for m in [*codec.clear(), *codec.hang_up()]] == [
        {"type": "killAudio"},
        {"type": "disconnect"},
    ]
    assert list(FreeSwitchCodec().hang_up()) == []


@pytest.mark.parametrize("text", ["hello", '{"event": "dtmf", "digit": 1}', '{"event": "x"}'])
def test_other_texts_are_passed_over(text: str) -> None:
    assert list(begun("freeswitch").take(text)) == []


def test_no_audio_is_none() -> None:
    assert list(begun("freeswitch").take(b"")) == []


def test_a_call_as_it_is_documented() -> None:
    codec = FreeSwitchCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["freeswitch"])
    assert DigitPressed("1") in events
    assert list(codec.mark("m")) == []
