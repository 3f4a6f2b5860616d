"""A server on a port of its own, in the test's own loop, and a client that talks to it."""

import asyncio
import base64
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts
from engines.vad.ears import Ears
from pipelines.conversation.ports import Engines
from voice.config import load
from voice.disk import Disk
from voice.house import House
from voice.server import _uvicorn_config

PATIENCE_S = 10
RATE = 24_000
LOUD = 8_000
NO_ECHO = "turns.echo_guard=false"
"""What these callers send is no sound: it has no more of a caller in it than of an echo."""


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is so, without knowing who will tell."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody tells of what is waited for
            await asyncio.sleep(0)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Any]:
    return eventually


def sound(milliseconds: int, level: int = LOUD, rate: int = RATE) -> bytes:
    """16-bit audio of one level."""
    return np.full(rate * milliseconds // 1000, level, "<i2").tobytes()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """The thread that writes; closed at the end."""
    disk = Disk()
    yield disk
    disk.close()


def wait_written(disk: Disk) -> None:
    """Wait until all that was handed to it is written."""
    written = threading.Event()
    disk.do(written.set)
    assert written.wait(PATIENCE_S)


class Asked:
    """An engine, and what was asked of it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.requests: list[Any] = []

    def open(self, request: Any) -> Any:
        if getattr(request, "max_tokens", None) != 0:  # what is only read ahead asks for nothing
            self.requests.append(request)
        return self.engine.open(request)


class Client:
    """The other end of a call: sends events, keeps those that come."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            event = json.loads(await self.socket.recv())
        self.events.append(event)
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        """The next event of this type; those before it are kept."""
        while (event := await self.next())["type"] != kind:
            pass
        return event

    async def close_code(self) -> int | None:
        """Wait until the server has closed the call; with which code it did."""
        with pytest.raises(ConnectionClosed):
            await self.until("no such event")
        return self.socket.close_code

    async def refusal(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send an event that must be refused; what the ``error`` says."""
        await self.send(kind, **fields)
        return (await self.until("error"))["error"]

    async def update(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        return (await self.until("session.updated"))["session"]

    async def hear(self, data: bytes) -> None:
        """Send audio in the session's format, in frames, as fast as it goes."""
        for start in range(0, len(data), 960):
            audio = base64.b64encode(data[start : start + 960]).decode()
            await self.send("input_audio_buffer.append", audio=audio)

    async def speak(self, milliseconds: int = 600) -> None:
        await self.hear(sound(milliseconds))

    async def pause(self, milliseconds: int = 700) -> None:
        await self.hear(sound(milliseconds, 0))

    async def take_turn(self) -> None:
        """Speak, and be silent for long enough to end the turn."""
        await self.hear(sound(600) + sound(700, 0))

    async def say(self, text: str, **item: Any) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content} | item
        await self.send("conversation.item.create", item=item)
        return (await self.until("conversation.item.done"))["item"]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def story(self) -> list[str]:
        """The types of the events, runs of the same taken together."""
        types = [event["type"] for event in self.events]
        return [kind for before, kind in zip([None, *types], types, strict=False) if before != kind]

    @property
    def audio(self) -> bytes:
        deltas = self.all("response.output_audio.delta")
        return b"".join(base64.b64decode(event["delta"]) for event in deltas)


@dataclass
class Running:
    """A server that listens."""

    house: House
    vad: Any
    asr: Asked
    llm: Asked
    tts: Asked
    port: int
    connections: set[Any]
    query: str = "model=gpt-realtime"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime?{self.query}"

    @asynccontextmanager
    async def call(self, **options: Any) -> AsyncIterator[Client]:
        """A call whose session has begun."""
        options = {"proxy": None, "max_size": None, "max_queue": None, **options}
        async with connect(self.url, **options) as socket:
            client = Client(socket)
            assert (await client.next())["type"] == "session.created"
            assert (await client.next())["type"] == "conversation.created"
            client.events.clear()
            yield client

    async def is_empty(self) -> None:
        """Wait until nobody is in, and nothing of them is left."""
        await eventually(lambda: self.house.calls == 0)
        assert self.vad.slots == set()
        assert self.house.engines.ears._ears == set()

    async def assert_works(self) -> None:
        """A call from beginning to end."""
        async with self.call() as client:
            await client.take_turn()
            done = await client.until("response.done")
            assert done["response"]["status"] == "completed"
            assert len(client.audio) == 2 * 3 * RATE


@pytest.fixture
async def serve(vad: Any) -> AsyncIterator[Callable[..., Any]]:
    """``await serve("admission.max_calls=2", llm=...)``: a Running server, ready unless told
    otherwise. At the end nothing of any call may be left."""
    async with AsyncExitStack() as stack:
        servers: list[Running] = []

        async def start(*settings: str, ready: bool = True, **engines: Any) -> Running:
            asr = Asked(engines.get("asr", ScriptedAsr()))
            llm = Asked(engines.get("llm", ScriptedLlm()))
            tts = Asked(engines.get("tts", ScriptedTts()))
            served = Engines(Ears(vad), asr, llm, tts, knowledge=engines.get("knowledge"))
            house = House(load(settings=(NO_ECHO, *settings), scripted=True), served,
                          ready=ready, embedder=engines.get("embedder"))  # fmt: skip
            listener = socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            server = uvicorn.Server(_uvicorn_config(house))
            server.config.load()
            server.lifespan = server.config.lifespan_class(server.config)
            await server.startup([listener])
            for listening in server.servers:  # uvicorn's own shutdown takes a tenth of a second
                stack.push_async_callback(listening.wait_closed)
                stack.callback(listening.close)
            connections = server.server_state.connections
            servers.append(Running(house, vad, asr, llm, tts, port, connections))
            return servers[-1]

        yield start
        for running in servers:
            await running.is_empty()
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
