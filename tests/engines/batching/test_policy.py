"""When batches close: at once, at the window's end, or in time for the tightest deadline."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engines.batching.policy import BatchPolicy, StepCost, bucket

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


def test_who_has_waited_longest_is_not_passed_over_for_ever() -> None:
    crowded = policy(expected=9, max_batch=2)
    crowded.add("whenever", now=0)
    for turn in range(2):
        for item in ("a", "b"):
            crowded.add(f"{item}{turn}", now=turn, deadline=50)
    assert crowded.take(now=14) == ["a0", "b0"]
    assert crowded.take(now=15) == ["a1", "whenever"]
    assert crowded.take(now=16) == ["b1"]


def test_who_is_tight_and_has_waited_longest_goes_once() -> None:
    crowded = policy(expected=9, max_batch=2)
    for deadline in (10.0, 20.0, 30.0):
        crowded.add(f"{deadline}", now=0, deadline=deadline)
    assert crowded.take(now=15) == ["10.0", "20.0"]
    assert crowded.take(now=15) == ["30.0"]


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


# --- what was taken back --------------------------------------------------------------------


def test_a_cancelled_item_never_runs_and_nobody_waits_for_it() -> None:
    two = policy(expected=2)
    ticket = two.add("cancelled", now=0)
    two.add("b", now=5)
    two.cancel(ticket)
    assert two.deadline == 5 + 15, "neither does it count as in, nor does its window"
    assert two.take(now=20) == ["b"]


def test_the_deadline_of_a_cancelled_item_hurries_nobody() -> None:
    three = policy(expected=3)
    three.add("a", now=0, deadline=14)
    ticket = three.add("cancelled", now=0, deadline=7)
    assert three.deadline == 7 - 2
    three.cancel(ticket)
    assert three.deadline == 14 - 2


def test_what_has_run_cannot_be_cancelled() -> None:
    one = policy()
    ticket = one.add("a", now=0)
    assert one.take(now=0) == ["a"]
    one.cancel(ticket)
    assert one.deadline is None
    one.add("b", now=1)
    assert one.take(now=1) == ["b"]


def test_it_knows_since_when_the_oldest_waits() -> None:
    policy: BatchPolicy[str] = BatchPolicy(max_batch=4, window_ms=15)
    assert policy.oldest_at is None
    first = policy.add("a", now=10, deadline=90)
    policy.add("b", now=12, deadline=20)
    assert policy.oldest_at == 10
    policy.cancel(first)
    assert policy.oldest_at == 12
    policy.drain()
    assert policy.oldest_at is None


def test_draining_gives_what_waits_as_it_came() -> None:
    three = policy(expected=3)
    three.add("a", now=0, deadline=9)
    three.add("b", now=0, deadline=5)
    assert three.drain() == ["a", "b"]
    assert three.deadline is None
    three.add("c", now=1)
    assert three.deadline == 16, "no deadline is left behind"


# --- what a batch takes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "padded"), [(1, 1), (2, 2), (3, 4), (5, 8), (17, 24), (49, 64), (64, 64), (65, 65)]
)
def test_a_batch_is_padded_to_the_next_bucket_where_there_is_one(count: int, padded: int) -> None:
    assert bucket(count) == padded


def test_buckets_may_be_ones_own() -> None:
    assert [bucket(count, (3, 6)) for count in (1, 3, 4, 7)] == [3, 3, 6, 7]


def test_a_cost_is_learned_from_what_batches_take() -> None:
    cost = StepCost(initial_ms=10)
    assert cost.of(3) == 10
    cost.learn(3, took_ms=20)
    assert cost.of(4) == 12
    for _ in range(50):
        cost.learn(3, took_ms=20)
    assert cost.of(4) == pytest.approx(20, abs=0.01)


def test_what_has_not_run_costs_as_much_as_what_is_next_larger_or_else_the_largest() -> None:
    cost = StepCost()
    for _ in range(50):
        cost.learn(4, took_ms=5)
        cost.learn(24, took_ms=9)
    costs = [cost.of(count) for count in (1, 4, 5, 16, 24, 40, 500)]
    assert costs == pytest.approx([5, 5, 9, 9, 9, 9, 9], abs=0.01)


def test_a_deadline_leaves_time_for_a_batch_of_as_many_as_wait() -> None:
    five = policy(expected=5)
    for _ in range(50):
        five.ran(1, took_ms=3)
        five.ran(2, took_ms=6)
    five.add("a", now=0, deadline=12)
    assert five.deadline == pytest.approx(12 - 2 - 3, abs=0.01)
    five.add("b", now=0, deadline=100)
    assert five.deadline == pytest.approx(12 - 2 - 6, abs=0.01)


def test_one_batch_that_took_for_ever_does_not_hurry_all_that_follow() -> None:
    three = policy(expected=3)
    three.ran(2, took_ms=1000)
    for _ in range(40):
        three.add("a", now=0, deadline=100)
        three.ran(len(three.take(now=15)), took_ms=3)
    three.add("a", now=0, deadline=16)
    assert three.deadline == pytest.approx(16 - 2 - 3, abs=0.1)


# --- whatever comes -------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    number: int
    arrived: float
    deadline: float


class AnyQueue(RuleBasedStateMachine):
    """Items come and are cancelled at any time, on a device that may be busy; a runner takes
    what is due whenever the device is free and the deadline has come."""

    def __init__(self) -> None:
        super().__init__()
        self.policy: BatchPolicy[Job] = BatchPolicy(
            max_batch=3, window_ms=15, cost_ms=4, slack_ms=1
        )
        self.now = 0.0
        self.free = True
        self.free_since = 0.0
        self.tickets: dict[Job, int] = {}  # of what waits
        self.numbers = 0

    def run_what_is_due(self) -> None:
        while self.free and (batch := self.policy.take(self.now)):
            waiting = list(self.tickets)
            for job in batch:
                del self.tickets[job]  # a KeyError: was run twice, or after it was cancelled
            self.check_order(batch, waiting)
            assert all(self.now <= max(job.arrived + 15, self.free_since) for job in batch)

    def check_order(self, batch: list[Job], waiting: list[Job]) -> None:
        assert 1 <= len(batch) <= 3
        in_order = sorted(waiting, key=lambda job: (job.deadline, job.number))
        if batch == in_order[: len(batch)]:
            return
        oldest = waiting[0]
        assert batch == [*in_order[: len(batch) - 1], oldest], "the tightest, in order"
        assert self.now >= oldest.arrived + 15, "only one whose window is over goes before them"

    @rule(n=st.integers(1, 5), within_ms=st.sampled_from([float("inf"), -5.0, 3.0, 8.0, 40.0]))
    def items_arrive(self, n: int, within_ms: float) -> None:
        for _ in range(n):
            self.numbers += 1
            job = Job(self.numbers, self.now, self.now + within_ms)
            self.tickets[job] = self.policy.add(job, self.now, job.deadline)
        self.run_what_is_due()

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def one_is_cancelled(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(list(self.tickets)))
        self.policy.cancel(self.tickets.pop(job))

    @rule(expected=st.integers(0, 8))
    def callers_come_and_go(self, expected: int) -> None:
        self.policy.expected = expected
        self.run_what_is_due()

    @rule()
    def the_device_is_busy(self) -> None:
        self.free = False

    @precondition(lambda self: not self.free)
    @rule()
    def the_device_is_free_again(self) -> None:
        self.free, self.free_since = True, self.now
        self.run_what_is_due()

    @precondition(lambda self: self.free and self.policy.deadline is not None)
    @rule()
    def the_deadline_passes(self) -> None:
        before = len(self.tickets)
        self.now = max(self.now, self.policy.deadline or 0.0)
        self.run_what_is_due()
        assert len(self.tickets) < before, "waking at the deadline always runs something"

    @rule(share=st.floats(0, 0.99))
    def time_passes_but_not_the_deadline(self, share: float) -> None:
        deadline = self.policy.deadline
        step = 10.0 if deadline is None or not self.free else max(0.0, deadline - self.now)
        self.now += share * step
        self.run_what_is_due()

    @invariant()
    def nothing_is_lost_and_what_waits_has_a_deadline(self) -> None:
        assert len(self.policy) == len(self.tickets)
        assert (self.policy.deadline is None) == (not self.tickets)

    @invariant()
    def on_a_free_device_nobody_waits_who_need_not(self) -> None:
        if not self.free:
            return
        assert len(self.tickets) < max(1, min(3, self.policy.expected)), "all are in"
        assert all(self.now < job.arrived + 15 for job in self.tickets), "the window is over"
        # 4 ms to run and 1 to spare: 5 before its deadline it has gone.
        assert all(self.now < job.deadline - 5 for job in self.tickets), "it would come too late"


AnyQueue.TestCase.settings = settings(stateful_step_count=40)
TestAnyQueue = AnyQueue.TestCase


@given(
    rivals=st.lists(st.lists(st.floats(0, 50), max_size=6), min_size=20, max_size=20),
    ahead=st.integers(0, 5),
    max_batch=st.integers(1, 4),
)
def test_who_has_no_deadline_runs_however_many_tighter_ones_keep_coming(
    rivals: list[list[float]], ahead: int, max_batch: int
) -> None:
    """From its window's end on, each batch takes the oldest, so it comes after those before it."""
    queue: BatchPolicy[str] = BatchPolicy(max_batch=max_batch, window_ms=15)
    for _ in range(ahead):
        queue.add("as old", now=0)
    queue.add("patient", now=0)
    order = []
    for turn, deadlines in enumerate(rivals, 1):
        now = 15.0 + turn
        for within in deadlines:
            queue.add("rival", now, now + within)
        order.append("patient" in queue.take(now))
    assert order.index(True) <= ahead


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=30))
def test_emptying_gives_every_item_once_tightest_first(deadlines: list[float]) -> None:
    queue: BatchPolicy[float] = BatchPolicy(max_batch=4, window_ms=15)
    for deadline in deadlines:
        queue.add(deadline, now=0, deadline=deadline)
    emptied = []
    while batch := queue.take(now=0):
        emptied += batch
    assert emptied == sorted(deadlines)
