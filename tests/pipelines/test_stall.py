"""A model that gives nothing for long has failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from engines.ports import EngineError
from pipelines.stall import STALL_S, timely

pytestmark = pytest.mark.virtual_clock


async def items_after(delays_s: Sequence[float]) -> AsyncIterator[int]:
    for number, delay_s in enumerate(delays_s):
        await asyncio.sleep(delay_s)
        yield number


async def test_items_pass_as_they_come_however_long_all_of_them_take() -> None:
    async with timely(items_after([STALL_S - 1] * 5), "llm") as stream:
        assert [item async for item in stream] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("before", [0, 3])
async def test_an_item_that_does_not_come_is_a_failure_of_the_engine(before: int) -> None:
    loop, got = asyncio.get_running_loop(), list[int]()
    began = loop.time()
    with pytest.raises(EngineError, match="tts: nothing came for 30 s") as failure:
        async with timely(items_after([1.0] * before + [1e6]), "tts") as stream:
            async for item in stream:
                got.append(item)
    assert (failure.value.code, len(got)) == ("timeout", before)
    assert STALL_S <= loop.time() - began - before <= STALL_S * 7 / 6
    task = asyncio.current_task()
    assert task is not None and not task.cancelling(), "the task goes on"


async def test_what_the_reader_does_meanwhile_is_no_stall() -> None:
    got = []
    async with timely(items_after([0.1] * 3), "tts") as stream:
        async for item in stream:
            await asyncio.sleep(3 * STALL_S)
            got.append(item)
    assert got == [0, 1, 2]


async def test_a_reader_that_is_cancelled_by_others_is_cancelled() -> None:
    async def read() -> None:
        async with timely(items_after([1e6]), "llm") as stream:
            await anext(stream)

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_nothing_is_left_of_a_stream_that_is_left() -> None:
    async with timely(items_after([0.1, 1e6]), "llm") as stream:
        assert await anext(stream) == 0
    await asyncio.sleep(2 * STALL_S)  # a watch that was left would cancel this
    assert asyncio.all_tasks() == {asyncio.current_task()}
