"""The overload ladder: up while a sign stands, down after a calm, and never to and fro."""

import itertools
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.strain import Strain
from voice.ladder import (
    FALLING,
    FEW,
    GROWTH,
    MOST_LEAP,
    MOST_PATIENCE,
    SETTLE_S,
    SIGNS,
    Ladder,
    OverloadSettings,
    Sign,
    Signs,
)

SETTINGS = OverloadSettings()
RISE, FALL = SETTINGS.rise_s, SETTINGS.fall_s
CALM = Signs(loop_lag_ms=1.0)
BETWEEN = Signs(loop_lag_ms=150.0)
STRAINED = Signs(loop_lag_ms=260.0)


class House:
    """A ladder and its clock; asked each half second, as the house is."""

    def __init__(self, settings: OverloadSettings = SETTINGS) -> None:
        self.ladder = Ladder(settings)
        self.now = 100.0

    def lasts(self, signs: Signs, seconds: float) -> list[Strain]:
        """The steps, runs of the same taken together."""
        told = [self.ladder.strain]
        until = self.now + seconds
        while True:
            strain = self.ladder.step(signs, self.now)
            if strain is not told[-1]:
                told.append(strain)
            if self.now >= until:
                return told[1:]
            self.now += 0.5

    def climbs_to(self, strain: Strain) -> "House":
        while self.ladder.strain < strain:
            self.lasts(STRAINED, 0.5)
        return self


# --- up ---------------------------------------------------------------------------------------


def test_it_climbs_a_step_each_second_that_a_sign_stands() -> None:
    house = House()
    assert house.lasts(STRAINED, RISE - 0.5) == []
    assert house.lasts(STRAINED, 0.5) == [Strain.SLOW_PARTIALS]
    assert house.lasts(STRAINED, 60) == list(Strain)[2:]
    assert house.lasts(STRAINED, 60) == []


def test_a_sign_that_does_not_stand_moves_nothing() -> None:
    house = House()
    for _ in range(100):
        assert house.lasts(STRAINED, 0.5) == house.lasts(CALM, 0.5) == []
        assert house.lasts(STRAINED, 0.5) == house.lasts(BETWEEN, 0.5) == []


@pytest.mark.parametrize(
    ("lag_ms", "step"),
    [(250, 1), (499, 1), (500, 2), (749, 2), (750, MOST_LEAP), (5e9, MOST_LEAP), (math.inf, 3)],
)
def test_a_sign_at_n_times_its_limit_takes_n_steps_but_no_more_than_three(
    lag_ms: float, step: int
) -> None:
    house = House()
    assert house.lasts(Signs(loop_lag_ms=lag_ms), RISE) == [Strain(step)]


def test_it_never_climbs_past_the_top() -> None:
    house = House().climbs_to(Strain.NO_FILES)
    assert house.lasts(Signs(loop_lag_ms=math.inf), 60) == [Strain.NO_CALLS]


@pytest.mark.parametrize("sign", SIGNS)
def test_each_sign_counts_and_can_be_ignored(sign: Sign) -> None:
    calm, strained = SETTINGS.limits(sign)
    bad, good = Signs(**{sign: strained}), Signs(**{sign: calm})
    assert House().lasts(bad, RISE) == [Strain.SLOW_PARTIALS]
    deaf = replace(SETTINGS, ignore=(sign,))
    assert House(deaf).lasts(bad, 60) == []
    house = House().climbs_to(Strain.SLOW_PARTIALS)
    assert house.lasts(good, FALL) == [Strain.NONE], "its limit itself is calm"


def test_the_signs_are_those_that_have_limits() -> None:
    assert {field.name for field in fields(Signs)} - {"calls"} == set(SIGNS)
    assert set(FALLING) <= set(SIGNS)
    assert all(isinstance(SETTINGS.limits(sign), tuple) for sign in SIGNS)


def test_one_sign_is_enough_however_calm_the_others_are() -> None:
    signs = Signs(loop_lag_ms=0.1, queue_ms=0.0, queued=0, tts_load=0.01, lead_ms=5.0)
    assert House().lasts(signs, RISE) == [Strain(MOST_LEAP)]


@pytest.mark.parametrize("lead_ms", [0.0, -250.0])
def test_a_listener_who_is_dry_is_as_bad_as_it_gets(lead_ms: float) -> None:
    assert House().lasts(Signs(lead_ms=lead_ms), RISE) == [Strain(MOST_LEAP)]


# --- down -------------------------------------------------------------------------------------


def test_it_comes_down_one_step_at_a_time_after_a_calm() -> None:
    house = House().climbs_to(Strain.NO_CALLS)
    assert house.lasts(CALM, FALL - 0.5) == []
    assert house.lasts(CALM, 0.5) == [Strain.NO_FILES]
    assert house.lasts(CALM, 5 * FALL) == [4, 3, 2, 1, 0]


def test_between_the_limits_it_stays_where_it_is() -> None:
    house = House().climbs_to(Strain.NO_SPECULATION)
    assert house.lasts(BETWEEN, 3_600) == []
    house.lasts(CALM, FALL - 0.5)
    house.lasts(BETWEEN, 0)
    assert house.lasts(CALM, FALL - 0.5) == [], "a calm that was broken begins anew"


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_not_measured_says_nothing_and_holds_nobody_up(nothing: float | None) -> None:
    unknown = Signs(**dict.fromkeys(SIGNS, nothing))  # type: ignore[arg-type]
    assert House().lasts(unknown, 60) == []
    house = House().climbs_to(Strain.NO_PARTIALS)
    assert house.lasts(unknown, 2 * FALL) == [Strain.SLOW_PARTIALS, Strain.NONE]


def test_a_house_where_nobody_is_in_is_calm_at_once() -> None:
    house = House().climbs_to(Strain.NO_CALLS)
    assert house.lasts(replace(CALM, calls=0), 0) == [Strain.NONE]


def test_an_empty_house_that_is_pressed_all_the_same_waits_like_any() -> None:
    house = House()
    assert house.lasts(replace(STRAINED, calls=0), RISE) == [Strain.SLOW_PARTIALS]
    assert house.lasts(replace(BETWEEN, calls=0), 60) == []


def test_who_climbs_again_soon_waits_twice_as_long_the_next_time_within_bounds() -> None:
    house, waits = House(), []
    house.climbs_to(Strain.SLOW_PARTIALS)
    for _ in range(6):
        began = house.now
        while house.ladder.strain is not Strain.NONE:
            house.lasts(CALM, 0.5)
        waits.append(house.now - began)
        house.climbs_to(Strain.SLOW_PARTIALS)
    assert waits == pytest.approx([FALL * n for n in (1, 2, 4, 8, 8, 8)], abs=1)
    assert MOST_PATIENCE == 8


def test_a_relapse_of_several_steps_is_one_relapse() -> None:
    house = House().climbs_to(Strain.SLOW_PARTIALS)
    house.lasts(CALM, FALL)
    house.climbs_to(Strain.NO_CALLS)
    assert house.lasts(CALM, 2 * FALL - 0.5) == []
    assert house.lasts(CALM, 0.5) == [Strain.NO_FILES]


def test_who_has_been_well_for_long_is_trusted_again() -> None:
    house = House().climbs_to(Strain.SLOW_PARTIALS)
    house.lasts(CALM, FALL)
    house.climbs_to(Strain.SLOW_PARTIALS)
    house.lasts(CALM, 2 * FALL)
    house.lasts(CALM, 60)
    house.climbs_to(Strain.SLOW_PARTIALS)
    assert house.lasts(CALM, FALL) == [Strain.NONE]


# --- who is taken in --------------------------------------------------------------------------

CALLS = 40


def with_calls(signs: Signs, calls: int = CALLS) -> Signs:
    return replace(signs, calls=calls)


def test_a_calm_house_takes_whoever_comes_and_one_that_is_not_takes_nobody_at_once() -> None:
    house = House()
    house.lasts(with_calls(CALM), 60)
    assert house.ladder.bearable == math.inf
    for signs in (BETWEEN, STRAINED):
        house.lasts(with_calls(signs), 0)
        assert house.ladder.bearable == CALLS


def test_behind_that_it_takes_them_in_by_and_by() -> None:
    house = House()
    house.lasts(with_calls(BETWEEN), 0)
    house.now += 0.5
    house.lasts(with_calls(CALM), 0.5)
    assert house.ladder.bearable == pytest.approx(CALLS * (1 + GROWTH))
    house.lasts(with_calls(BETWEEN), 0)
    assert house.ladder.bearable == CALLS


def test_a_small_house_takes_one_each_time_that_it_has_settled() -> None:
    house = House()
    house.lasts(with_calls(BETWEEN, 2), 0)
    house.now += 0.5
    house.lasts(with_calls(CALM, 2), SETTLE_S - 0.5)
    assert house.ladder.bearable == pytest.approx(3)


def test_a_second_page_comes_in_unless_somebody_is_hurt_or_something_was_left_off() -> None:
    house = House()
    house.lasts(with_calls(BETWEEN, 1), 0)
    assert house.ladder.bearable == FEW == 2
    house.lasts(with_calls(STRAINED, 1), 0)
    assert house.ladder.bearable == 1
    house.lasts(with_calls(STRAINED, 1), RISE)
    house.lasts(with_calls(BETWEEN, 1), 60)
    assert (house.ladder.strain, house.ladder.bearable) == (Strain.SLOW_PARTIALS, 1)


def test_nobody_is_held_back_any_more_where_there_is_ample_room() -> None:
    house = House()
    house.lasts(with_calls(BETWEEN), 0)
    house.lasts(with_calls(CALM), 60)
    assert house.ladder.bearable == math.inf
    house.lasts(with_calls(BETWEEN), 0)
    house.lasts(with_calls(CALM, 1), 0.5)
    assert house.ladder.bearable == math.inf, "most have gone"


def test_a_crowd_that_waits_at_the_door_never_comes_in_at_once() -> None:
    house, calls = House(), CALLS
    house.lasts(with_calls(BETWEEN), 0)
    for _ in range(60):
        house.now += 0.5
        house.ladder.step(with_calls(CALM, calls), house.now)
        assert house.ladder.bearable < calls * (1 + GROWTH) + 1
        calls = int(house.ladder.bearable)
    assert calls > 2 * CALLS


def test_after_a_step_up_it_sees_first_whether_that_helps() -> None:
    house = House()
    house.lasts(with_calls(STRAINED), RISE)
    house.lasts(with_calls(CALM), SETTLE_S - 0.5)
    assert house.ladder.bearable == CALLS
    house.now += 0.5
    house.lasts(with_calls(CALM), 0.5)
    assert house.ladder.bearable > CALLS, "strained as it is: it has left enough off"


def test_an_empty_house_can_bear_whoever_comes() -> None:
    house = House()
    house.lasts(with_calls(STRAINED, 0), 60)
    assert house.ladder.bearable == math.inf, "it is its step that keeps them out"


# --- clocks -----------------------------------------------------------------------------------


def test_a_clock_that_stands_still_or_goes_back_moves_nothing() -> None:
    ladder = Ladder(SETTINGS)
    for now in [10.0] * 50 + [9.0, -5.0, 10.0] * 20:
        assert ladder.step(STRAINED, now) is Strain.NONE
    assert ladder.step(STRAINED, 11.0) is Strain.SLOW_PARTIALS


def test_one_long_gap_is_one_step() -> None:
    ladder = Ladder(SETTINGS)
    ladder.step(STRAINED, 0.0)
    assert ladder.step(STRAINED, 3_600.0) is Strain.SLOW_PARTIALS


# --- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"loop_lag_ms": (50.0, 20.0)}, r"must be the lower one. Write \[20, 50\]"),
        ({"queue_ms": (0.0, 300.0)}, "above 0"),
        ({"tts_load": (0.8, 0.0)}, "above 0"),
        ({"queued": (-1.0, 8.0)}, "above 0"),
        ({"underrun_share": (0.1, math.nan)}, "above 0"),
        ({"underrun_share": (0.1, math.inf)}, "above 0"),
        ({"lead_ms": (30.0, 60.0)}, r"must be the higher one. Write \[60, 30\]"),
        ({"lead_ms": (30.0, 30.0)}, "higher"),
        ({"tts_load": (0.9, 0.9)}, "lower"),
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        OverloadSettings(**wrong)
    assert str(refused.value).startswith(next(iter(wrong)))


# --- whatever comes ---------------------------------------------------------------------------

values = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 800),
)
any_signs = st.builds(Signs, *[values] * len(SIGNS), st.integers(0, 3))
flapping = st.sampled_from([CALM, BETWEEN, STRAINED, Signs(loop_lag_ms=2_000.0)])
stories = st.lists(
    st.tuples(st.one_of(flapping, any_signs), st.floats(-1.0, 3.0)), min_size=1, max_size=80
)


def told_of(stories: list[tuple[Signs, float]]) -> list[tuple[float, Signs, Strain]]:
    ladder, clock, latest, told = Ladder(SETTINGS), 0.0, -math.inf, []
    for signs, elapsed in stories:
        clock += elapsed
        latest = max(latest, clock)
        told.append((latest, signs, ladder.step(signs, clock)))
    return told


@given(stories)
def test_it_climbs_by_three_at_most_and_comes_down_by_one_unless_nobody_is_in(
    stories: list[tuple[Signs, float]],
) -> None:
    before = Strain.NONE
    for _, signs, strain in told_of(stories):
        assert isinstance(strain, Strain)
        if strain < before:
            assert strain == before - 1 or (strain is Strain.NONE and not signs.calls)
        assert strain <= before + MOST_LEAP
        before = strain


@given(stories)
def test_nobody_is_taken_in_where_somebody_is_hurt_or_may_be(
    stories: list[tuple[Signs, float]],
) -> None:
    ladder, now = Ladder(SETTINGS), 0.0
    for signs, elapsed in stories:
        now += abs(elapsed)
        strain = ladder.step(signs, now)
        weights = list(signs.weighed(SETTINGS))
        calm, hurt = all(each[2] for each in weights), any(each[1] >= 1 for each in weights)
        if signs.calls and (strain is Strain.NO_CALLS or not calm):
            few = 0 if hurt or strain else FEW
            assert ladder.bearable == max(signs.calls, few)
        assert not math.isnan(ladder.bearable)


@given(stories)
def test_it_climbs_only_under_strain_that_has_stood_and_falls_only_in_a_calm_that_has(
    stories: list[tuple[Signs, float]],
) -> None:
    before, strained_at, calm_at = Strain.NONE, math.inf, math.inf
    for now, signs, strain in told_of(stories):
        weights = list(signs.weighed(SETTINGS))
        strained = any(weight >= 1 for _, weight, _ in weights)
        calm = all(is_calm for _, _, is_calm in weights)
        strained_at = min(strained_at, now) if strained else math.inf
        calm_at = min(calm_at, now) if calm else math.inf
        if strain > before:
            assert now - strained_at >= RISE
            strained_at = now
        if strain < before:
            assert calm
            assert now - calm_at >= FALL or not signs.calls
            calm_at = now
        before = strain


@given(stories)
def test_after_enough_calm_everything_is_as_it_was(stories: list[tuple[Signs, float]]) -> None:
    ladder, now = Ladder(SETTINGS), 0.0
    for signs, elapsed in stories:
        now += abs(elapsed)
        ladder.step(signs, now)
    for _ in range(int(2 * (len(Strain) + 1) * FALL * MOST_PATIENCE)):
        now += 0.5
        ladder.step(CALM, now)
    assert ladder.strain is Strain.NONE


@given(stories, st.sampled_from([STRAINED, Signs(tts_load=2.0), Signs(lead_ms=-1.0)]))
def test_under_strain_that_stays_no_call_is_taken_in_soon(
    stories: list[tuple[Signs, float]], signs: Signs
) -> None:
    ladder, now = Ladder(SETTINGS), 0.0
    for before, elapsed in stories:
        now += abs(elapsed)
        ladder.step(before, now)
    for _ in range(int(2 * (len(Strain) * RISE)) + 1):
        now += 0.5
        ladder.step(signs, now)
    assert ladder.strain is Strain.NO_CALLS


@given(st.lists(st.sampled_from([CALM, STRAINED]), min_size=1, max_size=400))
def test_however_it_flaps_it_comes_down_no_more_often_than_its_calms_allow(
    signs: list[Signs],
) -> None:
    house, strains = House(), []
    for each in signs:
        strains.append(house.ladder.step(each, house.now))
        house.now += 0.5
    falls = sum(later < sooner for sooner, later in itertools.pairwise(strains))
    assert falls <= len(signs) * 0.5 / FALL


@given(any_signs)
def test_every_weight_is_a_number(signs: Signs) -> None:
    for _, weight, _ in signs.weighed(SETTINGS):
        assert not math.isnan(weight)
