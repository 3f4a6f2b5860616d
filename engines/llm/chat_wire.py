"""The bodies of /v1/chat/completions: our requests as JSON, its streamed chunks as deltas.

Pure: no connection in here. What servers differ in is met with patience (null where a list is
due, no ``[DONE]``, no usage); what cannot be read raises EngineError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from engines.llm.sse import EventData
from engines.ports import (
    ChatRequest,
    Delta,
    EngineError,
    Image,
    Message,
    TextDelta,
    Tool,
    ToolCallDelta,
    Usage,
)

NAME: Final = "openai"


def failure(code: str, message: str) -> EngineError:
    """An error of the endpoint or of what it sent."""
    return EngineError(NAME, code, message)


# --- what we send ---------------------------------------------------------------------------


def request_body(
    request: ChatRequest,
    model: str,
    *,
    max_tokens_name: str,
    defaults: Mapping[str, Any],
) -> bytes:
    """``request`` as JSON. ``defaults`` are set where the request says nothing of its own."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **defaults,
    }
    if request.max_tokens is not None:
        body[max_tokens_name] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request.tool_choice)
        if not request.parallel_tools:
            body["parallel_tool_calls"] = False
    return msgspec.json.encode(body)


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.images:
        body["content"] = [*_text_parts(message.content), *map(_image_part, message.images)]
    if message.tool_calls:
        body["content"] = message.content or None
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def _text_parts(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image.url, "detail": image.detail}}


def _tool(tool: Tool) -> dict[str, Any]:
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


# --- what comes back ------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _ChoiceDelta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _ChoiceDelta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class AnswerReader:
    """Turns the bytes of a streamed answer into deltas.

    ``events`` counts what was understood so far; ``done`` is set by the end mark.
    """

    def __init__(self) -> None:
        self.events = 0
        self.done = False
        self._data = EventData()
        self._bytes = 0
        self._has_content = False
        self._finish_reason = ""
        self._usage: _Usage | None = None

    def feed(self, chunk: bytes) -> Iterator[Delta]:
        """What ``chunk`` completes. Raises EngineError (``bad_response``, or its own error)."""
        self._bytes += len(chunk)
        try:
            events = self._data.feed(chunk)
        except ValueError as error:
            raise failure("bad_response", f"{error}: is base_url that of a chat API?") from error
        return self._deltas(events)

    def finish(self) -> Iterator[Delta]:
        """The body has ended: what was left of it."""
        return self._deltas(self._data.finish())

    def usage(self) -> Usage:
        """The last delta. Raises EngineError where the answer was empty or cut off."""
        if self._bytes and not (self.events or self.done):
            raise failure(
                "bad_response", "what came is not a stream of events: is base_url a chat API's?"
            )
        if not self._has_content:
            reason = self._finish_reason or "none given"
            raise failure("empty", f"the answer has no text and no tool call (reason: {reason})")
        if not (self.done or self._finish_reason):
            raise failure("bad_response", "the answer broke off: look into the endpoint's log")
        counts = self._usage or _Usage()
        details = counts.prompt_tokens_details or _PromptDetails()
        return Usage(
            counts.prompt_tokens or 0,
            counts.completion_tokens or 0,
            details.cached_tokens or 0,
            self._finish_reason or "stop",
        )

    def _deltas(self, events: list[bytes]) -> Iterator[Delta]:
        for event in events:
            data = event.strip()
            if data == b"[DONE]":
                self.done = True
                return
            if data:
                yield from self._chunk(data)

    def _chunk(self, event: bytes) -> Iterator[Delta]:
        try:
            chunk = _decode(event)
        except _UNREADABLE as error:
            raise failure("bad_response", f"a chunk of the answer is unreadable: {error}") from None
        if chunk.error:
            raise stream_error(chunk.error)
        self.events += 1
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices or ():
            self._finish_reason = choice.finish_reason or self._finish_reason
            for delta in _choice_deltas(choice.delta or _ChoiceDelta()):
                self._has_content = True
                yield delta


def _choice_deltas(delta: _ChoiceDelta) -> Iterator[Delta]:
    if text := delta.content or delta.refusal:
        yield TextDelta(text)
    for position, call in enumerate(delta.tool_calls or ()):
        function = call.function or _Function()
        index = position if call.index is None else call.index
        yield ToolCallDelta(index, call.id or "", function.name or "", function.arguments or "")


# --- errors ---------------------------------------------------------------------------------


def code_of(status: int) -> str:
    """The EngineError code of an HTTP status that is not 2xx."""
    if status in (401, 403):
        return "unauthorized"
    if status == 429:
        return "rate_limited"
    if status >= 500:
        return "unavailable"
    return "bad_request" if status >= 400 else "bad_response"


def stream_error(error: Any) -> EngineError:
    """An error that arrives inside a stream that began well."""
    status = error.get("code") if isinstance(error, dict) else None
    code = code_of(status) if isinstance(status, int) else "failed"
    return failure(code, f"the endpoint broke the answer off: {_message_in(error)}")


def upstream_message(body: bytes) -> str:
    """What an error response says, in at most 300 characters."""
    try:
        said = msgspec.json.decode(body)
    except _UNREADABLE:
        said = body.decode(errors="replace")
    return _message_in(said)


def _message_in(said: Any) -> str:
    for key in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(key):
            said = said[key]
    return " ".join(str(said).split())[:300] or "no reason given"
