from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.asr.cutting import quiet_pieces

RATE = 1000


def noise(milliseconds: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(milliseconds * RATE // 1000).astype(np.float32)


def test_what_is_short_enough_stays_whole():
    assert quiet_pieces(noise(28_000), RATE, 28_000) == [slice(0, 28_000)]


def test_the_cut_falls_into_the_pause():
    samples = noise(40_000)
    samples[17_000:17_400] *= 0.01
    first, second = quiet_pieces(samples, RATE, 28_000)
    assert 17_000 <= first.stop <= 17_400
    assert second == slice(first.stop, 40_000)


def test_a_dip_inside_a_word_is_no_pause():
    samples = noise(40_000)
    samples[19_000:19_020] = 0
    samples[24_000:24_300] *= 0.1
    first, _ = quiet_pieces(samples, RATE, 28_000)
    assert 24_000 <= first.stop <= 24_300


def test_a_sliver_more_than_the_longest_leaves_no_sliver():
    pieces = quiet_pieces(noise(28_100), RATE, 28_000)
    assert all(piece.stop - piece.start >= 7_000 for piece in pieces)


@given(st.integers(0, 9_000), st.sampled_from([400, 1_000, 2_500]))
def test_pieces_cover_everything_once_and_none_is_too_long(length, longest):
    pieces = quiet_pieces(noise(length), RATE, longest)
    assert (pieces[0].start, pieces[-1].stop) == (0, length)
    assert all(a.stop == b.start for a, b in pairwise(pieces))
    assert all(piece.stop - piece.start <= longest for piece in pieces)
