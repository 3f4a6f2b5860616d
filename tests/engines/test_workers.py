import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from engines.ports import EngineError, Load, Priority
from engines.workers import Workers


@pytest.fixture
def workers():
    made = Workers("parrot")
    yield made
    made.close()


class Gate:
    """A call that holds the worker until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self._open.wait(10)
        return "through"

    def open(self) -> None:
        self._open.set()

    async def wait_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, 10)


async def settle() -> None:
    """Let the tasks that were just made reach their first wait: they are ahead of this one."""
    await asyncio.to_thread(int)


async def test_a_call_gives_its_result_from_another_thread(workers):
    def where(word: str) -> tuple[str, str]:
        return word, threading.current_thread().name

    assert await workers.run(Priority.FINAL, where, "hello") == ("hello", "parrot-0")


async def test_the_most_urgent_goes_first_and_equals_keep_their_order(workers):
    gate, order = Gate(), []
    async with asyncio.TaskGroup() as group:
        group.create_task(workers.run(Priority.FINAL, gate))
        await gate.wait_entered()
        for name, priority in [
            ("file", Priority.BATCH),
            ("partial", Priority.PARTIAL),
            ("first final", Priority.FINAL),
            ("second final", Priority.FINAL),
            ("guess", Priority.SPECULATIVE),
        ]:
            group.create_task(workers.run(priority, order.append, name))
        await settle()
        gate.open()
    assert order == ["first final", "second final", "guess", "partial", "file"]


async def test_it_tells_what_runs_what_waits_and_for_how_long(workers):
    gate = Gate()
    assert workers.load() == Load()
    async with asyncio.TaskGroup() as group:
        group.create_task(workers.run(Priority.FINAL, gate))
        await gate.wait_entered()
        group.create_task(workers.run(Priority.BATCH, int))
        await settle()
        assert workers.load() == Load(busy=1, queued=1), "a file is never late"
        group.create_task(workers.run(Priority.PARTIAL, int))
        gone = group.create_task(workers.run(Priority.FINAL, int))
        await settle()
        load = workers.load()
        assert (load.busy, load.queued) == (1, 3)
        assert 0 < load.oldest_ms < 60_000
        gone.cancel()
        await settle()
        assert workers.load().queued == 2
        gate.open()
    assert workers.load() == Load(), "who was cancelled does not count as one who runs"


async def test_a_call_cancelled_while_it_waits_never_runs(workers):
    gate, ran = Gate(), []
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    waiting = asyncio.create_task(workers.run(Priority.FINAL, ran.append, "cancelled"))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    await holding
    await workers.run(Priority.BATCH, ran.append, "later")
    assert ran == ["later"]


async def test_a_call_cancelled_while_it_runs_is_left_at_once_and_the_worker_goes_on(workers):
    gate = Gate()
    running = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.open()
    assert await workers.run(Priority.FINAL, lambda: "next") == "next"


async def test_an_error_is_raised_where_it_is_awaited_and_the_worker_goes_on(workers):
    with pytest.raises(ZeroDivisionError):
        await workers.run(Priority.FINAL, lambda: 1 // 0)
    assert await workers.run(Priority.FINAL, lambda: "next") == "next"


async def test_a_call_that_runs_out_of_an_iterator_fails_and_does_not_hang(workers):
    with pytest.raises(RuntimeError, match=r"parrot: a call raised StopIteration"):
        await workers.run(Priority.FINAL, next, iter([]))


async def test_two_threads_run_two_calls_at_a_time():
    workers, meeting = Workers("pair", count=2), threading.Barrier(2)
    await asyncio.gather(
        *(workers.run(Priority.FINAL, meeting.wait, 10) for _ in range(2)),
    )
    workers.close()


@pytest.mark.parametrize("count", [0, -5])
def test_no_thread_at_all_is_refused_and_nobody_waits_for_it(count):
    with pytest.raises(EngineError, match=f"{count} at once is too few: .* 1 or more"):
        Workers("tap", count)


async def test_a_full_queue_refuses_and_cancelled_calls_do_not_count():
    workers, gate = Workers("parrot", capacity=1), Gate()
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    waiting = asyncio.create_task(workers.run(Priority.FINAL, str))
    await settle()
    with pytest.raises(EngineError, match="1 calls wait already") as refused:
        await workers.run(Priority.FINAL, str)
    assert (refused.value.engine, refused.value.code) == ("parrot", "unavailable")
    waiting.cancel()
    await settle()
    replacing = asyncio.create_task(workers.run(Priority.FINAL, lambda: "in its place"))
    await settle()
    gate.open()
    assert await holding == "through"
    assert await replacing == "in its place"
    workers.close()


async def test_closing_fails_what_waits_and_refuses_what_comes():
    workers, gate = Workers("parrot"), Gate()
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    waiting = asyncio.create_task(workers.run(Priority.FINAL, str))
    await settle()
    workers.close()
    gate.open()
    assert await holding == "through"
    with pytest.raises(EngineError, match="was closed while the call waited"):
        await waiting
    with pytest.raises(EngineError, match="is closed"):
        await workers.run(Priority.FINAL, str)


async def test_closing_waits_for_the_call_that_runs():
    workers, gate = Workers("parrot"), Gate()
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    workers.close()
    closing = asyncio.create_task(workers.wait_closed())
    await settle()
    assert not closing.done()
    gate.open()
    await closing
    assert await holding == "through"


async def test_a_model_is_freed_where_its_last_call_was_awaited(workers):
    class Model:
        def __del__(self) -> None:
            freed_in.append(threading.current_thread())

        def call(self) -> None:
            pass

    freed_in: list[threading.Thread] = []
    for _ in range(200):
        await workers.run(Priority.FINAL, Model().call)
    assert set(freed_in) == {threading.main_thread()}
    assert len(freed_in) == 200


async def test_a_stream_gives_every_item_in_order(workers):
    stream = workers.stream(Priority.FINAL, lambda: iter(range(1000)), ahead=2)
    assert [item async for item in stream] == list(range(1000))
    assert [item async for item in stream] == []


async def test_a_stream_that_fails_gives_its_items_first(workers):
    def falter() -> Iterator[str]:
        yield "so far"
        raise ZeroDivisionError

    stream = workers.stream(Priority.FINAL, falter)
    assert await anext(stream) == "so far"
    with pytest.raises(ZeroDivisionError):
        await anext(stream)


class Endless:
    """Counts for ever; tells how far it came and that it was closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()

    def __call__(self) -> Iterator[int]:
        try:
            while True:
                self.made += 1
                yield self.made
        finally:
            self.closed.set()

    async def wait_closed(self) -> None:
        assert await asyncio.to_thread(self.closed.wait, 10)


async def test_a_closed_stream_ends_its_iterator_within_its_bound(workers):
    endless = Endless()
    async with aclosing(workers.stream(Priority.FINAL, endless, ahead=4)) as stream:
        assert [await anext(stream) for _ in range(3)] == [1, 2, 3]
    await endless.wait_closed()
    assert endless.made <= 3 + 4 + 1
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert await workers.run(Priority.FINAL, lambda: "free again") == "free again"


async def test_a_reader_cancelled_in_mid_wait_ends_the_iterator(workers):
    gate, closed = Gate(), threading.Event()

    def slow() -> Iterator[str]:
        try:
            while True:
                yield gate()
        finally:
            closed.set()

    reading = asyncio.ensure_future(anext(workers.stream(Priority.FINAL, slow)))
    await gate.wait_entered()
    await settle()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    gate.open()
    assert await asyncio.to_thread(closed.wait, 10)


async def test_a_reader_ends_when_another_task_closes_the_stream(workers):
    gate = Gate()
    stream = workers.stream(Priority.FINAL, lambda: iter([gate()]))
    reading = asyncio.ensure_future(anext(stream))
    await gate.wait_entered()
    await settle()
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await reading
    gate.open()
    assert await workers.run(Priority.FINAL, lambda: "free again") == "free again"


async def test_closing_ends_a_stream_that_waits_with_an_error():
    workers, gate = Workers("parrot"), Gate()
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    stream = workers.stream(Priority.FINAL, Endless())
    workers.close()
    gate.open()
    await holding
    with pytest.raises(EngineError, match="was closed while the call waited"):
        await anext(stream)


async def test_a_stream_closed_while_it_waits_never_starts(workers):
    gate, endless = Gate(), Endless()
    holding = asyncio.create_task(workers.run(Priority.FINAL, gate))
    await gate.wait_entered()
    await workers.stream(Priority.FINAL, endless).aclose()
    gate.open()
    await holding
    await workers.run(Priority.BATCH, str)
    assert endless.made == 0
