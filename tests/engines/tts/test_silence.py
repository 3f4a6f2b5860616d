"""What is left of the silence around speech."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tts.silence import pause_after, sounding, trim

RATE = 24_000


def speech(head_s, loud_s, tail_s, level=0.1):
    time = np.arange(round(loud_s * RATE)) / RATE
    tone = level * np.sin(2 * np.pi * 200 * time)
    parts = [np.zeros(round(head_s * RATE)), tone, np.zeros(round(tail_s * RATE))]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("hello.", 0.28),
        ("hello!", 0.28),
        ("hello? ", 0.28),
        ("hello…", 0.28),
        ('"hello."', 0.28),
        ("well,", 0.14),
        ("one;", 0.14),
        ("note: ", 0.14),
        ("and then", 0.06),
        ("", 0.06),
    ],
)
def test_the_pause_goes_by_the_punctuation(text, pause):
    assert pause_after(text) == pause


def test_speech_keeps_a_short_head_and_its_pause():
    trimmed, start = trim(speech(0.3, 0.5, 0.4), RATE, 0.14)
    assert start == pytest.approx(0.28 * RATE, abs=0.006 * RATE)
    assert len(trimmed) == pytest.approx((0.02 + 0.5 + 0.14) * RATE, abs=0.006 * RATE)
    assert not trimmed[: round(0.014 * RATE)].any()
    assert abs(trimmed[round(0.02 * RATE) : round(0.05 * RATE)]).max() > 0.05


def test_what_sounds_is_told_in_steps_of_5_ms():
    ends = sounding(speech(0.1, 0.2, 0.3), RATE)
    assert ends.tolist() == [round((0.1 + 0.005 * n) * RATE) for n in range(1, 41)]
    assert sounding(np.zeros(RATE, np.float32), RATE).tolist() == []


def test_no_silence_is_put_where_there_is_none():
    samples = speech(0.0, 0.5, 0.1)
    trimmed, start = trim(samples, RATE, 0.28)
    assert (len(trimmed), start) == (len(samples), 0)


def test_the_end_fades_so_that_it_does_not_click():
    trimmed, _ = trim(speech(0.0, 0.5, 0.0), RATE, 0.0)
    assert trimmed[-1] == 0.0
    assert abs(trimmed[-60]) <= 0.05


@pytest.mark.parametrize(
    "samples", [np.zeros(0), np.zeros(50), np.zeros(RATE), np.full(RATE, 1e-3)]
)
def test_silence_leaves_nothing(samples):
    trimmed, start = trim(samples.astype(np.float32), RATE, 0.28)
    assert (len(trimmed), start) == (0, 0)


@given(st.floats(0, 0.5), st.floats(0.01, 0.5), st.floats(0, 0.5), st.floats(0, 0.4))
def test_what_is_loud_is_never_cut(head, loud, tail, pause):
    samples = speech(head, loud, tail)
    before = samples.copy()
    trimmed, start = trim(samples, RATE, pause)
    assert np.array_equal(samples, before)
    body = len(trimmed) - round(0.005 * RATE)
    assert np.array_equal(trimmed[:body], samples[start : start + body])
    assert loud * RATE - 0.006 * RATE <= len(trimmed) <= (0.03 + loud + pause) * RATE
