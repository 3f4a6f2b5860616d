"""When batches close: at once, at the window's end, or in time for the tightest deadline."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engines.batching.policy import BatchPolicy

AT_ONCE = float("-inf")


def policy(*, expected: int = 1, max_batch: int = 4, cost_ms: float = 0) -> BatchPolicy[str]:
    policy: BatchPolicy[str] = BatchPolicy(
        max_batch=max_batch, window_ms=15, cost_ms=cost_ms, slack_ms=2
    )
    policy.expected = expected
    return policy


def test_nothing_queued_is_nothing_due() -> None:
    empty = policy()
    assert (len(empty), empty.deadline, empty.take(now=1e9)) == (0, None, [])


def test_one_caller_alone_never_waits() -> None:
    alone = policy(expected=1)
    alone.add("a", now=100)
    assert alone.deadline == AT_ONCE
    assert alone.take(now=100) == ["a"]
    assert alone.deadline is None


@pytest.mark.parametrize("expected", [0, -1])
def test_with_nobody_expected_nobody_waits(expected: int) -> None:
    quiet = policy(expected=expected)
    quiet.add("a", now=0)
    assert quiet.take(now=0) == ["a"]


def test_a_batch_closes_once_everyone_expected_is_in() -> None:
    three = policy(expected=3)
    three.add("a", now=0)
    three.add("b", now=1)
    assert three.take(now=2) == []
    three.add("c", now=2)
    assert three.take(now=2) == ["a", "b", "c"]


def test_a_batch_closes_when_fewer_are_expected_than_before() -> None:
    two = policy(expected=2)
    two.add("a", now=0)
    two.expected = 1
    assert two.take(now=0) == ["a"]


def test_a_batch_closes_when_its_oldest_item_has_waited_long_enough() -> None:
    three = policy(expected=3)
    three.add("a", now=0)
    three.add("b", now=10)
    assert three.deadline == 15
    assert three.take(now=14.9) == []
    assert three.take(now=15) == ["a", "b"]


def test_a_batch_closes_in_time_for_its_tightest_deadline() -> None:
    three = policy(expected=3, cost_ms=5)
    three.add("a", now=0)
    three.add("b", now=1, deadline=12)
    assert three.deadline == 12 - 5 - 2
    assert three.take(now=5) == ["b", "a"]


def test_a_deadline_that_has_passed_is_due_now() -> None:
    three = policy(expected=3)
    three.add("a", now=100, deadline=50)
    assert three.take(now=100) == ["a"]


def test_a_full_batch_takes_the_most_urgent_and_leaves_the_rest_due() -> None:
    full = policy(expected=9, max_batch=2)
    for item, deadline in [("later", 90.0), ("soon", 30.0), ("whenever", float("inf"))]:
        full.add(item, now=0, deadline=deadline)
    assert full.deadline == AT_ONCE
    assert full.take(now=0) == ["soon", "later"]
    assert full.take(now=1) == []
    assert full.take(now=15) == ["whenever"]


def test_equally_urgent_items_are_taken_as_they_came() -> None:
    four = policy(expected=4)
    for item in "dbca":
        four.add(item, now=0)
    assert four.take(now=0) == ["d", "b", "c", "a"]


def test_batches_of_one_are_fine_and_batches_of_none_are_refused() -> None:
    ones = policy(expected=9, max_batch=1)
    ones.add("a", now=0)
    assert ones.take(now=0) == ["a"]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        BatchPolicy[str](max_batch=0, window_ms=15)


# --- whatever comes -------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    arrived: float
    deadline: float


class AnyQueue(RuleBasedStateMachine):
    """Items come at any time; a runner takes what is due as it wakes at each deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.policy: BatchPolicy[Job] = BatchPolicy(
            max_batch=3, window_ms=15, cost_ms=4, slack_ms=1
        )
        self.now = 0.0
        self.queued: list[Job] = []
        self.batches: list[list[Job]] = []
        self.late: list[Job] = []
        self.disordered: list[list[Job]] = []

    def run_what_is_due(self) -> None:
        while batch := self.policy.take(self.now):
            self.batches.append(batch)
            for job in batch:
                self.queued.remove(job)
            self.late += [job for job in batch if self.now > job.arrived + 15]
            left = min((job.deadline for job in self.queued), default=float("inf"))
            deadlines = [job.deadline for job in batch]
            if deadlines != sorted(deadlines) or deadlines[-1] > left:
                self.disordered.append(batch)

    @rule(n=st.integers(1, 5), within_ms=st.sampled_from([float("inf"), -5.0, 3.0, 8.0, 40.0]))
    def items_arrive(self, n: int, within_ms: float) -> None:
        for _ in range(n):
            job = Job(self.now, self.now + within_ms)
            self.queued.append(job)
            self.policy.add(job, self.now, job.deadline)
        self.run_what_is_due()

    @rule(expected=st.integers(0, 8))
    def callers_come_and_go(self, expected: int) -> None:
        self.policy.expected = expected
        self.run_what_is_due()

    @precondition(lambda self: self.policy.deadline is not None)
    @rule()
    def the_deadline_passes(self) -> None:
        before = len(self.queued)
        self.now = max(self.now, self.policy.deadline or 0.0)
        self.run_what_is_due()
        assert len(self.queued) < before, "waking at the deadline always runs something"

    @rule(share=st.floats(0, 0.99))
    def time_passes_but_not_the_deadline(self, share: float) -> None:
        deadline = self.policy.deadline
        self.now += share * ((deadline if deadline is not None else self.now + 10) - self.now)
        self.run_what_is_due()

    @invariant()
    def no_batch_is_too_large_or_empty(self) -> None:
        assert all(1 <= len(batch) <= 3 for batch in self.batches)

    @invariant()
    def the_most_urgent_go_first(self) -> None:
        assert self.disordered == []

    @invariant()
    def nobody_waits_longer_than_the_window(self) -> None:
        assert self.late == []

    @invariant()
    def nobody_waits_once_everyone_expected_is_in(self) -> None:
        assert len(self.queued) < max(1, min(3, self.policy.expected))

    @invariant()
    def nothing_is_lost_and_what_waits_has_a_deadline(self) -> None:
        assert len(self.policy) == len(self.queued)
        assert (self.policy.deadline is None) == (not self.queued)

    @invariant()
    def no_batch_closes_too_late_for_an_item_that_came_in_time(self) -> None:
        """4 ms to run and 1 to spare, so 5 before its deadline it has gone."""
        waiting = [job for job in self.queued if job.deadline - 5 <= self.now]
        assert waiting == []


AnyQueue.TestCase.settings = settings(stateful_step_count=40)
TestAnyQueue = AnyQueue.TestCase


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=30))
def test_draining_gives_every_item_once_tightest_first(deadlines: list[float]) -> None:
    queue: BatchPolicy[float] = BatchPolicy(max_batch=4, window_ms=15)
    for deadline in deadlines:
        queue.add(deadline, now=0, deadline=deadline)
    drained = []
    while batch := queue.take(now=0):
        drained += batch
    assert drained == sorted(deadlines)
