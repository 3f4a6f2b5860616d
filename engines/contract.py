"""What every engine has to do, as a check that may be run on one of your own::

    async def test_my_engine_keeps_the_contract():
        await check_engine("tts", my_house.parrot.create(Options(), ModelStore()))

It opens a few short requests, as calls do, and raises AssertionError with the promise of
``engines.ports`` that is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from engines.audio import Pcm
from engines.ports import (
    AsrRequest,
    ChatRequest,
    Message,
    SpeechRequest,
    TextDelta,
    ToolCallDelta,
    Transcript,
    Usage,
)

Kind: TypeAlias = Literal["asr", "llm", "tts"]

_TEXT: Final = "One, two, three."
_SECOND: Final = Pcm(
    (8_000 * np.sin(np.arange(16_000) * (2 * np.pi * 220 / 16_000))).astype(np.int16), 16_000
)


async def check_engine(kind: Kind, engine: Any, *, patience_s: float = 120.0) -> None:
    """Warm it up, ask it as calls do, and close it. ``patience_s`` bounds each of these.

    Raises AssertionError, TimeoutError where it hangs, and what the engine itself raises.
    """
    request, check = _REQUESTS[kind], _CHECKS[kind]
    async with asyncio.timeout(patience_s):
        await engine.warm_up()
    async with asyncio.timeout(patience_s):
        check(await _all(engine, request))
    async with asyncio.timeout(patience_s):
        await _leave_early(engine, request)
        await _cancel(engine, request)
        for items in await asyncio.gather(_all(engine, request), _all(engine, request)):
            check(items)
    if kind == "llm":
        async with asyncio.timeout(patience_s):
            nothing = await _all(engine, ChatRequest(_REQUESTS["llm"].messages, max_tokens=0))
            _require(
                [type(item) for item in nothing] == [Usage],
                f"max_tokens=0 asks for a Usage and no text, and gave {nothing!r}",
            )
    async with asyncio.timeout(patience_s):
        await engine.close()


async def _all(engine: Any, request: Any) -> list[Any]:
    async with engine.open(request) as stream:
        return [item async for item in stream]


async def _leave_early(engine: Any, request: Any) -> None:
    """As a caller who interrupts: whatever the request held must be free for the next."""
    async with engine.open(request) as stream:
        await anext(aiter(stream), None)
    async with engine.open(request):
        pass


async def _cancel(engine: Any, request: Any) -> None:
    """Cancellation must come through, wherever it strikes."""
    task = asyncio.create_task(_all(engine, request))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    _require(
        task.cancelled() or task.exception() is None,
        "a request that is cancelled ends in CancelledError, or was done before",
    )


def _check_transcripts(items: Sequence[Any]) -> None:
    _require(bool(items), "a recogniser gives a Transcript at least, with empty text for no words")
    _require_all(items, Transcript)


def _check_deltas(items: Sequence[Any]) -> None:
    _require_all(items, TextDelta, ToolCallDelta, Usage)
    places = [place for place, item in enumerate(items) if isinstance(item, Usage)]
    _require(places == [len(items) - 1], "an answer ends with its one Usage")
    _require(len(items) > 1, "a chat model answers a question with something")


def _check_audio(items: Sequence[Any]) -> None:
    _require_all(items, Pcm)
    _require(sum(map(len, items)) > 0, f"a voice makes audio of {_TEXT!r}")
    _require(len({pcm.rate for pcm in items}) == 1, "one phrase has one sample rate")


def _require_all(items: Sequence[Any], *kinds: type) -> None:
    known = " or ".join(kind.__name__ for kind in kinds)
    for item in items:
        _require(isinstance(item, kinds), f"the stream holds {known}, not {item!r}")


def _require(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(promise)


_REQUESTS: Final[Mapping[str, Any]] = {
    "asr": AsrRequest(_SECOND),
    "llm": ChatRequest((Message("user", "Say hello."),), max_tokens=8),
    "tts": SpeechRequest(_TEXT),
}
_CHECKS: Final[Mapping[str, Callable[[Sequence[Any]], None]]] = {
    "asr": _check_transcripts,
    "llm": _check_deltas,
    "tts": _check_audio,
}
