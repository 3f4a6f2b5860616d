"""A language model that follows the script, and writes down what it was asked.

An engine like any other: ``[llm] engine = "tests.phonecall.model"``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.ports import ChatRequest, Delta, TextDelta, ToolCallDelta, Usage
from tests.phonecall.script import ANSWER, GOODBYE, STORY, text_of


@dataclass(frozen=True, slots=True)
class Options:
    """``asked``: the file that is written to, a line for each request: which message of the
    caller's it was, and what it said."""

    asked: str


def create(options: Options, models: Any) -> Model:
    """The plug-in contract."""
    return Model(Path(options.asked))


class Model:
    """An Llm."""

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    @asynccontextmanager
    async def open(self, request: ChatRequest) -> AsyncGenerator[AsyncIterator[Delta], None]:
        yield self._answer(request)

    async def _answer(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        said = [message.content for message in request.messages if message.role == "user"]
        if request.max_tokens != 0 and said:
            with self._asked.open("a", encoding="utf-8") as file:
                file.write(json.dumps([len(said), said[-1]]) + "\n")
            for delta in deltas_of(request, said):
                await asyncio.sleep(0)
                yield delta
        yield Usage(input_tokens=len(request.messages), output_tokens=1)


def deltas_of(request: ChatRequest, said: list[str]) -> list[Delta]:
    """A story for the first thing that is said, an answer to the next, and for keys a goodbye;
    with the last of them ``0`` the line is closed by us."""
    if request.messages[-1].role == "tool":
        return []
    if not said[-1].startswith("[keypad:"):
        return [TextDelta(text_of(STORY if len(said) == 1 else ANSWER))]
    hang_up = [ToolCallDelta(0, "call_1", "hang_up", "{}")] if " 0" in said[-1] else []
    return [TextDelta(text_of(GOODBYE)), *hang_up]
