"""Windows that come late, in bursts, after a gap, and too early."""

import pytest

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.sample_clock import SampleClock

START_MS = 10_000.0


def started(windows: int = 50) -> SampleClock:
    clock = SampleClock()
    assert clock.take(START_MS)
    for number in range(1, windows):
        assert not clock.take(START_MS + WINDOW_MS * number)
    return clock


def test_the_first_window_begins_it_and_the_others_follow() -> None:
    clock = started()
    assert clock.count == 49
    assert clock.now_ms == START_MS + 49 * WINDOW_MS


def test_windows_that_come_a_little_late_were_heard_in_time() -> None:
    clock = started()
    for number in range(50, 90):
        assert not clock.take(START_MS + WINDOW_MS * number + number % 7 * 20)
    assert clock.now_ms == pytest.approx(START_MS + 89 * WINDOW_MS, abs=1)


@pytest.mark.parametrize("held_up_ms", [200, 1_000])
def test_a_burst_was_held_up(held_up_ms: int) -> None:
    clock = started()
    burst_at = START_MS + 50 * WINDOW_MS + held_up_ms
    for number in range(50, 50 + held_up_ms // WINDOW_MS):
        assert not clock.take(burst_at)
        assert clock.now_ms == pytest.approx(START_MS + WINDOW_MS * number, abs=1)


def test_late_windows_that_do_not_catch_up_have_a_gap_before_them() -> None:
    clock = started()
    resumed = START_MS + 50 * WINDOW_MS + 1_000
    anew = [clock.take(resumed + WINDOW_MS * number) for number in range(5)]
    assert anew == [False, False, True, False, False]
    assert clock.now_ms == resumed + 4 * WINDOW_MS


def test_a_window_from_before_its_time_begins_anew() -> None:
    clock = started()
    assert clock.take(START_MS)
    assert clock.now_ms == START_MS


def test_clocks_drift_apart() -> None:
    clock = started()
    for number in range(50, 5_000):
        assert not clock.take(START_MS + WINDOW_MS * 1.0005 * number)
    assert clock.now_ms == pytest.approx(START_MS + WINDOW_MS * 1.0005 * 4_999, abs=1)
