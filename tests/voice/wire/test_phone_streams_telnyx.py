"""Telnyx's wire: the order of media, and formats that the start names only in part."""

import json
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    TELNYX_START,
    TRANSCRIPTS,
    b64,
    begun,
    samples_in,
    take_all,
    telnyx_media,
)
from voice.wire import g711
from voice.wire.phone import DigitPressed, LegEnded, LegStarted, MarkPlayed, PhoneWireError
from voice.wire.phone_order import MOST_HELD
from voice.wire.phone_streams import StreamCodec, TelnyxCodec


def start(encoding: str, rate: int, **parameters: str) -> str:
    told: Any = json.loads(json.dumps(TELNYX_START))
    told["start"]["media_format"] = {"encoding": encoding, "sample_rate": rate, "channels": 1}
    told["start"]["custom_parameters"] = parameters
    return json.dumps(told)


def payload_of(message: str | bytes) -> str:
    return str(json.loads(message)["media"]["payload"])


def media_of(chunk: int) -> str:
    """Audio that tells which one it is."""
    return telnyx_media(chunk, g711.encode(np.full(160, 1_000 * chunk, np.int16), "mulaw"))


def heard(codec: StreamCodec, chunks: list[int]) -> list[int]:
    events = [event for n in chunks for event in codec.take(media_of(n))]
    return [round(sample / 1_000) for sample in samples_in(events)[::160]]


def test_the_start_tells_the_call_and_its_numbers() -> None:
    (started,) = take_all(TelnyxCodec(), TRANSCRIPTS["telnyx"][:2])
    assert started == LegStarted(
        "v2:T02", 8_000, "+13122010094", "+13122123456", {"customer_id": "customer_123"}
    )


def test_media_out_of_order_is_put_right() -> None:
    codec = begun("telnyx")
    assert isinstance(codec, StreamCodec)
    assert heard(codec, [1, 3, 2, 5, 4, 6]) == [1, 2, 3, 4, 5, 6]


def test_media_that_is_lost_is_silence() -> None:
    codec = begun("telnyx")
    assert isinstance(codec, StreamCodec)
    assert heard(codec, [1, *range(3, 4 + MOST_HELD)]) == [1, 0, *range(3, 4 + MOST_HELD)]


def test_what_waits_for_a_lost_one_is_heard_when_the_stream_stops() -> None:
    codec = begun("telnyx")
    assert isinstance(codec, StreamCodec)
    assert heard(codec, [1, 3]) == [1]
    *held, ended = codec.take('{"event": "stop", "stream_id": "x"}')
    assert len(samples_in(held)) == 320
    assert isinstance(ended, LegEnded)
    assert list(codec.take(media_of(4))) == []


def test_media_without_its_number_is_refused() -> None:
    with pytest.raises(PhoneWireError, match="chunk"):
        begun("telnyx").take('{"event": "media", "media": {"payload": "AAAA"}}')


@pytest.mark.parametrize(
    ("encoding", "rate", "law"),
    [("PCMU", 8_000, "mulaw"), ("PCMA", 8_000, "alaw"), ("audio/x-mulaw", 8_000, "mulaw")],
)
def test_g711_of_either_law(encoding: str, rate: int, law: g711.Law) -> None:
    codec = begun("telnyx", start(encoding, rate))
    pcm = Pcm(np.arange(160, dtype=np.int16) * 100, rate)
    (said,) = codec.speak(pcm)
    assert payload_of(said) == b64(g711.encode(pcm.samples, law))


def spoken(dtype: str) -> bytes:
    """20 ms of a voice's sound at 16 kHz."""
    at = np.arange(320) / 16_000
    voice = 900 * np.sin(2 * np.pi * 140 * at) + 200 * np.sin(2 * np.pi * 1_900 * at)
    return voice.astype(dtype).tobytes()


def test_linear_audio_is_big_endian_as_in_rtp() -> None:
    codec = begun("telnyx", start("L16", 16_000))
    assert codec.rate == 16_000
    heard = samples_in(list(codec.take(telnyx_media(1, spoken(">i2")))))
    assert heard == np.frombuffer(spoken("<i2"), "<i2").tolist()
    (said,) = codec.speak(Pcm(np.full(320, 0x1234, np.int16), 16_000))
    assert payload_of(said) == b64(b"\x12\x34" * 320)


def test_linear_audio_that_comes_little_endian_is_answered_so() -> None:
    codec = begun("telnyx", start("L16", 16_000))
    codec.take(telnyx_media(1, bytes(640)))  # of silence it cannot be told
    (said,) = codec.speak(Pcm(np.full(320, 0x1234, np.int16), 16_000))
    assert payload_of(said) == b64(b"\x12\x34" * 320)
    for chunk in (2, 3):
        heard = samples_in(list(codec.take(telnyx_media(chunk, spoken("<i2")))))
        assert heard == np.frombuffer(spoken("<i2"), "<i2").tolist()
    (said,) = codec.speak(Pcm(np.full(320, 0x1234, np.int16), 16_000))
    assert payload_of(said) == b64(b"\x34\x12" * 320)


def test_what_comes_tells_nothing_of_other_audio_that_goes_out() -> None:
    codec = begun("telnyx", start("L16", 8_000, stream_bidirectional_codec="PCMU"))
    codec.take(telnyx_media(1, spoken("<i2")))
    (said,) = codec.speak(Pcm.silence(20, 8_000))
    assert payload_of(said) == b64(b"\xff" * 160)


def test_a_parameter_may_say_the_same_again_or_what_there_is_not() -> None:
    codec = TelnyxCodec()
    codec.take(start("L16", 8_000, stream_bidirectional_codec="L16"))
    assert codec.rate == 8_000
    with pytest.raises(PhoneWireError, match=r"1 channel\(s\) of opus at 8000 Hz"):
        TelnyxCodec().take(start("PCMU", 8_000, stream_bidirectional_codec="opus"))


def test_a_parameter_tells_what_goes_out_where_it_differs() -> None:
    codec = TelnyxCodec()
    (started,) = codec.take(start("PCMA", 8_000, stream_bidirectional_codec="L16"))
    assert isinstance(started, LegStarted)
    assert (started.rate, codec.rate) == (8_000, 16_000)
    (said,) = codec.speak(Pcm.silence(20, 16_000))
    assert payload_of(said) == b64(bytes(640))


@pytest.mark.parametrize(
    ("encoding", "rate"), [("G722", 8_000), ("OPUS", 16_000), ("PCMU", 16_000), ("L16", 44_100)]
)
def test_another_format_is_refused_with_what_to_set(encoding: str, rate: int) -> None:
    with pytest.raises(PhoneWireError, match="stream_bidirectional_codec both to PCMU"):
        TelnyxCodec().take(start(encoding, rate))


def test_nothing_shorter_than_20_ms_goes_out() -> None:
    """Telnyx takes 20 ms to 30 s."""
    codec = begun("telnyx")
    assert list(codec.speak(Pcm.silence(15, 8_000))) == []
    (said,) = codec.speak(Pcm.silence(10, 8_000))
    assert len(payload_of(said)) == len(b64(bytes(160)))
    rest, mark = codec.mark("e1-1")
    assert len(payload_of(rest)) == len(b64(bytes(160)))
    assert json.loads(mark) == {"event": "mark", "mark": {"name": "e1-1"}}


def test_a_clear_forgets_what_was_kept() -> None:
    codec = begun("telnyx")
    codec.speak(Pcm.silence(15, 8_000))
    assert [json.loads(m) for m in codec.clear()] == [{"event": "clear"}]
    assert len(codec.mark("m")) == 1


def test_our_own_side_is_not_heard() -> None:
    assert list(begun("telnyx").take(telnyx_media(1, track="outbound"))) == []


def test_one_stream_has_one_start_and_media_comes_after_it() -> None:
    with pytest.raises(PhoneWireError, match="'start' where"):
        begun("telnyx").take(json.dumps(TELNYX_START))
    with pytest.raises(PhoneWireError, match="'media' where 'start'"):
        TelnyxCodec().take(media_of(1))


def test_an_error_of_telnyx_does_not_end_the_call() -> None:
    assert list(begun("telnyx").take(TRANSCRIPTS["telnyx"][5])) == []
    assert list(TelnyxCodec().take(TRANSCRIPTS["telnyx"][5])) == []


def test_what_telnyx_has_no_words_for_is_nothing() -> None:
    codec = begun("telnyx")
    assert list(codec.press("1")) == []
    assert list(codec.hang_up()) == []


def test_a_call_as_it_is_documented() -> None:
    codec = TelnyxCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["telnyx"])
    assert DigitPressed("1") in events
    assert MarkPlayed("e1-1") in events
