"""A language model that does what the steps of the conformance run ask for, and nothing else.

An engine like any other (``[llm] engine = "tests.conformance.model"``): it answers in a sentence,
tells a long story when it is asked for one, calls each tool that it is offered when it is asked
for the weather, and says back what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from engines.ports import ChatRequest, Delta, TextDelta, ToolCallDelta, Usage

ANSWER = "This is the answer of a model that was written for tests."
STORY = " ".join(
    f"This is sentence number {n} of a long story about nothing." for n in range(1, 13)
)
STORY_ASKED, WEATHER_ASKED = "story", "weather"


@dataclass(frozen=True, slots=True)
class Options:
    """There are none."""


def create(options: Options, models: Any) -> Model:
    """The plug-in contract."""
    return Model()


class Model:
    """An Llm."""

    sees_images = True

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    @asynccontextmanager
    async def open(self, request: ChatRequest) -> AsyncGenerator[AsyncIterator[Delta], None]:
        yield self._answer(request)

    async def _answer(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        for delta in deltas_of(request) if request.max_tokens != 0 else ():
            await asyncio.sleep(0)
            yield delta
        yield Usage(input_tokens=len(request.messages), output_tokens=1)


def deltas_of(request: ChatRequest) -> list[Delta]:
    """What answers this request."""
    results = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        results.append(message.content)
    if results:
        return words(f"The tools say {' and '.join(reversed(results))}.")
    # What an application has to say comes as the system's from pipecat.
    said = [message for message in request.messages if message.role in ("user", "system")]
    asked = said[-1].content if said else ""
    if WEATHER_ASKED in asked and request.tools:
        call = '{"city": "Bergen"}'
        return [
            ToolCallDelta(place, f"call_{len(request.messages)}_{place}", tool.name, call)
            for place, tool in enumerate(request.tools)
        ]
    if said and said[-1].images:
        return words("That is a picture.")
    return words(STORY if STORY_ASKED in asked else ANSWER)


def words(text: str) -> list[Delta]:
    """A delta a word."""
    first, *rest = text.split(" ")
    return [TextDelta(first), *(TextDelta(f" {word}") for word in rest)]
