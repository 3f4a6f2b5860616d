"""A caller, a door that notes what it is told, and engines that note what they are asked."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts
from engines.vad.ears import Ears
from pipelines.conversation.call import Call, open_call
from pipelines.conversation.endpoint import EndpointSettings
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.settings import TurnSettings

RATE = 16_000
FRAME_MS = 20
LOUD, QUIET = 8_000, 0


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


class Watched:
    """An engine, and what was asked of it. ``open_now``: requests that are not over."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.requests: list[Any] = []
        self.asked_at_ms: list[float] = []
        self.open_now = self.most_at_once = 0

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        if getattr(request, "max_tokens", None) != 0:  # what is only read ahead asks for nothing
            self.requests.append(request)
        self.asked_at_ms.append(now_ms())
        self.open_now += 1
        self.most_at_once = max(self.most_at_once, self.open_now)
        try:
            async with self.engine.open(request) as stream:
                yield stream
        finally:
            self.open_now -= 1


@dataclass(frozen=True)
class Told:
    """``name``: a method of the Door."""

    at_ms: float
    name: str
    args: tuple[Any, ...]


class NotingDoor:
    """Notes every call of a Door's method; raises what ``bugs`` holds for it."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.bugs: dict[str, Exception] = {}
        self.changed = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def note(*args: Any) -> None:
            self.told.append(Told(now_ms(), name, args))
            self.changed.set()
            if name in self.bugs:
                raise self.bugs[name]

        return note

    @property
    def names(self) -> list[str]:
        """What was told, runs of the same taken together."""
        return [name for name, _ in itertools.groupby(told.name for told in self.told)]

    def all(self, name: str) -> list[Told]:
        return [told for told in self.told if told.name == name]

    def last(self, name: str) -> Told:
        return self.all(name)[-1]

    async def wait(self, name: str, count: int = 1) -> Told:
        """The ``count``-th time that this was told, now or later."""
        while len(self.all(name)) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.all(name)[count - 1]


QUICK = TurnSettings(
    endpoint=EndpointSettings(silence_ms=512, ahead_ms=160),
    echo_guard=False,  # what these callers say is no sound
    partials=False,
)
SETTINGS = CallSettings(turns=QUICK, instructions="Be brief.")


@dataclass
class Stage:
    """All that a call needs. Engines may be replaced before the call is opened."""

    vad: Any
    asr: Watched = field(default_factory=lambda: Watched(ScriptedAsr()))
    llm: Watched = field(default_factory=lambda: Watched(ScriptedLlm()))
    tts: Watched = field(default_factory=lambda: Watched(ScriptedTts()))
    settings: CallSettings = SETTINGS
    observers: tuple[Any, ...] = ()
    knowledge: Any = None

    def __post_init__(self) -> None:
        self.ears = Ears(self.vad)

    @asynccontextmanager
    async def call(self, door: NotingDoor | None = None) -> AsyncIterator["Line"]:
        door = door or NotingDoor()
        numbers = itertools.count(1)
        async with open_call(
            Engines(self.ears, self.asr, self.llm, self.tts, knowledge=self.knowledge),
            self.settings,
            door,
            rate=RATE,
            new_id=lambda: f"item_{next(numbers)}",
            call_id="call_1",
            observers=self.observers,
        ) as call:
            yield Line(call, door)

    def assert_nothing_is_left(self) -> None:
        """No task, no timer, no slot of the VAD, no open request of an engine."""
        loop = asyncio.get_running_loop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [timer for timer in loop._scheduled if not timer.cancelled()] == []
        assert self.vad.slots == set()
        assert [engine.open_now for engine in (self.asr, self.llm, self.tts)] == [0, 0, 0]


@dataclass
class Line:
    """The caller's end of a call."""

    call: Call
    door: NotingDoor

    async def sound(self, milliseconds: int, level: int) -> None:
        """So much audio, in frames, in real time."""
        for _ in range(milliseconds // FRAME_MS):
            self.call.hear(np.full(RATE * FRAME_MS // 1000, level, np.int16))
            await asyncio.sleep(FRAME_MS / 1000)

    async def speak(self, milliseconds: int = 600) -> None:
        await self.sound(milliseconds, LOUD)

    async def pause(self, milliseconds: int = 700) -> None:
        await self.sound(milliseconds, QUIET)

    async def take_turn(self) -> None:
        """Speak, then be silent for long enough to end the turn."""
        await self.speak()
        await self.pause()


@pytest.fixture
async def stage(vad: Any) -> AsyncIterator[Stage]:
    """Checks at the end that nothing is left of any call."""
    stage = Stage(vad)
    yield stage
    stage.assert_nothing_is_left()
