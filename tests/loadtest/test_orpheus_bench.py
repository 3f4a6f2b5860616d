"""The benchmark's own judgement: what counts as a frame that is not the one it should be."""

import numpy as np
import pytest

from loadtest.orpheus_bench import FRAME_SAMPLES, RATE, Reply, damage


def test_damage_tells_lost_doubled_and_changed_frames_apart() -> None:
    said = np.arange(4 * FRAME_SAMPLES, dtype=np.int16)
    assert damage(said, said) == (0, 0)
    assert damage(said[: 3 * FRAME_SAMPLES], said) == (1, 0)
    doubled = np.concatenate([said, said[:FRAME_SAMPLES]])
    assert damage(doubled, said) == (-1, 0)
    changed = said.copy()
    changed[FRAME_SAMPLES + 5] += 3
    changed[FRAME_SAMPLES + 9] += 4
    assert damage(changed, said) == (0, 1)
    changed = said.copy()
    changed[3] += 2
    assert damage(changed, said) == (0, 0)


def test_gaps_are_those_of_a_player_that_waited_60_ms() -> None:
    second = bytes(2 * RATE)
    arrivals = [(10.0, RATE), (11.05, RATE), (12.5, RATE)]
    reply = Reply(9.0, pieces=[second] * 3, first_at=10.0, last_at=12.5, arrivals=arrivals)
    assert reply.gaps(RATE) == [pytest.approx(0.44)]
    assert reply.own_rate == RATE * 3 / 2.5
    assert reply.gaps(reply.own_rate) == pytest.approx([1.05 - 0.06 - 1 / 1.2, 1.45 - 1 / 1.2])
