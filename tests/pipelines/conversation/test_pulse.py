"""What is counted of a call's replies: the voice's pace, and a listener that runs dry or not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.pulse import READY_MS, RESERVE_MS, SETTLED_MS, Pulse


def test_what_the_voice_made_and_how_long_it_took_adds_up() -> None:
    pulse = Pulse()
    pulse.made(400, 100)
    pulse.made(600, 300)
    assert (pulse.made_ms, pulse.making_ms) == (1_000, 400)
    pulse.made(9_000, READY_MS / 2)
    assert (pulse.made_ms, pulse.making_ms) == (1_000, 400), "that was there already"


def test_audio_that_comes_within_the_reserve_is_in_time() -> None:
    pulse = Pulse()
    pulse.sent(100, now=0)
    pulse.sent(100, now=100 + RESERVE_MS)
    assert (pulse.sent_ms, pulse.underruns, pulse.underrun_ms) == (200, 0, 0)


def test_audio_that_comes_later_is_an_underrun_and_the_reserve_is_gone() -> None:
    pulse = Pulse()
    pulse.sent(100, now=0)
    pulse.sent(100, now=100 + RESERVE_MS + 30)
    assert (pulse.underruns, pulse.underrun_ms) == (1, 30)
    pulse.sent(100, now=100 + RESERVE_MS + 30 + 150)
    assert (pulse.underruns, pulse.underrun_ms) == (2, 80)


def test_audio_on_the_dot_is_in_time_whatever_floats_make_of_it() -> None:
    pulse, piece = Pulse(), 1000 / 7
    pulse.sent(piece, now=0.1)
    pulse.sent(piece, now=0.1 + RESERVE_MS + piece + 10)
    now = 0.1 + RESERVE_MS + piece + 10
    for _ in range(200):
        now += piece
        pulse.sent(piece, now)
    assert pulse.underruns == 1


def test_silence_between_replies_is_no_underrun() -> None:
    pulse = Pulse()
    pulse.sent(100, now=0)
    pulse.rest()
    pulse.sent(100, now=60_000)
    assert pulse.underruns == 0


def test_a_reply_that_queues_up_behind_another_is_late_only_when_that_is_over() -> None:
    pulse = Pulse()
    pulse.sent(3_000, now=0)
    pulse.rest()
    pulse.sent(100, now=1_000)
    pulse.sent(100, now=3_000)
    assert pulse.underruns == 0
    pulse.cut()
    pulse.sent(100, now=3_000)
    pulse.sent(100, now=3_200)
    assert (pulse.underruns, pulse.underrun_ms) == (1, 40), "what was cut is of no use"


def test_a_reply_that_has_just_begun_or_is_sent_has_no_lead() -> None:
    pulse = Pulse()
    assert pulse.lead_ms(0) is None
    pulse.sent(5_000, now=0)
    assert pulse.lead_ms(SETTLED_MS - 1) is None
    assert pulse.lead_ms(SETTLED_MS) == 5_000 + RESERVE_MS - SETTLED_MS
    pulse.rest()
    assert pulse.lead_ms(SETTLED_MS) is None


def test_the_lead_of_a_listener_who_is_dry_is_below_nothing() -> None:
    pulse = Pulse()
    pulse.sent(1_000, now=0)
    assert pulse.lead_ms(1_500) == 1_000 + RESERVE_MS - 1_500


pieces = st.lists(
    st.tuples(st.floats(0, 500), st.floats(0, 700), st.booleans()), min_size=1, max_size=40
)


@given(pieces)
def test_a_listener_has_played_and_lacked_as_long_as_it_has_listened(
    pieces: list[tuple[float, float, bool]],
) -> None:
    """Without rests between: reserve, audio and gaps fill the time from the first audio on."""
    pulse, now, sent = Pulse(), 0.0, 0.0
    for audio_ms, wait_ms, _ in pieces:
        pulse.sent(audio_ms, now)
        sent += audio_ms
        now += wait_ms
    lead = pulse._dry_at - now
    assert RESERVE_MS + sent + pulse.underrun_ms == pytest.approx(now + lead, abs=0.05)


@given(pieces)
def test_counters_only_rise_and_stay_numbers(pieces: list[tuple[float, float, bool]]) -> None:
    pulse, now = Pulse(), 0.0
    for audio_ms, wait_ms, rests in pieces:
        before = (pulse.underruns, pulse.underrun_ms)
        pulse.sent(audio_ms, now)
        assert (pulse.underruns, pulse.underrun_ms) >= before
        assert math.isfinite(pulse.underrun_ms)
        if rests:
            pulse.rest() if wait_ms > 350 else pulse.cut()
        now += wait_ms
