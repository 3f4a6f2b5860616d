"""Audio in order: nothing twice, a little patience, and silence for what is lost."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Samples
from voice.wire.phone_order import FAR_BEHIND, MOST_HELD, Reordering

FRAME = 160
RATE = 8_000


def frame(number: int) -> Samples:
    return np.full(FRAME, number % 30_000 + 1, np.int16)


def heard(given_out: list[Samples]) -> list[int]:
    """The numbers of the frames, 0 for a frame of silence."""
    samples = np.concatenate([np.zeros(0, np.int16), *given_out])
    assert len(samples) % FRAME == 0
    return [int(value) - 1 if value else 0 for value in samples[::FRAME]]


def test_what_comes_in_order_goes_on_at_once() -> None:
    order = Reordering(RATE)
    assert [heard(order.add(n, frame(n))) for n in (1, 2, 3)] == [[1], [2], [3]]


def test_two_that_changed_places_are_put_right() -> None:
    order = Reordering(RATE)
    order.add(1, frame(1))
    assert heard(order.add(3, frame(3))) == []
    assert heard(order.add(2, frame(2))) == [2, 3]


def test_one_that_is_lost_is_silence_once_others_have_waited() -> None:
    order = Reordering(RATE)
    order.add(1, frame(1))
    for n in range(3, 3 + MOST_HELD):
        assert heard(order.add(n, frame(n))) == []
    assert heard(order.add(7, frame(7))) == [0, 3, 4, 5, 6, 7]


def test_one_that_comes_too_late_or_twice_is_dropped() -> None:
    order = Reordering(RATE)
    order.add(5, frame(5))
    assert order.add(4, frame(4)) == []
    assert order.add(5, frame(5)) == []
    order.add(7, frame(7))
    assert order.add(7, frame(9)) == []
    assert heard(order.add(6, frame(6))) == [6, 7]


def test_a_gap_is_not_longer_than_a_second() -> None:
    order = Reordering(RATE)
    order.add(1, frame(1))
    order.add(10**12, frame(2))
    assert sum(map(len, order.flush())) == RATE + FRAME


def test_counting_anew_does_not_silence_the_caller() -> None:
    order = Reordering(RATE)
    order.add(FAR_BEHIND + 10, frame(1))
    order.add(FAR_BEHIND + 12, frame(2))
    assert heard(order.add(1, frame(1))) == [0, 2, 1]


def test_what_is_held_comes_out_at_the_end() -> None:
    order = Reordering(RATE)
    assert order.flush() == []
    order.add(1, frame(1))
    order.add(3, frame(3))
    assert heard(order.flush()) == [0, 3]
    assert heard(order.add(4, frame(4))) == [4]


@given(numbers=st.permutations(range(1, 15)), lost=st.sets(st.integers(1, 14)))
def test_whatever_the_network_does_time_goes_forward(numbers: list[int], lost: set[int]) -> None:
    order = Reordering(RATE)
    out = [
        sample for n in numbers if n not in lost for sample in order.add(n, frame(n))
    ] + order.flush()
    played = [n for n in heard(out) if n]
    assert played == sorted(set(played))
    assert set(played) <= set(range(1, 15)) - lost
