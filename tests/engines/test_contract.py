"""Our own engines keep the contract, and each breach of it is noticed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.contract import check_engine
from engines.models import ModelStore
from engines.ports import EngineError, TextDelta, Transcript, Usage

ENGINES = [
    *((kind, "scripted") for kind in ("asr", "llm", "tts")),
    *(
        pytest.param(kind, name, marks=pytest.mark.engine)
        for kind, name in (
            ("asr", "moonshine"), ("asr", "whisper"), ("llm", "smollm2"), ("tts", "hibari"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), ENGINES)
async def test_our_engines_keep_it(kind: Any, name: str) -> None:
    module = import_module(f"engines.{kind}.{name}")
    await check_engine(kind, module.create(module.Options(), ModelStore()))


async def test_the_engine_of_the_handbook_keeps_it() -> None:
    handbook = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    code = handbook.partition("```python\n")[2].partition("```")[0]
    parrot: dict[str, Any] = {"__name__": "parrot"}
    exec(compile(code, "parrot.py", "exec"), parrot)
    await check_engine("tts", parrot["create"](parrot["Options"](), None))


class Made:
    """An engine that gives ``items`` to every request; ``slots`` of them at once."""

    def __init__(self, *items: Any, slots: int = 9, leaks: bool = False) -> None:
        self.items, self.slots, self.leaks = items, slots, leaks

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[Any]:
        if self.slots == 0:
            raise EngineError("made", "unavailable", "all slots are taken")
        self.slots -= 1
        try:
            yield self.stream(request)
        finally:
            self.slots += 0 if self.leaks else 1

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        for item in self.items:
            yield item


class Deaf(Made):
    """One whose requests turn a cancellation into an error of their own."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise EngineError("deaf", "failed", "what?") from None
        for item in self.items:
            yield item


def audio(rate: int) -> Pcm:
    return Pcm(np.ones(10, np.int16), rate)


@pytest.mark.parametrize(
    ("kind", "engine", "promise"),
    [
        ("asr", lambda: Made(), "a recogniser gives a Transcript at least"),
        ("asr", lambda: Made("hello"), "the stream holds Transcript, not 'hello'"),
        ("llm", lambda: Made(TextDelta("hi")), "an answer ends with its one Usage"),
        ("llm", lambda: Made(Usage(), TextDelta("hi")), "an answer ends with its one Usage"),
        ("llm", lambda: Made(Usage()), "answers a question with something"),
        ("llm", lambda: Made(TextDelta("hi"), Usage()), "max_tokens=0 asks for a Usage"),
        ("tts", lambda: Made(), "a voice makes audio of"),
        ("tts", lambda: Made(audio(8_000), audio(24_000)), "one phrase has one sample rate"),
        ("asr", lambda: Deaf(Transcript("hi")), "ends in CancelledError"),
    ],
)
async def test_what_is_broken_is_named(kind: Any, engine: Callable[[], Made], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        await check_engine(kind, engine())


async def test_slots_that_are_not_given_back_run_out() -> None:
    with pytest.raises(EngineError, match="all slots are taken"):
        await check_engine("asr", Made(Transcript("hi"), slots=2, leaks=True))


@pytest.mark.virtual_clock
async def test_an_engine_that_hangs_is_given_up() -> None:
    class Stuck(Made):
        async def warm_up(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await check_engine("asr", Stuck(), patience_s=5)
