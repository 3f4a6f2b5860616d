"""What a piece's codes tell of its going wrong."""

import random

import pytest

from engines.tts.orpheus_tokens import CODES
from engines.tts.orpheus_watch import REPEATS, TOO_LONG, TOO_SHORT, Watch, most_frames


def speech(count, seed=0):
    """Frames that never repeat, as sampled speech does not."""
    lots = random.Random(seed)
    return [tuple(lots.randrange(CODES) for _ in range(7)) for _ in range(count)]


def first_fault(watch, frames):
    """The first fault, and after how many frames it showed."""
    for place, frame in enumerate(frames, 1):
        if fault := watch.look(frame):
            return fault, place
    return "", 0


def test_speech_of_the_expected_length_has_no_fault():
    watch = Watch(4.0)
    assert first_fault(watch, speech(47)) == ("", 0)
    assert watch.finish() == ""
    assert watch.clean == 47


def test_what_goes_on_for_three_times_as_long_is_too_long():
    watch = Watch(4.0)
    assert first_fault(watch, speech(300)) == (TOO_LONG, most_frames(4.0) + 1)
    assert watch.clean == most_frames(4.0)
    assert most_frames(4.0) * 2048 / 24_000 == pytest.approx(14.0, abs=0.09)


@pytest.mark.parametrize(("frames", "fault"), [(13, TOO_SHORT), (15, "")])
def test_what_ends_before_a_third_is_too_short(frames, fault):
    watch = Watch(4.0)
    first_fault(watch, speech(frames))
    assert watch.finish() == fault


def test_a_short_word_may_be_as_short_as_it_likes_but_not_silent():
    assert Watch(0.3).finish() == TOO_SHORT
    watch = Watch(1.4)
    watch.look((0,) * 7)
    assert watch.finish() == ""


@pytest.mark.parametrize("cycle", [1, 2, 3, 4])
def test_a_cycle_of_frames_is_found_after_a_second(cycle):
    watch = Watch(10.0)
    start, loop = speech(20), speech(cycle, seed=1)
    fault, place = first_fault(watch, start + loop * 20)
    assert fault == REPEATS
    assert place == 20 + cycle + 12
    assert watch.clean == 20 + cycle


def test_a_drone_is_found_by_its_coarse_code():
    watch = Watch(10.0)
    drone = [(77, *frame[1:]) for frame in speech(60, seed=2)]
    fault, place = first_fault(watch, speech(10) + drone)
    assert (fault, place) == (REPEATS, 10 + 1 + 30)
    assert watch.clean == 11


def test_a_pause_is_not_a_loop():
    watch = Watch(10.0)
    pause = [(77, *frame[1:]) for frame in speech(18, seed=2)]
    still = [(5,) * 7] * 10
    frames = speech(20) + pause + speech(10, seed=3) + still + speech(10, seed=4)
    assert first_fault(watch, frames) == ("", 0)
    assert watch.finish() == ""
