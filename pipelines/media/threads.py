"""Decoding and encoding off the loop: a thread for each file, which ends with its context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import BinaryIO, TypeVar

from engines.audio import Samples
from pipelines.media.reading import open_media

T = TypeVar("T")


class OneThread:
    """Runs one call after the other, also where nobody waits for one any more."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "media")

    async def run(self, call: Callable[..., T], *args: object) -> T:
        """``call(*args)`` in the thread. Cancelled, it goes on, and the next one waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        """Nothing more is to be run."""
        self._pool.shutdown(wait=False)


@asynccontextmanager
async def one_thread() -> AsyncIterator[OneThread]:
    """A thread for as long as the context lasts."""
    thread = OneThread()
    try:
        yield thread
    finally:
        thread.close()


@asynccontextmanager
async def decoded(file: BinaryIO, most_s: float) -> AsyncIterator[AsyncIterator[Samples]]:
    """The sound of a file, 16 kHz mono, decoded as it is read; ``file`` is not used any more once
    the context is left. Raises MediaError, and so does iterating."""
    async with one_thread() as thread:
        opened = ExitStack()
        try:
            media = await thread.run(lambda: opened.enter_context(open_media(file, most_s)))
            yield _blocks(thread, media.blocks)
        finally:
            await asyncio.shield(thread.run(opened.close))


async def _blocks(thread: OneThread, blocks: object) -> AsyncIterator[Samples]:
    while (block := await thread.run(next, blocks, None)) is not None:
        yield block
