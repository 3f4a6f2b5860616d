"""A model that gives nothing for long has failed, whatever it is waiting for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, TypeVar

from engines.ports import EngineError

T = TypeVar("T")

STALL_S: Final = 30.0
"""A model that gives nothing for so long has failed."""

_LOOKS_EVERY_S: Final = STALL_S / 6


def timely(stream: AsyncIterator[T], engine: str) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """The same stream; raises EngineError where the next item does not come in time. Nothing is
    left of it at the end of the context."""
    return aclosing(_timely(stream, engine))


async def _timely(stream: AsyncIterator[T], engine: str) -> AsyncGenerator[T, None]:
    watch = _Watch()
    try:
        while True:
            watch.waits_since = watch.loop.time()
            try:
                item = await anext(stream)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if watch.has_cancelled():
                    message = f"nothing came for {STALL_S:.0f} s"
                    raise EngineError(engine, "timeout", message) from None
                raise
            watch.waits_since = None
            yield item
    finally:
        watch.close()


class _Watch:
    """What ``asyncio.timeout`` does, by one timer for a whole stream: one for each item would
    cost more than all else that is done with it. So it may come up to a sixth late."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "streams are read in tasks"
        self.loop = task.get_loop()
        self.waits_since: float | None = None
        self._task = task
        self._cancels = task.cancelling()
        self._has_cancelled = False
        self._timer = self.loop.call_later(_LOOKS_EVERY_S, self._look)

    def has_cancelled(self) -> bool:
        """It was this watch that has cancelled the task, and nobody else has."""
        return self._has_cancelled and self._task.uncancel() <= self._cancels

    def close(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _look(self) -> None:
        since = self.waits_since
        if since is not None and self.loop.time() - since >= STALL_S:
            self._has_cancelled = True
            self._task.cancel()
        else:
            self._timer = self.loop.call_later(_LOOKS_EVERY_S, self._look)
