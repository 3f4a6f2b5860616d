"""What those who hand in get back: their own result, the batch's error, or a refusal."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from engines.batching.policy import BatchPolicy
from engines.batching.runner import BatchRunner
from engines.batching.schedule import now_ms
from engines.ports import EngineError
from engines.workers import Workers

on_the_virtual_clock = pytest.mark.virtual_clock


class Doubling:
    """The device: gives twice each number. It can be held up, and told to fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()
        self.fault: Callable[[], Any] | None = None
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items: list[int]) -> Sequence[int]:
        self.batches.append(items)
        self.threads.add(threading.current_thread().name)
        self.entered.release()
        assert self.gate.wait(10)
        if self.fault is not None:
            return self.fault()
        return [2 * item for item in items]

    async def wait_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=10)


@pytest.fixture
def device() -> Doubling:
    return Doubling()


def runner_of(
    device: Doubling, expected: int = 1, workers: Workers | None = None, max_batch: int = 8
) -> BatchRunner[int, int]:
    return BatchRunner("doubling", device, BatchPolicy(max_batch=max_batch, window_ms=15),
                       expected=lambda: expected, workers=workers)  # fmt: skip


@pytest.fixture
async def threaded(device: Doubling) -> AsyncIterator[BatchRunner[int, int]]:
    workers = Workers("doubling")
    runner = runner_of(device, workers=workers)
    yield runner
    device.gate.set()
    runner.close()
    await runner.wait_closed()
    workers.close()
    await workers.wait_closed()


async def settle() -> None:
    """Let the tasks that were just made reach their first wait: they are ahead of this one."""
    await asyncio.to_thread(int)


@on_the_virtual_clock
async def test_each_gets_its_own_result_and_the_tightest_is_first(device: Doubling) -> None:
    runner = runner_of(device, expected=3)
    now = now_ms()
    results = await asyncio.gather(
        runner.submit(1), runner.submit(2, now + 50), runner.submit(3, now + 20)
    )
    assert results == [2, 4, 6]
    assert device.batches == [[3, 2, 1]]


@on_the_virtual_clock
async def test_who_has_a_deadline_does_not_wait_for_who_does_not_come(device: Doubling) -> None:
    runner = runner_of(device, expected=2)
    began = now_ms()
    assert await runner.submit(1, began + 6) == 2
    assert now_ms() - began == pytest.approx(6)


@on_the_virtual_clock
async def test_a_stream_that_has_ended_is_not_waited_for(device: Doubling) -> None:
    speaking = 2
    runner: BatchRunner[int, int] = BatchRunner(
        "doubling", device, BatchPolicy(max_batch=8, window_ms=15), expected=lambda: speaking
    )
    began = now_ms()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(runner.submit(1))
        await asyncio.sleep(0.004)
        speaking = 1
        runner.changed()
    assert waiting.result() == 2
    assert now_ms() - began == pytest.approx(4)


@on_the_virtual_clock
async def test_more_than_a_batch_holds_runs_in_several(device: Doubling) -> None:
    runner = runner_of(device, expected=5, max_batch=2)
    assert await asyncio.gather(*map(runner.submit, range(5))) == [0, 2, 4, 6, 8]
    assert device.batches == [[0, 1], [2, 3], [4]]


async def test_batches_run_in_the_device_thread_and_the_next_forms_meanwhile(
    device: Doubling, threaded: BatchRunner[int, int]
) -> None:
    device.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(threaded.submit(0))]
        await device.wait_entered()
        tasks += [group.create_task(threaded.submit(number)) for number in (1, 2, 3)]
        await settle()
        assert threaded.load().queued == 3
        device.gate.set()
    assert [task.result() for task in tasks] == [0, 2, 4, 6]
    assert device.batches == [[0], [1, 2, 3]]
    assert device.threads == {"doubling-0"}


async def test_what_it_is_doing_can_be_read(
    device: Doubling, threaded: BatchRunner[int, int]
) -> None:
    await asyncio.gather(threaded.submit(1), threaded.submit(2))
    load = threaded.load()
    assert (load.speaking, load.batch, load.queued) == (1, 2, 0)
    assert load.step_ms > 0


@on_the_virtual_clock
async def test_it_tells_how_long_the_oldest_item_has_waited(device: Doubling) -> None:
    runner = runner_of(device, expected=3)
    assert runner.load().oldest_ms == 0
    first = asyncio.ensure_future(runner.submit(1))
    await asyncio.sleep(0.005)
    second = asyncio.ensure_future(runner.submit(2))
    await asyncio.sleep(0.004)
    assert runner.load().oldest_ms == pytest.approx(9)
    await asyncio.gather(first, second)
    assert runner.load().oldest_ms == 0


# --- cancelled ------------------------------------------------------------------------------


@on_the_virtual_clock
async def test_cancelled_while_it_waits_it_never_runs(device: Doubling) -> None:
    runner = runner_of(device, expected=3)
    cancelled = asyncio.ensure_future(runner.submit(1))
    kept = asyncio.ensure_future(runner.submit(2))
    await asyncio.sleep(0.005)
    cancelled.cancel()
    await asyncio.sleep(0.001)
    assert runner.load().queued == 1, "nor does it count among those who are in"
    assert await kept == 4
    assert cancelled.cancelled()
    assert device.batches == [[2]]


@on_the_virtual_clock
@pytest.mark.parametrize("others", [0, 1])
async def test_cancelled_in_the_moment_its_batch_starts_it_does_not_run_either(
    device: Doubling, others: int
) -> None:
    runner = runner_of(device, expected=1 + others)
    cancelled = asyncio.ensure_future(runner.submit(1))
    kept = [asyncio.ensure_future(runner.submit(2)) for _ in range(others)]
    await asyncio.sleep(0)  # now the batch is about to start
    cancelled.cancel()
    await asyncio.sleep(0.001)
    assert await asyncio.gather(*kept) == [4] * others
    assert await runner.submit(3) == 6
    assert device.batches == [[2]] * others + [[3]]


async def test_cancelled_while_it_runs_it_is_left_at_once_and_the_others_get_theirs(
    device: Doubling, threaded: BatchRunner[int, int]
) -> None:
    device.gate.clear()
    cancelled = asyncio.ensure_future(threaded.submit(1))
    kept = asyncio.ensure_future(threaded.submit(2))
    await device.wait_entered()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    device.gate.set()
    assert await kept == 4
    assert device.batches == [[1, 2]]


async def test_who_waits_when_the_loop_is_shut_down_is_cancelled(
    device: Doubling, threaded: BatchRunner[int, int]
) -> None:
    device.gate.clear()
    known = asyncio.all_tasks()
    waiting = asyncio.ensure_future(threaded.submit(1))
    await device.wait_entered()
    (serving,) = asyncio.all_tasks() - known - {waiting}
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


# --- failures -------------------------------------------------------------------------------


def fail_with(error: Exception) -> Callable[[], Any]:
    def fault() -> Any:
        raise error

    return fault


@pytest.mark.parametrize("error", [EngineError("snac", "failed", "no memory"), KeyError("slot")])
async def test_an_error_is_that_of_all_in_the_batch_and_the_next_runs(
    device: Doubling, threaded: BatchRunner[int, int], error: Exception
) -> None:
    device.fault = fail_with(error)
    got = await asyncio.gather(threaded.submit(1), threaded.submit(2), return_exceptions=True)
    assert got == [error, error]
    device.fault = None
    assert await threaded.submit(3) == 6


@on_the_virtual_clock
async def test_a_batch_that_runs_out_of_an_iterator_fails_and_does_not_hang(
    device: Doubling,
) -> None:
    runner = runner_of(device)
    device.fault = fail_with(StopIteration())
    with pytest.raises(RuntimeError, match="StopIteration"):
        await runner.submit(1)


@on_the_virtual_clock
async def test_too_few_results_are_nobodys(device: Doubling) -> None:
    runner = runner_of(device, expected=2)
    device.fault = lambda: [2]
    got = await asyncio.gather(runner.submit(1), runner.submit(2), return_exceptions=True)
    assert [str(error) for error in got] == ["doubling: a batch of 2 gave 1 results"] * 2


# --- closed ---------------------------------------------------------------------------------


async def test_closing_fails_what_waits_and_ends_what_runs(
    device: Doubling, threaded: BatchRunner[int, int]
) -> None:
    device.gate.clear()
    running = asyncio.ensure_future(threaded.submit(1))
    await device.wait_entered()
    waiting = asyncio.ensure_future(threaded.submit(2))
    await settle()
    threaded.close()
    with pytest.raises(EngineError, match="closed while the item waited") as refused:
        await waiting
    assert (refused.value.engine, refused.value.code) == ("doubling", "unavailable")
    closing = asyncio.ensure_future(threaded.wait_closed())
    await settle()
    assert not closing.done()
    device.gate.set()
    await closing
    assert await running == 2
    assert device.batches == [[1]]


@on_the_virtual_clock
async def test_a_closed_runner_takes_nothing(device: Doubling) -> None:
    runner = runner_of(device)
    runner.close()
    await runner.wait_closed()
    with pytest.raises(EngineError, match="is closed") as refused:
        await runner.submit(1)
    assert refused.value.code == "unavailable"


@on_the_virtual_clock
async def test_who_was_cancelled_in_the_moment_of_closing_is_cancelled(device: Doubling) -> None:
    runner = runner_of(device, expected=2)
    cancelled = asyncio.ensure_future(runner.submit(1))
    await asyncio.sleep(0.001)
    cancelled.cancel()
    runner.close()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
