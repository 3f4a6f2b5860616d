"""What one call may ask of the model: as many replies as its key's allowance has."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from engines.ports import ChatRequest, Delta, EngineError, Llm, Priority
from voice.rates import Bucket
from voice.wire.realtime_objects import RealtimeRateLimit


class RationError(EngineError):
    """The key has asked for enough. It is nothing of the model's, so none is named."""

    def __str__(self) -> str:
        return self.message


class RationedLlm:
    """A model for one call. ``requests`` None is no limit. What is over it fails as a reply does
    whose model has no time, so that every client knows what to make of it."""

    def __init__(self, llm: Llm, requests: Bucket | None) -> None:
        self._llm = llm
        self._requests = requests
        self._granted = True

    async def warm_up(self) -> None:
        """As the model does."""
        await self._llm.warm_up()

    async def close(self) -> None:
        """As the model does."""
        await self._llm.close()

    def begin_reply(self) -> None:
        """A reply has begun, which takes one request: what is asked next is for it."""
        self._granted = self._requests is None or self._requests.take(_now())

    def open(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """As the model does. Raises EngineError (``rate_limited``) beyond the limit."""
        if request.priority <= Priority.SPECULATIVE:
            self._check(request.priority)
        return self._llm.open(request)

    def aside(self) -> Llm:
        """The model for a reply beside the others, which takes one request. Raises EngineError."""
        if self._requests is not None and not self._requests.take(_now()):
            raise self._failure(self._requests)
        return self._llm

    def limits(self) -> list[RealtimeRateLimit]:
        """What a client is told of its limit; nothing where there is none."""
        bucket, now = self._requests, _now()
        if bucket is None:
            return []
        reset_s = round(bucket.full_in_s(now), 3)
        return [RealtimeRateLimit("requests", int(bucket.size), bucket.left(now), reset_s)]

    def _check(self, priority: Priority) -> None:
        """What is worked out ahead has not begun to be a reply yet: it only looks."""
        bucket = self._requests
        if bucket is None:
            return
        ahead = priority is Priority.SPECULATIVE
        if not (bucket.wait_s(_now()) == 0 if ahead else self._granted):
            raise self._failure(bucket)

    def _failure(self, bucket: Bucket) -> RationError:
        wait_s = max(1, math.ceil(bucket.wait_s(_now())))
        told = f"This key asks for {bucket.size:.0f} replies a minute at most. Try again"
        return RationError("llm", "rate_limited", f"{told} in {wait_s} s.")


def _now() -> float:
    return asyncio.get_running_loop().time()
