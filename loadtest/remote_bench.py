"""What it costs to have an engine in another process: ``python -m loadtest.remote_bench``.

One engine gives items at a fixed pace, each with the time it was made, in this process and in
one of its own. For 1 and 64 streams at once: CPU of this process for each item, its ZeroMQ
thread included, and how old an item is when it is read. In process, the cost is that of the
engine itself; ``added`` is the difference of the ages.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import uvloop

from engines.audio import Pcm
from engines.ports import ChatRequest, Message, SpeechRequest, TextDelta
from engines.remote.pool import EnginePool
from engines.remote.spec import EngineSpec, Kind, Place

STREAMS = (1, 64)
_CHUNK_SAMPLES = 960


@dataclass(frozen=True, slots=True)
class Options:
    """One item each ``pace_ms``, ``items`` in all. ``gives``: tokens, or 40 ms of audio."""

    gives: Literal["tokens", "audio"] = "tokens"
    items: int = 100
    pace_ms: float = 20.0


def create(options: Options, models: Any) -> Stamping:  # noqa: ARG001 - the plug-in contract
    """The plug-in contract: the bench is the engine, too."""
    return Stamping(options)


class Stamping:
    """Writes the time into each item it gives."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stamp = _token if options.gives == "tokens" else _audio

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    def open(self, request: Any) -> AbstractAsyncContextManager[AsyncIterator[Any]]:  # noqa: ARG002
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[AsyncIterator[Any], None]:
        items = self._items()
        try:
            yield items
        finally:
            await items.aclose()

    async def _items(self) -> AsyncGenerator[Any, None]:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for _ in range(self._options.items):
            due += self._options.pace_ms / 1000
            await asyncio.sleep(due - loop.time())
            yield self._stamp()


def _token() -> TextDelta:
    return TextDelta(str(time.perf_counter_ns()))


def _audio() -> Pcm:
    samples = np.zeros(_CHUNK_SAMPLES, np.int16)
    samples[:4] = np.array([time.perf_counter_ns()], np.int64).view(np.int16)
    return Pcm(samples, 24_000)


def age_us(item: TextDelta | Pcm) -> float:
    """Since ``item`` was made, in whichever process: they share the clock."""
    if isinstance(item, TextDelta):
        made = int(item.text)
    else:
        made = int(item.samples[:4].copy().view(np.int64)[0])
    return (time.perf_counter_ns() - made) / 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """``cpu_us``: of this process, an item."""

    cpu_us: float
    p50_us: float
    p99_us: float


async def measure(engine: Any, request: Callable[[int], Any], streams: int) -> Cost:
    """So many streams at once, begun a little apart as those of callers are."""
    ages: list[float] = []

    async def read(number: int) -> None:
        await asyncio.sleep(0.02 * number / streams)
        async with engine.open(request(number)) as items:
            async for item in items:
                ages.append(age_us(item))  # noqa: PERF401 - each at its own time

    began = time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for number in range(streams):
            tasks.create_task(read(number))
    cpu_us = 1e6 * (time.process_time() - began) / len(ages)
    p50, p99 = np.percentile(ages, (50, 99))
    return Cost(cpu_us, float(p50), float(p99))


def chat(number: int) -> ChatRequest:
    return ChatRequest((Message("user", "How are you?"),), call=f"call-{number}")


def speech(number: int) -> SpeechRequest:
    return SpeechRequest("How are you?", call=f"call-{number}")


async def compare(kind: Kind, options: Options) -> None:
    """Print a line for each number of streams."""
    plain = {"gives": options.gives, "items": options.items, "pace_ms": options.pace_ms}
    pool = EnginePool(EngineSpec(kind, "loadtest.remote_bench", plain), [Place("bench")])
    request = chat if kind == "llm" else speech
    await pool.warm_up()
    try:
        for streams in STREAMS:
            near = await measure(Stamping(options), request, streams)
            far = await measure(pool, request, streams)
            print(
                f"{kind}  {streams:7d} {near.cpu_us:10.1f} {far.cpu_us:9.1f}"
                f" {near.p50_us:11.0f} /{near.p99_us:6.0f} {far.p50_us:9.0f} /{far.p99_us:6.0f}"
                f" {far.p50_us - near.p50_us:9.0f} /{far.p99_us - near.p99_us:6.0f}"
            )
    finally:
        await pool.close()


async def bench(items: int, pace_ms: float) -> None:
    print("            cpu, us an item             age of an item, us, p50 / p99")
    print("     streams    in process    remote    in process            remote            added")
    await compare("llm", Options("tokens", items, pace_ms))
    await compare("tts", Options("audio", items, pace_ms))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=150, help="of each stream")
    parser.add_argument("--pace-ms", type=float, default=20.0, help="from item to item")
    arguments = parser.parse_args()
    uvloop.run(bench(arguments.items, arguments.pace_ms))


if __name__ == "__main__":
    main()
