"""Tool calls in a model's own words: what it is told of the tools, and what it writes to call one.

Two formats are read: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` anywhere in an
answer (Hermes, Qwen and many others) and an answer that is nothing but one such object, with
``parameters`` or ``arguments`` (Llama 3.1). Other models go behind a server that has a parser
for them. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from engines.ports import Delta, EngineError, Message, TextDelta, Tool, ToolCall, ToolCallDelta

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError)


def as_template_message(message: Message) -> dict[str, Any]:
    """``message`` as chat templates read it: arguments as an object, not as text."""
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = [_template_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def _template_call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments: Any = msgspec.json.decode(call.arguments or "{}")
    except _UNREADABLE:
        arguments = call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def as_template_tool(tool: Tool) -> dict[str, Any]:
    """``tool`` as chat templates read it."""
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


class AnswerText:
    """Splits an answer that comes in pieces into what is said and what is called.

    ``tools`` are the names on offer; without any, all is said. ``calls`` counts the calls.
    Space around a call is no part of what is said. Both methods raise EngineError
    (``bad_response``) for a call that cannot be read.
    """

    def __init__(self, engine: str, tools: Iterable[str]) -> None:
        self.calls = 0
        self._engine = engine
        self._tools = frozenset(tools)
        self._begun = not self._tools
        self._calling = False
        self._held = ""

    def feed(self, text: str) -> Iterator[Delta]:
        """What these letters complete."""
        self._held += text
        if not self._begun:
            # An answer that begins as an object may be a call as a whole: wait for its end.
            self._begun = not self._held.lstrip().startswith("{") and bool(self._held.strip())
        if self._begun:
            yield from self._tell()

    def finish(self) -> Iterator[Delta]:
        """The answer has ended: what was held back."""
        held, self._held = self._held, ""
        if self._calling:
            yield self._called(held)
        elif not self._begun and (call := self._as_call(held)):
            yield call
        elif held.strip():
            yield TextDelta(held)

    def _tell(self) -> Iterator[Delta]:
        while self._tools:
            mark = _CLOSE if self._calling else _OPEN
            before, found, after = self._held.partition(mark)
            if not found:
                break
            self._held = after
            if self._calling:
                yield self._called(before)
            elif before.strip():
                yield TextDelta(before.rstrip())
            self._calling = not self._calling
        if not self._calling:
            yield from self._say()

    def _say(self) -> Iterator[Delta]:
        """All but what may be the beginning of a call, and the space before it."""
        text = self._held
        end = len(text)
        if self._tools:
            longest = min(end, len(_OPEN) - 1)
            end -= next((n for n in range(longest, 0, -1) if _OPEN.startswith(text[-n:])), 0)
            end = len(text[:end].rstrip())
        if end:
            yield TextDelta(text[:end])
        self._held = text[end:]

    def _called(self, written: str) -> ToolCallDelta:
        call = self._as_call(written, any_name=True)
        if call is None:
            raise EngineError(
                self._engine,
                "bad_response",
                f"the model wrote a tool call that cannot be read ({written.strip()[:200]!r}): "
                "ask again, or serve the model where there is a parser for its calls",
            )
        return call

    def _as_call(self, written: str, *, any_name: bool = False) -> ToolCallDelta | None:
        try:
            call = msgspec.json.decode(written.strip())
        except _UNREADABLE:
            return None
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or not (any_name or name in self._tools):
            return None
        arguments = call.get("arguments", call.get("parameters", {}))
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        self.calls += 1
        return ToolCallDelta(self.calls - 1, f"call_{uuid.uuid4().hex[:16]}", name, arguments)
