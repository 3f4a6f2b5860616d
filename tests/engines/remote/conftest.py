"""Engines at the other end of a socket: in this process, or in children of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq

from engines.audio import Pcm
from engines.remote.client import RemoteEngine
from engines.remote.pool import EnginePool
from engines.remote.serving import EngineServer
from engines.remote.spec import EngineSpec, Patience, Place, ProcessSpec

# Quick to tell and slow to despair: the machine may be busy.
QUICK = Patience(beat_s=0.03, missed_beats=400, drain_s=5, restart_s=0.01, place_s=10)


class Tap:
    """Gives ``items``, or fails; a test sees how far it was read, and may hold it."""

    def __init__(self, items: Iterable[Any] = (), error: Exception | None = None) -> None:
        self.items = list(items)
        self.error = error
        self.requests: list[Any] = []
        self.open_now = 0
        self.given = 0
        self.flows = asyncio.Event()
        self.flows.set()

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.requests.append(request)
        self.open_now += 1
        items = self._give()
        try:
            yield items
        finally:
            await items.aclose()
            self.open_now -= 1

    async def _give(self) -> AsyncIterator[Any]:
        for item in self.items:
            await self.flows.wait()
            self.given += 1
            yield item
        if self.error is not None:
            raise self.error


class House:
    """Makes what a test asks for and closes it after the test, the last first."""

    def __init__(self, stack: AsyncExitStack, folder: str) -> None:
        self._stack = stack
        self._folder = folder
        self._served = 0
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(self.context.term)

    def spec(self, kind: str, **patience: Any) -> ProcessSpec:
        self._served += 1
        engine = EngineSpec(kind, f"engines.{kind}.tap")
        endpoint = f"ipc://{self._folder}/{self._served}"
        return ProcessSpec(engine, "here", endpoint, replace(QUICK, **patience))

    async def serve(self, engine: Any, kind: str = "tts", **patience: Any) -> Served:
        served = Served(engine, self.spec(kind, **patience))
        await served.start()
        self._stack.push_async_callback(served.stop)
        return served

    async def join(self, endpoint: str, kind: str = "tts", **patience: Any) -> RemoteEngine:
        remote = self.remote(endpoint, kind, **patience)
        await remote.warm_up()
        return remote

    def remote(self, endpoint: str, kind: str = "tts", **patience: Any) -> RemoteEngine:
        remote = RemoteEngine(
            kind, endpoint, "tap", context=self.context, patience=replace(QUICK, **patience)
        )
        self._stack.push_async_callback(remote.close)
        return remote

    def stranger(self, endpoint: str) -> zmq.Socket[bytes]:
        """A bare socket, to say anything with."""
        socket = self.context.socket(zmq.DEALER)
        socket.set(zmq.LINGER, 0)
        socket.connect(endpoint)
        self._stack.callback(socket.close)
        return socket

    async def pool(self, spec: EngineSpec, *places: Place, **more: Any) -> EnginePool:
        pool = self.cold_pool(spec, *places, **more)
        await pool.warm_up()
        return pool

    def cold_pool(self, spec: EngineSpec, *places: Place, **more: Any) -> EnginePool:
        endpoints = more.pop("endpoints", ())
        patience = replace(QUICK, **more)
        pool = EnginePool(spec, places, endpoints=endpoints, patience=patience)
        self._stack.push_async_callback(pool.close)
        return pool


class Served:
    """An EngineServer in this process."""

    def __init__(self, engine: Any, spec: ProcessSpec) -> None:
        self.server = EngineServer(engine, spec)
        self.spec = spec
        self.endpoint = spec.endpoint
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self.server.serve(self._stop, ready.set))
        await ready.wait()

    def leave(self) -> asyncio.Task[None]:
        """Begin to drain."""
        self._stop.set()
        assert self._task is not None
        return self._task

    async def stop(self) -> None:
        await self.leave()


@pytest.fixture
async def house() -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory(prefix="remote-") as folder:
        async with AsyncExitStack() as stack:
            yield House(stack, folder)


@pytest.fixture
def tap() -> type[Tap]:
    return Tap


@pytest.fixture
def counting() -> Callable[..., EngineSpec]:
    """The spec of an engine that counts: ``counting("tts", items=9)``."""
    return lambda kind, **options: EngineSpec(kind, "counting_engine", options)


@pytest.fixture
def place() -> Callable[..., Place]:
    """A place where children find the engine that counts: ``place("a", chunk=7)``."""

    def make(name: str, chunk: int = 10) -> Place:
        return Place(
            name,
            {
                "PYTHONPATH": str(Path(__file__).parent),
                "COUNTING_CHUNK": str(chunk),
                "COUNTING_PLACE": name,
            },
        )

    return make


async def _eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110 - nobody tells of what is waited for
            await asyncio.sleep(0.002)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Waits for a condition: ``await eventually(lambda: ...)``."""
    return _eventually


async def _all_of(engine: Any, request: Any) -> list[Any]:
    async with engine.open(request) as items:
        return [item async for item in items]


@pytest.fixture
def all_of() -> Callable[[Any, Any], Any]:
    """Reads a request to its end: ``await all_of(engine, request)``."""
    return _all_of


def _samples(pieces: Iterable[Pcm]) -> list[int]:
    return [sample for piece in pieces for sample in piece.samples.tolist()]


@pytest.fixture
def samples_of() -> Callable[[Iterable[Pcm]], list[int]]:
    return _samples
