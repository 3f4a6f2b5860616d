"""Audio goes out by the clock of its samples: whatever comes when, and however late it is asked."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.doors.phone_pacer import EARLY_MS, STEADY, Lead, Pacer

RATE = 8_000
FRAME = 160


def ramp(samples: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + samples).astype(np.int16)


def whole(frames: list[np.ndarray]) -> list[int]:
    return [int(sample) for frame in frames for sample in frame]


def test_a_reply_begins_with_its_lead_and_goes_on_as_it_is_heard() -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(RATE))
    assert len(pacer.take(1_000.0)) == 9  # 180 ms
    assert pacer.deadline == 1_060.0
    assert pacer.take(1_050.0) == []
    assert len(pacer.take(1_060.0)) == 3
    assert pacer.deadline == 1_120.0
    assert pacer.ends_at == 1_240.0


def test_what_is_late_is_made_up_for_as_long_as_the_listener_had_enough() -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(RATE))
    pacer.take(1_000.0)
    assert len(pacer.take(1_150.0)) == 7  # 150 of 180 ms were heard: back to 170
    assert pacer.ends_at == 1_320.0


def test_after_a_standstill_nothing_is_sent_in_a_heap() -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(5 * RATE))
    pacer.take(1_000.0)
    assert len(pacer.take(4_000.0)) == 9
    assert pacer.ends_at == 4_180.0


def test_who_keeps_time_itself_is_given_all_at_once() -> None:
    pacer = Pacer(RATE, 20, paced=False)
    pacer.put(ramp(RATE))
    assert len(pacer.take(1_000.0)) == 50
    assert pacer.deadline is None
    assert pacer.ends_at == 2_000.0


def test_a_frame_that_is_not_full_waits_for_the_end() -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(FRAME + 1))
    [first] = pacer.take(0.0)
    assert pacer.deadline is None
    pacer.fill()
    [last] = pacer.take(0.0)
    assert (len(first), len(last), int(last[0]), int(last[1])) == (FRAME, FRAME, FRAME, 0)
    pacer.fill()
    assert pacer.waiting_ms == 0


def test_nothing_goes_out_while_the_other_side_takes_nothing() -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(RATE))
    pacer.hold(True)
    assert (pacer.deadline, pacer.take(0.0)) == (None, [])
    pacer.hold(False)
    assert len(pacer.take(500.0)) == 9


def test_frames_longer_than_the_lead_go_out_one_by_one() -> None:
    pacer = Pacer(RATE, 200)
    pacer.put(ramp(RATE))
    assert len(pacer.take(0.0)) == 1
    assert pacer.deadline == 80.0
    assert len(pacer.take(80.0)) == 1
    assert pacer.ends_at == 400.0


@pytest.mark.parametrize(("flushed", "ends_at"), [(True, 1_050.0), (False, 1_180.0)])
def test_what_waits_is_forgotten_at_once(flushed: bool, ends_at: float) -> None:
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(RATE))
    pacer.take(1_000.0)
    following = pacer.clear(1_050.0, flushed=flushed)
    assert int(following[0]) == 9 * FRAME
    assert (pacer.deadline, pacer.waiting_ms, pacer.ends_at) == (None, 0, ends_at)
    assert len(pacer.clear(1_050.0, flushed=flushed)) == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "put", "put", "wait", "fill", "clear", "hold", "release"]),
        st.floats(0, 700, allow_nan=False),
    ),
    max_size=60,
)


class Leg:
    """A pacer, and what must come of it."""

    def __init__(self, pacer: Pacer) -> None:
        self.pacer = pacer
        self.frame = pacer.rate * pacer.frame_ms // 1000
        self.now, self.put, self.held = 1_000.0, 0, False
        self.expected: list[int] = []
        self.sent: list[int] = []
        self.log: list[tuple[float, float]] = []

    def do(self, kind: str, amount: float) -> None:
        match kind:
            case "wait":
                self.now += amount
            case "put":
                samples = ramp(int(amount * self.pacer.rate / 1000), self.put)
                self.put += len(samples)
                self.expected += whole([samples])
                self.pacer.put(samples)
            case "fill":
                self.expected += [0] * (-(len(self.expected) - len(self.sent)) % self.frame)
                self.pacer.fill()
            case "clear":
                self.pacer.clear(self.now, flushed=False)
                self.expected = self.expected[: len(self.sent)]
            case _:
                self.held = kind == "hold"
                self.pacer.hold(self.held)
        self._take()

    def _take(self) -> None:
        frames = self.pacer.take(self.now)
        self.sent += whole(frames)
        self.log.append((self.now, len(frames) * self.pacer.frame_ms))
        assert all(len(frame) == self.frame for frame in frames)
        assert not (self.held and frames)
        assert self.sent == self.expected[: len(self.sent)]  # in order, none lost, none twice
        due = self.pacer.deadline  # what is due is out
        assert due is None or due > self.now - EARLY_MS


@given(
    STEPS,
    st.sampled_from([(8_000, 20), (8_000, 30), (16_000, 20), (24_000, 20), (44_100, 20)]),
    st.sampled_from([Lead(), STEADY]),
    st.booleans(),
)
def test_whatever_comes_when_the_promises_hold(
    steps: list[tuple[str, float]], wire: tuple[int, int], lead: Lead, paced: bool
) -> None:
    leg = Leg(Pacer(*wire, lead, paced=paced))
    most_ms = max(lead.most_ms, lead.least_ms + wire[1]) + EARLY_MS
    for kind, amount in steps:
        leg.do(kind, amount)
        assert not paced or leg.pacer.ends_at - leg.now <= most_ms
    if paced:  # in no stretch of time more than its own length and the lead
        for first, (began, _) in enumerate(leg.log):
            total = sum(audio_ms for _, audio_ms in leg.log[first:])
            assert total <= leg.log[-1][0] - began + most_ms + wire[1]


@given(st.lists(st.floats(0.0, 55.0), min_size=200, max_size=400))
def test_jitter_never_drifts_nor_lets_the_listener_run_dry(late: list[float]) -> None:
    """The schedule is absolute: however late each turn is, below the lead, no sample is."""
    pacer = Pacer(RATE, 20)
    pacer.put(ramp(60 * RATE))
    now = began = 10.0
    for lateness in late:
        sent_before = pacer.sent_ms
        pacer.take(now)
        assert pacer.ends_at == pytest.approx(began + pacer.sent_ms)  # never restarted
        assert pacer.sent_ms > sent_before
        due = pacer.deadline
        assert due is not None
        assert math.isfinite(due)
        now = max(now, due) + lateness
