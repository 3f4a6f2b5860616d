"""Batches, counted."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.batching.tally import ROWS, STEPS_MS, WAITS_MS, Spread, Tally
from engines.ports import Load

BATCHES = st.lists(
    st.tuples(st.integers(1, 400), st.integers(1, 400), st.floats(0, 1e4), st.floats(0, 1e4)),
    max_size=20,
)


def tally_of(batches: list[tuple[int, int, float, float]]) -> Tally:
    tally = Tally()
    for batch in batches:
        tally.add(*batch)
    return tally


@pytest.mark.parametrize(("value", "place"), [(0, 0), (1, 0), (1.5, 1), (2, 1), (256, 8), (257, 9)])
def test_a_value_counts_at_the_smallest_bound_that_holds_it(value: float, place: int) -> None:
    spread = Spread.over(ROWS)
    spread.add(ROWS, value)
    assert [index for index, count in enumerate(spread.counts) if count] == [place]
    assert spread.total == value


@given(BATCHES)
def test_every_batch_is_counted_once_in_each(batches: list[tuple[int, int, float, float]]) -> None:
    tally = tally_of(batches)
    assert sum(sum(spread.counts) for spread in tally.rows.values()) == len(batches)
    assert sum(tally.wait_ms.counts) == sum(tally.step_ms.counts) == len(batches)
    assert sum(spread.total for spread in tally.rows.values()) == sum(each[0] for each in batches)
    assert set(tally.rows) <= set(ROWS)


@given(BATCHES, BATCHES)
def test_two_places_together_are_one_with_all_their_batches(
    here: list[tuple[int, int, float, float]], there: list[tuple[int, int, float, float]]
) -> None:
    both = Tally.of_all([tally_of(here), None, tally_of(there)])
    assert both is not None
    whole = tally_of([*here, *there])
    assert {key: spread.counts for key, spread in both.rows.items()} == {
        key: spread.counts for key, spread in whole.rows.items()
    }
    assert both.wait_ms.total == pytest.approx(whole.wait_ms.total)


def test_places_without_batches_have_none_together() -> None:
    assert Tally.of_all([None, None]) is None
    assert Tally.of_all([]) is None


def test_a_tally_travels_between_processes() -> None:
    load = Load(slots=3, batches=tally_of([(2, 3, 1.0, 2.0)]))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(load), type=Load) == load


def test_there_is_one_count_more_than_bounds() -> None:
    tally = Tally()
    assert len(tally.wait_ms.counts) == len(WAITS_MS) + 1
    assert len(tally.step_ms.counts) == len(STEPS_MS) + 1
