"""When batches start on a loop: by the policy, by the clock, and by the device's being free."""

import asyncio
from typing import Any

import pytest

from engines.batching.policy import BatchPolicy
from engines.batching.schedule import BatchSchedule, now_ms

pytestmark = pytest.mark.virtual_clock


class Device:
    """Notes what is started and when. While it is ``slow``, a batch ends by ``end_batch``."""

    def __init__(self) -> None:
        self.expected = 1
        self.slow = False
        self.batches: list[list[str]] = []
        self.at_ms: list[float] = []
        self.running: list[asyncio.Future[None]] = []
        policy: BatchPolicy[str] = BatchPolicy(max_batch=4, window_ms=15, cost_ms=3, slack_ms=2)
        self.schedule = BatchSchedule(policy, self.start, lambda: self.expected)
        self._zero = now_ms()

    def start(self, batch: list[str]) -> asyncio.Future[None] | None:
        self.batches.append(batch)
        self.at_ms.append(round(now_ms() - self._zero, 3))
        if not self.slow:
            return None
        self.running.append(asyncio.get_running_loop().create_future())
        return self.running[-1]

    def add(self, item: str, within_ms: float = float("inf")) -> int:
        return self.schedule.add(item, now_ms() + within_ms)

    def end_batch(self) -> None:
        self.running[-1].set_result(None)


@pytest.fixture
async def device() -> Device:
    return Device()


async def pass_ms(ms: float) -> None:
    await asyncio.sleep(ms / 1000)


async def test_one_alone_starts_in_the_moment_it_comes(device: Device) -> None:
    device.add("a")
    assert device.batches == [], "but not before whoever adds it goes on"
    await pass_ms(0.001)
    assert (device.batches, device.at_ms) == ([["a"]], [0])


async def test_who_comes_in_the_same_moment_goes_along(device: Device) -> None:
    for item in "abc":
        device.add(item)
    await pass_ms(0.001)
    assert device.batches == [["a", "b", "c"]]


async def test_a_batch_starts_once_all_are_in(device: Device) -> None:
    device.expected = 3
    for item in "abc":
        device.add(item)
        await pass_ms(2)
    assert (device.batches, device.at_ms) == ([["a", "b", "c"]], [4])


async def test_a_batch_starts_at_the_end_of_its_window(device: Device) -> None:
    device.expected = 3
    device.add("a")
    await pass_ms(10)
    device.add("b")
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["a", "b"]], [15])


async def test_a_tight_item_brings_the_start_forward(device: Device) -> None:
    device.expected = 3
    device.add("a")
    await pass_ms(1)
    device.add("b", within_ms=9)
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["b", "a"]], [1 + 9 - 3 - 2])


async def test_the_end_of_a_stream_starts_the_batch_that_waited_for_it(device: Device) -> None:
    device.expected = 3
    device.add("a")
    device.add("b")
    await pass_ms(4)
    device.expected = 2
    device.schedule.changed()
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["a", "b"]], [4])


async def test_the_start_of_a_stream_makes_those_wait_who_have_not_started(device: Device) -> None:
    device.add("a")
    device.expected = 2
    device.schedule.changed()
    await pass_ms(5)
    assert device.batches == []
    device.add("b")
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["a", "b"]], [5])


async def test_what_was_cancelled_does_not_start_and_hurries_nobody(device: Device) -> None:
    device.expected = 3
    ticket = device.add("cancelled", within_ms=8)
    await pass_ms(1)
    device.add("b")
    device.schedule.cancel(ticket)
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["b"]], [16])


async def test_where_all_were_cancelled_nothing_starts_and_the_next_waits_for_no_one(
    device: Device,
) -> None:
    device.expected = 2
    device.schedule.cancel(device.add("cancelled"))
    await pass_ms(100)
    assert device.batches == []
    device.expected = 1
    device.add("a")
    await pass_ms(1)
    assert (device.batches, device.at_ms) == ([["a"]], [100])


async def test_the_next_batch_forms_while_one_runs_and_starts_when_it_is_done(
    device: Device,
) -> None:
    device.slow = True
    device.add("a")
    await pass_ms(1)
    device.expected = 2
    device.add("b")
    device.add("c", within_ms=1)
    await pass_ms(40)
    assert device.batches == [["a"]]
    device.end_batch()
    await pass_ms(1)
    assert (device.batches, device.at_ms) == ([["a"], ["c", "b"]], [0, 41])


async def test_a_device_that_is_free_again_waits_for_those_who_have_time(device: Device) -> None:
    device.slow = True
    device.add("a")
    await pass_ms(1)
    device.expected = 2
    device.add("b")
    await pass_ms(5)
    device.end_batch()
    await pass_ms(1)
    assert device.batches == [["a"]]
    await pass_ms(100)
    assert (device.batches, device.at_ms) == ([["a"], ["b"]], [0, 16])


async def test_what_comes_in_every_moment_does_not_put_off_what_is_due(device: Device) -> None:
    for number in range(3):
        device.add(f"{number}")
        await asyncio.sleep(0)
    assert device.batches[0] == ["0"]


async def test_what_a_batch_adds_itself_starts_after_it(device: Device) -> None:
    def add_again(batch: list[str]) -> None:
        device.start(batch)
        assert len(device.schedule) == 0
        if batch == ["a"]:
            device.add("again")
            assert device.batches == [["a"]]

    policy: BatchPolicy[str] = BatchPolicy(max_batch=4, window_ms=15)
    device.schedule = BatchSchedule(policy, add_again, lambda: 1)
    device.add("a")
    await pass_ms(1)
    assert device.batches == [["a"], ["again"]]


async def test_a_batch_that_fails_to_start_does_not_stop_the_next(device: Device) -> None:
    def fail_once(batch: list[str]) -> None:
        device.start(batch)
        if batch == ["a"]:
            raise ZeroDivisionError

    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(context["exception"])
    )
    policy: BatchPolicy[str] = BatchPolicy(max_batch=4, window_ms=15)
    device.schedule = BatchSchedule(policy, fail_once, lambda: 1)
    device.add("a")
    await pass_ms(1)
    device.add("b")
    await pass_ms(1)
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert device.batches == [["a"], ["b"]]


async def test_what_was_drained_does_not_start(device: Device) -> None:
    device.expected = 2
    device.add("a")
    assert device.schedule.drain() == ["a"]
    await pass_ms(100)
    assert device.batches == []


async def test_each_batch_is_tallied_with_its_wait_and_what_it_took(device: Device) -> None:
    device.expected, device.slow = 3, True
    device.add("a")
    await pass_ms(4)
    device.add("b")
    await pass_ms(12)  # the window of 15 ms is over: two of three
    device.add("c")
    await pass_ms(29)
    device.end_batch()
    await pass_ms(1)
    [(speaking, rows)] = device.schedule.tally.rows.items()
    assert (speaking, sum(rows.counts), rows.total) == (4, 1, 2)
    assert device.schedule.tally.wait_ms.total == pytest.approx(15, abs=0.01)
    assert device.schedule.tally.step_ms.total == pytest.approx(30, abs=0.01)
