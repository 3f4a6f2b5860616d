"""Pieces of sound, joined: pauses that are what they say, and no clicks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.audio import Pcm
from pipelines.narration.joining import Joiner, Seam

RATE = 24_000


def tone(milliseconds: int, level: float = 8_000, rate: int = RATE) -> np.ndarray:
    """Begins and ends in the middle of a swing."""
    time = np.arange(milliseconds * rate // 1000) / rate
    return np.rint(level * np.cos(2 * np.pi * 300 * time)).astype(np.int16)


def quiet(milliseconds: int, level: int = 0) -> np.ndarray:
    return np.full(milliseconds * RATE // 1000, level, np.int16)


def together(
    joiner: Joiner, *pieces: tuple[int, np.ndarray], size: int = 10_000_000, rate: int = RATE
) -> np.ndarray:
    given = []
    for pause_ms, samples in pieces:
        joined = joiner.piece(pause_ms)
        for start in range(0, len(samples), size):
            given += joined.feed(Pcm(samples[start : start + size], rate))
        given += joined.finish()
    return np.concatenate([np.zeros(0, np.int16), *(pcm.samples for pcm in given)])


def silences_ms(samples: np.ndarray, rate: int = RATE) -> list[float]:
    """Those of more than 30 ms."""
    loud = np.flatnonzero(np.abs(samples) > 200)
    return [1000 * gap / rate for gap in np.diff(loud) if gap > 0.03 * rate]


@pytest.mark.parametrize("around", [(0, 0), (300, 700), (10, 30), (20, 40), (500, 0)])
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_pause_is_what_was_asked_for_whatever_was_around(
    around: tuple[int, int], speed: float
) -> None:
    piece = np.concatenate([quiet(around[0]), tone(400), quiet(around[1])])
    joined = together(Joiner(speed), (0, piece), (400, piece), (800, piece))
    assert silences_ms(joined) == pytest.approx([400 / speed, 800 / speed], abs=6)
    assert len(joined) <= (1200 + 1200 / speed + 70) * RATE / 1000


def test_faint_sound_at_the_edges_stays_and_falls_to_nothing() -> None:
    piece = np.concatenate([quiet(100, 60), tone(200), quiet(100, 60)])
    joined = together(Joiner(), (0, piece))
    assert len(joined) == (20 + 200 + 40) * RATE // 1000
    assert abs(joined[0]) < 5 > abs(joined[-1])
    assert joined[RATE * 10 // 1000] == 60


@pytest.mark.parametrize("pause_ms", [0, 50, 400])
def test_nothing_clicks_where_sound_is_cut_hard(pause_ms: int) -> None:
    joined = together(Joiner(), *[(pause_ms, tone(301))] * 4)
    inside = np.abs(np.diff(tone(301).astype(int))).max()
    assert np.abs(np.diff(joined.astype(int))).max() <= inside * 1.3
    assert abs(joined[0]) < 10 > abs(joined[-1])


@given(
    size=st.integers(1, 3_000),
    lengths=st.lists(st.tuples(*[st.integers(0, 90)] * 3), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_it_does_not_matter_how_sound_comes(size: int, lengths: list[tuple[int, int, int]]) -> None:
    def even() -> Joiner:
        """What a gain rests on may differ by how sound comes."""
        joiner = Joiner()
        joiner._leveller.gain_for = lambda onset_db, peak: 1.0  # type: ignore[method-assign]
        return joiner

    pieces = [
        (150, np.concatenate([quiet(before), tone(sound), quiet(after)]))
        for before, sound, after in lengths
    ]
    whole = together(even(), *pieces)
    assert np.array_equal(together(even(), *pieces, size=max(size, 50)), whole)


def test_a_piece_without_sound_leaves_the_longest_pause_and_no_more() -> None:
    pieces = [(0, quiet(50)), (300, tone(200)), (900, quiet(100)), (200, np.zeros(0, np.int16))]
    joined = together(Joiner(), *pieces, (300, tone(200)))
    assert silences_ms(joined) == pytest.approx([900], abs=6)


def test_nothing_fed_is_nothing_given() -> None:
    joined = Joiner().piece(100)
    assert joined.feed(Pcm(quiet(0), RATE)) == []
    assert joined.finish() == []


def test_pieces_are_as_loud_as_one_another() -> None:
    levels = [8_000, 8_000, 8_000, 8_000, 5_000, 11_000]
    joined = together(Joiner(), *[(400, tone(500, level)) for level in levels])
    edges = [0, *(np.flatnonzero(np.diff(np.flatnonzero(np.abs(joined) > 200)) > 2_000) + 1)]
    loud = np.flatnonzero(np.abs(joined) > 200)
    peaks = [int(np.abs(joined[loud[a:b]]).max()) for a, b in pairwise([*edges, len(loud)])]
    assert len(peaks) == 6
    assert peaks[4] > 6_000
    assert peaks[5] < 10_000


def test_the_end_is_silence_for_so_long() -> None:
    joiner = Joiner()
    assert joiner.end(300) is None
    joined = together(joiner, (0, np.concatenate([tone(200), quiet(500)])))
    end = joiner.end(300)
    assert end is not None
    assert len(joined) + len(end) == (200 + 300) * RATE // 1000


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_another_goes_on_from_the_seam(cut: int) -> None:
    pieces = [
        (0, tone(200, 5_000)),
        (300, tone(200, 9_000)),
        (900, quiet(60)),
        (100, tone(150, 4_000)),
    ]
    whole = together(Joiner(1.5), *pieces)
    first = Joiner(1.5)
    begun = together(first, *pieces[:cut])
    rest = together(Joiner(1.5, first.seam), *pieces[cut:])
    assert np.array_equal(np.concatenate([begun, rest]), whole)
    assert Joiner(1.0, Seam()).seam == Seam()


def test_another_rate_is_as_good() -> None:
    piece = tone(200, rate=22_050)
    joined = together(Joiner(), (0, piece), (400, piece), rate=22_050)
    assert silences_ms(joined, 22_050) == pytest.approx([400], abs=6)
