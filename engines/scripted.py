"""Null engines of a fixed cost: they answer from a script, late or wrongly if they are told to.

They stand where a model stands, so that a test decides what comes when, and a load test
measures the server alone. A delay of nothing costs nothing, yet every item hands the loop
back, as a model's would, so that many calls take fair turns on one core.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import numpy as np

from engines.asr.slots import Slots
from engines.audio import Pcm
from engines.ports import (
    AsrRequest,
    ChatRequest,
    Delta,
    EngineError,
    Load,
    Priority,
    SpeechRequest,
    TextDelta,
    ToolCallDelta,
    Transcript,
    Usage,
)

if TYPE_CHECKING:
    from engines.models import ModelStore

ScriptItem: TypeAlias = str | ToolCallDelta
Request = TypeVar("Request", AsrRequest, ChatRequest, SpeechRequest)
Item = TypeVar("Item")

RATE: Final = 24_000
CHUNK_SAMPLES: Final = RATE * 40 // 1000
SAMPLES_PER_WORD: Final = RATE // 12
"""Twelve words, one scripted sentence, are 1.0 s however they are split into phrases."""

SENTENCES: Final = (
    "The scripted model answers every question with the very same three sentences.",
    " Each of them has twelve words and takes one second to say.",
    " Nothing in here thinks, so all you measure is the server itself.",
)


_MOST_WAITING: Final = 10_000


def tokens_of(text: str) -> tuple[str, ...]:
    """Split before each space, so that joining the tokens gives the text back."""
    return tuple(word if index == 0 else f" {word}" for index, word in enumerate(text.split(" ")))


SCRIPT: Final[tuple[ScriptItem, ...]] = tokens_of("".join(SENTENCES))


def _tone() -> Pcm:
    """One chunk of a quiet 300 Hz tone. Its period, 80 samples, divides both a chunk and a
    word, so that chunks and phrases join without a click."""
    time = np.arange(CHUNK_SAMPLES) / RATE
    tone = Pcm.from_floats(0.05 * np.sin(2 * np.pi * 300 * time), RATE)
    tone.samples.flags.writeable = False
    return tone


TONE: Final = _tone()


@dataclass(frozen=True, slots=True)
class Pace:
    """When items come, what they cost, and what goes wrong.

    Delays run side by side, however many requests there are. ``work_ms`` is what each item takes of
    the one device that all requests share, the most urgent first: what makes an engine slower
    the more callers it has.

    ``fail_code``: the EngineError code to fail with, after ``fail_after`` items (0: as soon as
    it is opened), the first ``fail_times`` requests only (0: every one). ``hang_after``: items
    after which nothing more ever comes (-1: never).
    """

    start_delay_ms: float = 0.0
    item_delay_ms: float = 0.0
    work_ms: float = 0.0
    fail_code: str = ""
    fail_after: int = 0
    fail_times: int = 0
    hang_after: int = -1


@dataclass(frozen=True, slots=True)
class AsrOptions(Pace):
    """``text``: what every caller is heard to say."""

    text: str = "please tell me something about this server"


@dataclass(frozen=True, slots=True)
class LlmOptions(Pace):
    """``script``: the answer, one delta an item. ``tool_script``: what follows a tool's result."""

    script: tuple[ScriptItem, ...] = SCRIPT
    tool_script: tuple[ScriptItem, ...] = SCRIPT


@dataclass(frozen=True, slots=True)
class TtsOptions(Pace):
    """Speech takes 1/12 s a word at speed 1.0."""


class Scripted(Generic[Request, Item]):
    """Plays the items of a request's script at the pace of its options."""

    def __init__(self, name: str, pace: Pace) -> None:
        self._name = name
        self._pace = pace
        self._failures = 0
        self._busy = 0
        self._device = Slots(name, 1, _MOST_WAITING)

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    def load(self) -> Load:
        """Requests that are open, and items that wait for the device."""
        return replace(self._device.load(), slots=0, busy=self._busy)

    def open(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        """Start the script. Raises EngineError where the options say so."""
        return self._open(request)

    def script(self, request: Request) -> Iterable[Item]:
        """The items that answer ``request``."""
        raise NotImplementedError

    @asynccontextmanager
    async def _open(self, request: Request) -> AsyncGenerator[AsyncIterator[Item], None]:
        fails = self._takes_a_failure()
        if fails and self._pace.fail_after == 0:
            raise self._failure()
        items = self._play(self.script(request), fails, request.priority)
        self._busy += 1
        try:
            yield items
        finally:
            self._busy -= 1
            await items.aclose()

    async def _play(
        self, script: Iterable[Item], fails: bool, priority: Priority
    ) -> AsyncGenerator[Item, None]:
        pace = self._pace
        delay = pace.item_delay_ms / 1000
        if pace.start_delay_ms:
            await asyncio.sleep(pace.start_delay_ms / 1000)
        given = 0
        for item in script:
            await self._go_wrong(given, fails)
            if pace.work_ms:
                async with self._device.hold(priority):
                    await asyncio.sleep(pace.work_ms / 1000)
            await asyncio.sleep(delay)
            yield item
            given += 1
        await self._go_wrong(given, fails)

    async def _go_wrong(self, given: int, fails: bool) -> None:
        if given == self._pace.hang_after:
            await asyncio.Event().wait()
        if fails and given == self._pace.fail_after:
            raise self._failure()

    def _takes_a_failure(self) -> bool:
        pace = self._pace
        if not pace.fail_code or (pace.fail_times and self._failures >= pace.fail_times):
            return False
        self._failures += 1
        return True

    def _failure(self) -> EngineError:
        return EngineError(
            self._name, self._pace.fail_code, "fails as its options say: unset fail_code to stop it"
        )


class ScriptedAsr(Scripted[AsrRequest, Transcript]):
    """Hears the same words in everything."""

    def __init__(self, options: AsrOptions | None = None) -> None:
        options = options or AsrOptions()
        super().__init__("scripted asr", options)
        self._transcript = (Transcript(options.text),)

    def script(self, request: AsrRequest) -> Iterable[Transcript]:  # noqa: ARG002
        return self._transcript


class ScriptedLlm(Scripted[ChatRequest, Delta]):
    """Gives the same answer to everything: by default three sentences of twelve tokens."""

    def __init__(self, options: LlmOptions | None = None) -> None:
        options = options or LlmOptions()
        super().__init__("scripted llm", options)
        self._first = tuple(map(_delta, options.script))
        self._after_tool = tuple(map(_delta, options.tool_script))

    def open(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """The script; of a request that wants no answer, neither delays nor failures either."""
        if request.max_tokens == 0:
            return _nothing_to_say()
        return super().open(request)

    def script(self, request: ChatRequest) -> Iterable[Delta]:
        last = request.messages[-1].role if request.messages else "user"
        items = self._after_tool if last == "tool" else self._first
        given = items[: request.max_tokens]
        calls = any(isinstance(item, ToolCallDelta) for item in given)
        reason = "length" if len(given) < len(items) else "tool_calls" if calls else "stop"
        return (*given, Usage(len(request.messages), len(given), 0, reason))


@asynccontextmanager
async def _nothing_to_say() -> AsyncGenerator[AsyncIterator[Delta], None]:
    async def deltas() -> AsyncGenerator[Delta, None]:
        yield Usage(finish_reason="skipped")

    yield deltas()


class ScriptedTts(Scripted[SpeechRequest, Pcm]):
    """Speaks a quiet tone at 24 kHz, as long as the words would take."""

    def __init__(self, options: TtsOptions | None = None) -> None:
        super().__init__("scripted tts", options or TtsOptions())

    def script(self, request: SpeechRequest) -> Iterator[Pcm]:
        words = sum(any(map(str.isalnum, word)) for word in request.text.split())
        whole, rest = divmod(round(words * SAMPLES_PER_WORD / request.speed), CHUNK_SAMPLES)
        for _ in range(whole):
            yield TONE
        if rest:
            yield Pcm(TONE.samples[:rest], RATE)


def _delta(item: ScriptItem) -> Delta:
    return TextDelta(item) if isinstance(item, str) else item


def create_asr(options: AsrOptions, models: ModelStore) -> ScriptedAsr:  # noqa: ARG001
    """The plug-in contract of ``engines.asr.scripted``."""
    return ScriptedAsr(options)


def create_llm(options: LlmOptions, models: ModelStore) -> ScriptedLlm:  # noqa: ARG001
    """The plug-in contract of ``engines.llm.scripted``."""
    return ScriptedLlm(options)


def create_tts(options: TtsOptions, models: ModelStore) -> ScriptedTts:  # noqa: ARG001
    """The plug-in contract of ``engines.tts.scripted``."""
    return ScriptedTts(options)
