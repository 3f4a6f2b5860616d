"""What the batch policy must be worth, by the simulation that the benchmark prints."""

import numpy as np
import pytest

from loadtest.batch_bench import (
    Figures,
    FirstComeFirstServed,
    Policy,
    Setting,
    Simulation,
    added_wait_us,
    deadlines_first,
    row,
)

FAST = Setting(fixed_ms=3, row_ms=0.1, prebuffer_ms=60, seconds=60, seed=1)
SLOW = Setting(fixed_ms=20, row_ms=1, prebuffer_ms=60, seconds=60, seed=1)


def simulate(policy: Policy, streams: int, setting: Setting = FAST) -> Figures:
    return Simulation(setting, policy, streams).run()


def test_one_stream_alone_never_waits() -> None:
    alone = simulate(deadlines_first(), 1)
    assert len(alone.waits_ms) > 300
    assert np.median(alone.waits_ms) == 0
    assert max(alone.first_waits_ms) == 0
    assert np.median(simulate(FirstComeFirstServed(), 1).waits_ms) == 15


@pytest.mark.parametrize("streams", [8, 24, 64])
def test_first_chunks_wait_less_than_half_as_long(streams: int) -> None:
    ours, theirs = simulate(deadlines_first(), streams), simulate(FirstComeFirstServed(), streams)
    assert np.median(ours.first_waits_ms) < np.median(theirs.first_waits_ms) / 2
    assert np.percentile(ours.first_waits_ms, 95) < np.percentile(theirs.first_waits_ms, 95) / 2
    assert len(ours.batches) < 1.25 * len(theirs.batches), "and not at the price of the device"


def test_a_slow_device_makes_fewer_and_shorter_gaps() -> None:
    ours = simulate(deadlines_first(), 64, SLOW)
    theirs = simulate(FirstComeFirstServed(), 64, SLOW)
    assert len(theirs.underruns_ms) > 10
    assert sum(ours.underruns_ms) < sum(theirs.underruns_ms)


def test_the_same_seed_gives_the_same_figures() -> None:
    assert simulate(deadlines_first(), 8) == simulate(deadlines_first(), 8)


def test_a_row_of_the_table_says_it_all() -> None:
    figures = Figures(10.0, [1.0, 3.0], [2.0], [5.0, 6.0], [7.0], [4, 8], 300.0)
    assert row(24, "ours", figures) == (
        "| 24 | ours | 2.0 / 2.9 | 2.0 / 2.0 | 2, 11 ms | 1, 7 ms | 0 | 6.0 | 3 % |"
    )


async def test_the_runner_adds_less_than_a_millisecond() -> None:
    through, straight = await added_wait_us(200)
    assert np.median(through) - np.median(straight) < 1000
