"""Audio goes out in pieces that suit the wire."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark, Pcm
from pipelines.conversation.pieces import MOST_AUDIO_MS, PLENTY_MS, Pieces

RATE = 24_000


def ramp(first: int, count: int, *marks: Mark) -> Pcm:
    return Pcm(np.arange(first, first + count).astype(np.int16), RATE, marks)


def test_a_listener_who_waits_gets_all_at_once() -> None:
    pieces = Pieces()
    (piece,) = pieces.add(ramp(0, 960), PLENTY_MS)
    assert len(piece) == 960
    assert pieces.gathered_ms == 0


def test_one_with_plenty_in_hand_gets_whole_pieces() -> None:
    pieces, out = Pieces(), list[Pcm]()
    for number in range(10):
        out += pieces.add(ramp(960 * number, 960), PLENTY_MS + 1)
    assert [piece.duration_ms for piece in out] == [MOST_AUDIO_MS] * 2
    assert np.array_equal(np.concatenate([piece.samples for piece in out]), ramp(0, 9600).samples)


def test_pieces_that_fit_badly_are_cut_to_whole_ones() -> None:
    pieces, out = Pieces(), list[Pcm]()
    for number in range(5):
        out += pieces.add(ramp(1920 * number, 1920), 2_000)
    assert [piece.duration_ms for piece in out] == [MOST_AUDIO_MS] * 2
    assert pieces.gathered_ms == 0


def test_what_was_gathered_goes_out_with_the_next_once_there_is_no_plenty() -> None:
    pieces = Pieces()
    assert pieces.add(ramp(0, 960), 2_000) == []
    assert pieces.gathered_ms == 40
    (piece,) = pieces.add(ramp(960, 960), 100)
    assert np.array_equal(piece.samples, ramp(0, 1920).samples)


def test_the_ends_of_words_stay_where_they_are() -> None:
    pieces = Pieces()
    pieces.add(ramp(0, 960, Mark(3, 10.0)), 2_000)
    pieces.add(ramp(960, 960, Mark(7, 20.0)), 2_000)
    (piece,) = pieces.finish()
    assert piece.marks == (Mark(3, 10.0), Mark(7, 60.0))


def test_of_nothing_nothing_is_left() -> None:
    assert Pieces().finish() == []


@given(st.lists(st.tuples(st.integers(1, 20_000), st.floats(0, 3_000)), max_size=20))
def test_every_sample_goes_out_once_and_in_order(taken: list[tuple[int, float]]) -> None:
    pieces, out, position = Pieces(), list[Pcm](), 0
    for count, lead_ms in taken:
        out += pieces.add(ramp(position, count), lead_ms)
        position += count
    out += pieces.finish()
    whole = np.concatenate([np.zeros(0, np.int16), *(piece.samples for piece in out)])
    assert np.array_equal(whole, ramp(0, position).samples)
    assert all(piece.duration_ms <= MOST_AUDIO_MS for piece in out)


@pytest.mark.parametrize("seconds", [1, 5])
def test_a_phrase_that_comes_whole_is_cut(seconds: int) -> None:
    out = Pieces().add(ramp(0, seconds * RATE), 0.0)
    assert len(out) == 5 * seconds
