"""AudioSocket, whose bytes come in any pieces."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    CALL,
    L16_20_MS,
    TRANSCRIPTS,
    begun,
    frame,
    samples_in,
    take_all,
)
from voice.wire.phone import DigitPressed, LegEnded, LegStarted, PhoneWireError
from voice.wire.phone_audiosocket import RATES, AudioSocketCodec

NAME = frame(0x01, CALL.bytes)
STREAM = (
    NAME + frame(0x10, L16_20_MS) + frame(0x03, b"5") + frame(0x10, L16_20_MS[::-1]) + frame(0x00)
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_the_pieces_of_the_stream_do_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    events = take_all(AudioSocketCodec(), list(pieces))
    assert events[0] == LegStarted(str(CALL), 8_000)
    assert events[2] == DigitPressed("5")
    assert isinstance(events[-1], LegEnded)
    assert len(events) == 5
    assert samples_in(events) == np.frombuffer(L16_20_MS + L16_20_MS[::-1], "<i2").tolist()


@pytest.mark.parametrize(("kind", "rate"), RATES.items())
def test_the_kind_of_audio_tells_the_rate_of_both_ways(kind: int, rate: int) -> None:
    codec = begun("audiosocket", NAME, frame(kind, L16_20_MS))
    assert codec.rate == rate
    said = codec.speak(Pcm(np.full(rate // 50, 0x1234, np.int16), rate))
    assert said == [frame(kind, b"\x34\x12" * (rate // 50))]


def test_long_speech_is_cut_to_frames_and_the_rest_is_said() -> None:
    codec = begun("audiosocket")
    assert [len(message) for message in codec.speak(Pcm.silence(50, 8_000))] == [323, 323, 163]


def test_a_key_before_any_audio_starts_the_leg_at_8_khz() -> None:
    events = take_all(AudioSocketCodec(), [NAME, frame(0x03, b"#")])
    assert events == [LegStarted(str(CALL), 8_000), DigitPressed("#")]


def test_the_call_waits_for_its_rate() -> None:
    assert take_all(AudioSocketCodec(), [NAME]) == []


@pytest.mark.parametrize(("last", "reason"), [(b"\x00\0\0", "hung up"), (b"\xff\0\x01\x04", "04")])
def test_the_other_side_ends_it(last: bytes, reason: str) -> None:
    codec = begun("audiosocket")
    (ended,) = codec.take(last + frame(0x10, L16_20_MS))
    assert isinstance(ended, LegEnded)
    assert reason in ended.reason
    assert list(codec.take(b"anything")) == []
    assert list(codec.hang_up()) == []


def test_we_hang_up_at_any_time() -> None:
    assert list(AudioSocketCodec().hang_up()) == [b"\0\0\0"]
    assert list(begun("audiosocket").hang_up()) == [b"\0\0\0"]


def test_there_is_no_clear_and_no_key_to_send() -> None:
    codec = begun("audiosocket")
    assert list(codec.clear()) == []
    assert list(codec.press("1")) == []
    assert codec.paced


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (frame(0x10, L16_20_MS), "begins with the call's UUID"),
        (frame(0x01, b"short"), "in 16 bytes"),
        (NAME + NAME, "names the call once"),
        (NAME + frame(0x10, b"\0\0\0"), "even number"),
        (b"GET / HTTP/1.1\r\n", "0x47"),
        ("text", "text came"),
    ],
)
def test_another_protocol_is_refused(sent: str | bytes, says: str) -> None:
    with pytest.raises(PhoneWireError, match=says):
        AudioSocketCodec().take(sent)


def test_no_audio_is_none() -> None:
    assert list(begun("audiosocket").take(frame(0x10))) == []


def test_a_call_as_it_is_documented() -> None:
    codec = AudioSocketCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["audiosocket"])
    assert DigitPressed("1") in events
    assert list(codec.mark("m")) == []
