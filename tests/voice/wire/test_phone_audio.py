"""Samples in a carrier's bytes, and bytes in its frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm
from voice.wire.phone import PhoneWireError
from voice.wire.phone_audio import Coding, Encoding, Frames, order_of

ENCODINGS: list[Encoding] = ["mulaw", "alaw", "little", "big"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_encoded_is_decoded(encoding: Encoding) -> None:
    coding = Coding(encoding, 8_000)
    pcm = Pcm((np.sin(np.arange(160)) * 8_000).astype(np.int16), 8_000)
    back = coding.decode(coding.encode(pcm))
    assert back.rate == 8_000
    assert np.abs(back.samples - pcm.samples).max() <= 256
    assert len(coding.encode(pcm)) == coding.bytes_of(20)


def test_the_order_of_bytes_is_that_of_the_wire() -> None:
    pcm = Pcm(np.array([0x1234], np.int16), 16_000)
    assert Coding("little", 16_000).encode(pcm) == b"\x34\x12"
    assert Coding("big", 16_000).encode(pcm) == b"\x12\x34"
    assert Coding("big", 16_000).decode(b"\x12\x34").samples.tolist() == [0x1234]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_silence_is_silent(encoding: Encoding) -> None:
    coding = Coding(encoding, 8_000)
    assert np.abs(coding.decode(coding.silence * 320).samples).max() <= 8


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(PhoneWireError, match="even number"):
        Coding("little", 8_000).decode(b"\0\0\0")


@given(pieces=st.lists(st.binary(max_size=50)), size=st.integers(1, 20))
def test_frames_are_whole_and_nothing_is_lost(pieces: list[bytes], size: int) -> None:
    frames = Frames(size, b"\xff")
    cut = [frame for piece in pieces for frame in frames.cut(piece)]
    assert all(len(frame) == size for frame in cut)
    rest = frames.finish()
    assert all(len(frame) == size for frame in rest)
    said, given_back = b"".join(pieces), b"".join(cut + rest)
    assert given_back[: len(said)] == said
    assert given_back[len(said) :].strip(b"\xff") == b""
    assert frames.finish() == []


def test_what_was_kept_can_be_forgotten() -> None:
    frames = Frames(4, b"\0")
    assert frames.cut(b"12345") == [b"1234"]
    frames.drop()
    assert frames.cut(b"6789") == [b"6789"]


def test_audio_at_another_rate_would_play_at_the_wrong_speed() -> None:
    with pytest.raises(ValueError, match="plays 8000 Hz, and was given 16000 Hz"):
        Coding("mulaw", 8_000).encode(Pcm.silence(20, 16_000))


VOICE = np.sin(2 * np.pi * 140 * np.arange(320) / 16_000)


@pytest.mark.parametrize("level", [12, 300, 8_000, 32_000])
@pytest.mark.parametrize(("dtype", "order"), [("<i2", "little"), (">i2", "big")])
def test_of_sound_it_can_be_told_in_which_order_its_bytes_are(
    level: int, dtype: str, order: str
) -> None:
    noise = np.random.default_rng(7).normal(scale=level / 20, size=len(VOICE))
    sound = np.clip(level * VOICE + noise, -32_768, 32_767).astype(dtype)
    assert order_of(sound.tobytes()) == order
    assert order_of(sound.tobytes() + b"\1") == order


@pytest.mark.parametrize("data", [b"", b"\1", b"\1\2", bytes(640), b"\1\2" * 320, b"\1\1\2\2" * 80])
def test_of_silence_and_of_nothing_it_cannot(data: bytes) -> None:
    assert order_of(data) is None
