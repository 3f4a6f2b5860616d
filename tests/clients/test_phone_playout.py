"""Audio that plays in real time, and the marks in it."""

import numpy as np
import pytest

from clients.phone_playout import Playout

RATE = 8_000


def tone(seconds: float, value: int = 1) -> np.ndarray:
    return np.full(round(seconds * RATE), value, np.int16)


def test_audio_plays_from_when_it_comes_and_in_order() -> None:
    playout = Playout(RATE)
    playout.put(tone(0.1, 1), 1.0)
    playout.put(tone(0.1, 2), 1.05)
    assert playout.queued_s(1.05) == pytest.approx(0.15)
    assert playout.heard_s(1.15) == pytest.approx(0.15)
    heard = playout.heard(1.0, 1.3)
    assert heard.tolist() == [1] * 800 + [2] * 800 + [0] * 800


def test_a_gap_is_silence_and_a_new_run() -> None:
    playout = Playout(RATE)
    playout.put(tone(0.1), 0.0)
    playout.put(tone(0.1), 0.2)
    assert [run.start for run in playout.runs] == [0.0, 0.2]
    assert playout.heard(0.05, 0.25).tolist() == [1] * 400 + [0] * 800 + [1] * 400


def test_frames_that_come_in_time_make_one_run() -> None:
    playout = Playout(RATE)
    for n in range(50):
        playout.put(tone(0.02), n * 0.02)
    assert len(playout.runs) == 1


def test_a_mark_is_reached_when_all_before_it_has_been_played() -> None:
    playout = Playout(RATE)
    playout.mark("at once", 0.0)
    assert playout.due(0.0) == ["at once"]
    playout.put(tone(0.1), 1.0)
    playout.mark("a", 1.0)
    playout.put(tone(0.1), 1.0)
    playout.mark("b", 1.0)
    assert playout.deadline == 1.1
    assert playout.due(1.09) == []
    assert playout.due(1.1) == ["a"]
    assert playout.due(5.0) == ["b"]
    assert playout.deadline is None


def test_a_clear_cuts_what_has_not_been_played() -> None:
    playout = Playout(RATE)
    playout.put(tone(1.0), 0.0)
    playout.mark("a", 0.0)
    assert playout.clear(0.25) == ["a"]
    assert playout.queued_s(0.25) == 0
    assert playout.heard_s(2.0) == 0.25
    assert playout.due(2.0) == []
    playout.put(tone(0.1, 3), 0.25)
    assert playout.heard(0.0, 0.4).tolist() == [1] * 2_000 + [3] * 800 + [0] * 400


def test_a_clear_of_nothing_is_nothing() -> None:
    playout = Playout(RATE)
    assert playout.clear(1.0) == []
    playout.put(tone(0), 1.0)
    assert playout.runs == []
    assert playout.heard(2.0, 1.0).tolist() == []
