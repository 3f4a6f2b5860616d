"""Sound as a value: bytes, floats and durations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark, Pcm


@given(st.binary(max_size=200).filter(lambda data: len(data) % 2 == 0))
def test_bytes_come_back_as_they_were(data: bytes) -> None:
    assert Pcm.from_bytes(data, 16_000).to_bytes() == data


def test_bytes_are_little_endian() -> None:
    pcm = Pcm.from_bytes(b"\x01\x00\xff\x7f\x00\x80", 8_000)
    assert pcm.samples.tolist() == [1, 32_767, -32_768]
    assert Pcm(np.array([1, -2], np.int16).astype(">i2"), 8_000).to_bytes() == b"\x01\x00\xfe\xff"


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="even number of bytes, got 3"):
        Pcm.from_bytes(b"abc", 16_000)


def test_floats_are_rounded_and_what_is_beyond_is_clipped() -> None:
    pcm = Pcm.from_floats(np.array([0, 1, -1, 2, -2, 0.5, 1.4 / 32_767]), 16_000)
    assert pcm.samples.tolist() == [0, 32_767, -32_767, 32_767, -32_767, 16_384, 1]
    assert pcm.samples.dtype == np.int16


@given(st.lists(st.integers(-32_767, 32_767), max_size=50))
def test_floats_say_the_same_as_samples(samples: list[int]) -> None:
    floats = Pcm(np.array(samples, np.int16), 16_000).floats()
    assert floats.dtype == np.float32
    assert np.rint(floats * 32_768).astype(int).tolist() == samples
    assert (np.abs(floats) <= 1).all()


def test_durations_are_counted_in_samples() -> None:
    pcm = Pcm.silence(250, 8_000)
    assert (len(pcm), pcm.duration_ms) == (2_000, 250.0)
    assert not pcm.samples.any()


def test_a_part_keeps_the_marks_that_lie_in_it() -> None:
    marks = (Mark(3, 10), Mark(5, 20), Mark(9, 30))
    pcm = Pcm(np.arange(40, dtype=np.int16), 1_000, marks)
    first, second, rest = pcm.part(0, 20), pcm.part(20, 25), pcm.part(25)
    assert [part.samples.tolist() for part in (first, second, rest)] == [
        list(range(20)),
        list(range(20, 25)),
        list(range(25, 40)),
    ]
    assert (first.marks, second.marks) == ((Mark(3, 10), Mark(5, 20)), ())
    assert (rest.rate, rest.marks) == (1_000, (Mark(9, 5),))
