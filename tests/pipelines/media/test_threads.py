"""Files decoded off the loop."""

import asyncio
import io
import threading

import numpy as np
import pytest
import soundfile

from pipelines.media.reading import MediaError
from pipelines.media.threads import decoded, one_thread


def file_of(seconds: int) -> io.BytesIO:
    file = io.BytesIO()
    tone = np.sin(np.arange(seconds * 16_000) / 10)
    soundfile.write(file, 0.1 * tone, 16_000, format="WAV", subtype="PCM_16")
    return file


async def test_blocks_come_in_order_and_are_the_file() -> None:
    async with decoded(file_of(10), 60) as blocks:
        sizes = [len(block) async for block in blocks]
    assert (sum(sizes), len(sizes)) == (160_000, 3)


async def test_what_is_no_file_is_told() -> None:
    with pytest.raises(MediaError):
        async with decoded(io.BytesIO(b""), 60):
            pass


async def test_who_leaves_early_may_close_the_file_at_once() -> None:
    file = file_of(20)
    async with decoded(file, 60) as blocks:
        assert len(await anext(blocks)) == 64_000
        reading = asyncio.ensure_future(anext(blocks))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    file.close()


async def test_a_call_that_nobody_waits_for_goes_before_the_next() -> None:
    order: list[str] = []
    go = threading.Event()

    def slow() -> None:
        go.wait(10)
        order.append("slow")

    async with one_thread() as thread:
        first = asyncio.ensure_future(thread.run(slow))
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.ensure_future(thread.run(order.append, "next"))
        await asyncio.sleep(0)
        go.set()
        await second
    assert order == ["slow", "next"]
