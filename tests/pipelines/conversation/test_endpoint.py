"""Borders of speech, counted in windows of 32 ms."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.endpoint import WINDOW_MS, Border, Endpointer, EndpointSettings

LOUD, BETWEEN, QUIET = 0.9, 0.4, 0.1

SETTINGS = EndpointSettings(
    silence_ms=10 * WINDOW_MS,
    prefix_ms=3 * WINDOW_MS,
    ahead_ms=4 * WINDOW_MS,
    onset_ms=2 * WINDOW_MS,
    max_turn_ms=30 * WINDOW_MS,
)


def borders(endpointer: Endpointer, *stretches: tuple[float, int]) -> list[tuple[int, Border]]:
    """What the stretches of windows (probability, count) change, and at which window."""
    return [
        (endpointer.position, border)
        for probability, count in stretches
        for _ in range(count)
        if (border := endpointer.hear(probability))
    ]


def test_a_turn_starts_with_its_onset_pauses_and_stops() -> None:
    endpointer = Endpointer(SETTINGS)
    told = borders(endpointer, (QUIET, 20), (LOUD, 5), (QUIET, 10))
    assert told == [(22, Border.STARTED), (29, Border.PAUSED), (35, Border.STOPPED)]
    assert not endpointer.speaking
    assert endpointer.position_ms == 35 * WINDOW_MS


def test_the_pre_roll_reaches_back_before_the_onset() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (QUIET, 20), (LOUD, 2))
    assert endpointer.start_ms == (20 - 3) * WINDOW_MS


def test_the_pre_roll_begins_no_earlier_than_the_call() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (QUIET, 1), (LOUD, 2))
    assert endpointer.start_ms == 0


def test_the_pre_roll_takes_nothing_of_the_turn_before() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (LOUD, 5), (QUIET, 10), (QUIET, 1), (LOUD, 2))
    assert endpointer.start_ms == 15 * WINDOW_MS


def test_a_click_is_no_turn() -> None:
    assert borders(Endpointer(SETTINGS), (LOUD, 1), (QUIET, 1), (LOUD, 1), (BETWEEN, 1)) == []


def test_a_pause_shorter_than_ahead_is_not_told() -> None:
    told = borders(Endpointer(SETTINGS), (LOUD, 2), (QUIET, 3), (LOUD, 2))
    assert told == [(2, Border.STARTED)]


def test_a_caller_who_goes_on_after_a_pause_resumes_and_silence_starts_over() -> None:
    told = borders(Endpointer(SETTINGS), (LOUD, 2), (QUIET, 9), (LOUD, 1), (QUIET, 10))
    assert told[1:] == [
        (6, Border.PAUSED),
        (12, Border.RESUMED),
        (16, Border.PAUSED),
        (22, Border.STOPPED),
    ]


def test_the_thresholds_themselves_count_as_above_them() -> None:
    endpointer = Endpointer(replace(SETTINGS, threshold=0.75))
    assert borders(endpointer, (0.75, 2), (0.6, 10), (0.59, 3), (0.75, 1), (0.6, 6)) == [
        (2, Border.STARTED)
    ]


def test_between_the_thresholds_what_was_going_on_goes_on() -> None:
    speech = borders(Endpointer(SETTINGS), (LOUD, 2), (BETWEEN, 20))
    assert speech == [(2, Border.STARTED)]
    silence = borders(Endpointer(SETTINGS), (LOUD, 2), (QUIET, 1), (BETWEEN, 9))
    assert silence[-1] == (12, Border.STOPPED)


@pytest.mark.parametrize("ahead_windows", [10, 11])
def test_a_turn_that_ends_no_later_than_its_pause_tells_only_the_end(ahead_windows: int) -> None:
    endpointer = Endpointer(replace(SETTINGS, ahead_ms=ahead_windows * WINDOW_MS))
    told = borders(endpointer, (LOUD, 2), (QUIET, 10))
    assert [border for _, border in told] == [Border.STARTED, Border.STOPPED]


def test_a_turn_without_a_pause_ends_at_its_longest() -> None:
    told = borders(Endpointer(SETTINGS), (LOUD, 40))
    assert told == [(2, Border.STARTED), (30, Border.STOPPED), (32, Border.STARTED)]


def test_going_on_is_told_even_where_the_turn_is_full() -> None:
    endpointer = Endpointer(replace(SETTINGS, max_turn_ms=8 * WINDOW_MS))
    told = borders(endpointer, (LOUD, 2), (QUIET, 5), (LOUD, 2))
    assert told[-2:] == [(8, Border.RESUMED), (9, Border.STOPPED)]


def test_new_settings_hold_in_mid_silence() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (LOUD, 2), (QUIET, 5))
    endpointer.configure(replace(SETTINGS, silence_ms=6 * WINDOW_MS))
    assert borders(endpointer, (QUIET, 1)) == [(8, Border.STOPPED)]


def test_a_turn_that_ended_by_other_means_is_forgotten() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (LOUD, 2), (QUIET, 5))
    endpointer.reset()
    assert borders(endpointer, (QUIET, 20), (LOUD, 1)) == []
    assert borders(endpointer, (LOUD, 1)) == [(29, Border.STARTED)]


def test_windows_that_are_skipped_keep_the_turn_and_end_its_silence() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (LOUD, 2), (QUIET, 5))
    endpointer.skip()
    assert endpointer.speaking
    assert borders(endpointer, (QUIET, 10)) == [(12, Border.PAUSED), (18, Border.STOPPED)]


def test_windows_that_are_skipped_break_an_onset() -> None:
    endpointer = Endpointer(SETTINGS)
    borders(endpointer, (LOUD, 1))
    endpointer.skip()
    assert borders(endpointer, (LOUD, 1)) == []


def test_durations_are_rounded_to_windows_and_never_to_none() -> None:
    endpointer = Endpointer(EndpointSettings(onset_ms=0, silence_ms=40, ahead_ms=1))
    told = borders(endpointer, (LOUD, 1), (QUIET, 1))
    assert [border for _, border in told] == [Border.STARTED, Border.STOPPED]


# --- whatever is heard ----------------------------------------------------------------------

probabilities = st.lists(
    st.sampled_from([LOUD, LOUD, LOUD, QUIET, QUIET, QUIET, BETWEEN])
    | st.floats(0.0, 1.0)
    | st.just(float("nan")),
    max_size=200,
)
any_settings = st.builds(
    EndpointSettings,
    silence_ms=st.integers(0, 400),
    ahead_ms=st.integers(0, 400),
    onset_ms=st.integers(0, 200),
    max_turn_ms=st.integers(0, 3_000),
)


@given(any_settings, probabilities)
def test_borders_come_in_their_order(settings: EndpointSettings, heard: list[float]) -> None:
    endpointer = Endpointer(settings)
    told = " ".join(border.name for p in heard if (border := endpointer.hear(p)))
    turn = "STARTED( PAUSED RESUMED)*( PAUSED)?"
    assert re.fullmatch(f"({turn} STOPPED ?)*({turn})?", told)


@given(any_settings, probabilities)
def test_no_turn_is_longer_than_the_longest(settings: EndpointSettings, heard: list[float]) -> None:
    endpointer = Endpointer(settings)
    length = 0
    for probability in heard:
        border = endpointer.hear(probability)
        length = length + 1 if endpointer.speaking else 0
        assert length <= max(1, round(settings.max_turn_ms / WINDOW_MS)) + 1, border


@given(st.integers(1, 30), st.integers(2, 20))
def test_silence_is_counted_in_windows(silence: int, speech: int) -> None:
    settings = EndpointSettings(silence_ms=silence * WINDOW_MS, ahead_ms=40 * WINDOW_MS)
    told = borders(Endpointer(settings), (LOUD, speech), (QUIET, 60))
    assert told == [(2, Border.STARTED), (speech + silence, Border.STOPPED)]


# --- where the sound ended ------------------------------------------------------------------


def silence_until_stopped(levels_db: list[float], lag: int) -> int:
    """Windows from the first that is soft to STOPPED, where the VAD falls silent ``lag`` late."""
    endpointer = Endpointer(EndpointSettings(silence_ms=320))
    for _ in range(10):
        endpointer.hear(1.0, -20.0)
    for soft, level_db in enumerate(levels_db, start=1):
        if endpointer.hear(0.9 if soft <= lag else 0.0, level_db) is Border.STOPPED:
            return soft
    raise AssertionError("the turn did not end")


def test_silence_is_counted_from_where_the_sound_ended_not_from_where_the_vad_noticed() -> None:
    assert silence_until_stopped([-60.0] * 30, lag=0) == 10
    assert silence_until_stopped([-60.0] * 30, lag=3) == 10


def test_what_is_soft_for_long_while_the_vad_hears_speech_is_a_soft_word() -> None:
    assert silence_until_stopped([-60.0] * 30, lag=7) == 14


def test_in_noise_silence_is_what_the_vad_says() -> None:
    assert silence_until_stopped([-30.0] * 30, lag=3) == 13


def test_the_loudness_of_one_turn_is_no_measure_for_the_next() -> None:
    endpointer = Endpointer(EndpointSettings(silence_ms=64))
    for _ in range(3):
        endpointer.hear(1.0, 0.0)
    while endpointer.hear(0.0, -50.0) is not Border.STOPPED:
        pass
    for _ in range(3):
        endpointer.hear(1.0, -40.0)
    assert endpointer.hear(0.0, -40.0) is None, "a soft voice still sounds"


# --- how long it lasts, and how long to wait ------------------------------------------------


def heard(endpointer: Endpointer, *probabilities: float) -> list[Border | None]:
    return [endpointer.hear(probability) for probability in probabilities]


def test_the_wait_can_be_moved_while_the_caller_is_silent() -> None:
    for wait_ms, windows in ((320, 10), (640, 20), (32, 3)):
        endpointer = Endpointer(EndpointSettings())
        heard(endpointer, *[1.0] * 4, 0.0, 0.0)
        endpointer.wait(wait_ms)
        told = heard(endpointer, *[0.0] * 40)
        assert told.index(Border.STOPPED) + 3 == windows


def test_a_wait_holds_for_its_turn_alone() -> None:
    endpointer = Endpointer(EndpointSettings())
    heard(endpointer, 1.0, 1.0)
    endpointer.wait(32)
    assert Border.STOPPED in heard(endpointer, 0.0)
    heard(endpointer, 1.0, 1.0)
    assert Border.STOPPED not in heard(endpointer, *[0.0] * 15)


def test_speech_is_counted_from_where_the_sound_began_not_from_where_the_vad_noticed() -> None:
    for before_db, run in (
        ([-80.0, -80.0, -80.0], 1),
        ([-80.0, -80.0, -30.0], 2),
        ([-80.0, -30.0, -80.0], 1),
        ([-30.0, -30.0, -30.0], 4),
    ):
        endpointer = Endpointer(EndpointSettings())
        for level_db in before_db:
            endpointer.hear(0.2, level_db)
        endpointer.hear(0.9, -20.0)
        assert endpointer.run_ms == run * WINDOW_MS


def test_echo_is_nobody_and_its_first_sound_is_known_behindhand() -> None:
    endpointer = Endpointer(EndpointSettings())
    assert [endpointer.hear(0.9, echo=0.9) for _ in range(9)] == [None] * 9
    assert not endpointer.was_echo
    for windows, known in ((2, True), (4, True), (5, False)):
        endpointer = Endpointer(EndpointSettings())
        heard(endpointer, *[0.9] * windows)
        endpointer.hear(0.9, echo=0.9)
        assert not endpointer.was_echo, "one window may be a mistake"
        endpointer.hear(0.9, echo=0.9)
        assert endpointer.was_echo == known


def test_speech_has_to_last_longer_where_there_was_echo_of_late() -> None:
    for echoes, since, windows in ((0, 0, 6), (1, 1, 6), (2, 1, 8), (2, 50, 8), (2, 70, 6)):
        endpointer = Endpointer(EndpointSettings())
        for _ in range(echoes):
            endpointer.hear(0.9, -80.0, echo=0.9)
        for _ in range(since):
            endpointer.hear(0.0, -80.0)
        lasted = 0
        while not endpointer.lasts(200):
            endpointer.hear(0.9, -20.0)
            lasted += 1
        assert lasted == windows


def test_speech_and_silence_are_measured() -> None:
    endpointer = Endpointer(EndpointSettings())
    heard(endpointer, 1.0, 1.0, 1.0, 0.4)
    assert (endpointer.run_ms, endpointer.silent_ms) == (4 * WINDOW_MS, 0)
    heard(endpointer, 0.1, 0.1)
    assert (endpointer.run_ms, endpointer.silent_ms) == (4 * WINDOW_MS, 2 * WINDOW_MS)
    heard(endpointer, 0.1, 0.1, 0.1)
    assert (endpointer.run_ms, endpointer.silent_ms) == (0, 5 * WINDOW_MS)
    heard(endpointer, 0.4)
    assert endpointer.run_ms == 0, "what begins no speech is none"
    endpointer.hear(1.0, 30.0)
    assert (endpointer.run_ms, endpointer.silent_ms) == (WINDOW_MS, 0)


def test_what_is_kept_before_a_turn_holds_its_prefix_its_onset_and_the_time_to_decide() -> None:
    settings = EndpointSettings(prefix_ms=300, onset_ms=64)
    assert settings.preroll_ms == 300 + 64 + 3 * WINDOW_MS


def test_a_turn_of_which_half_is_echo_is_known_for_one() -> None:
    endpointer = Endpointer(SETTINGS)
    shares = [0.2, 0.2, 0.3, 0.9, 0.9, 0.1, 0.9, 0.9]
    told = []
    for share in shares:
        endpointer.hear(LOUD, echo=share)
        told.append(endpointer.echoed)
    assert told == [False] * 6 + [False, True], "4 of 8 are; 3 of 7 might be a caller's"


def test_each_turn_is_judged_by_its_own_echo_and_silence_is_no_evidence() -> None:
    endpointer = Endpointer(SETTINGS)
    for share in (0.9,) * 20:
        endpointer.hear(LOUD, echo=share)
    borders(endpointer, (LOUD, 3))
    assert endpointer.speaking
    assert not endpointer.echoed
    for _ in range(3):
        endpointer.hear(QUIET, echo=0.9)
    assert not endpointer.echoed
