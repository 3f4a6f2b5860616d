"""What an MCP server says: JSON-RPC, the lists of its tools, what a call of one gives.

Source: https://modelcontextprotocol.io/specification/2025-11-25
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import httpx
import msgspec

from engines.llm.sse import EventData
from voice.wire.realtime_mcp import RealtimeMcpListedTool

T = TypeVar("T")

VERSION: Final = "2025-11-25"
MOST_BYTES: Final = 1024 * 1024
"""Of one answer."""

Fault: TypeAlias = Literal["http", "protocol", "tool"]


class McpError(Exception):
    """A server does not do what it is asked. ``code``: an HTTP status, or one of JSON-RPC."""

    def __init__(self, fault: Fault, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.fault = fault
        self.code = code


class _Camel(msgspec.Struct, rename="camel"):
    """As MCP spells its fields."""


class ListedTool(_Camel):
    """A tool, and the JSON schema of its arguments."""

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    annotations: dict[str, Any] | None = None

    def to_wire(self) -> RealtimeMcpListedTool:
        """As clients are told of it."""
        return RealtimeMcpListedTool(
            self.name, self.input_schema, self.description or "", self.annotations
        )


class ToolPage(_Camel):
    """Some of the tools, and where the next begin."""

    tools: list[ListedTool]
    next_cursor: str | None = None


class CallResult(_Camel):
    """What a tool gives."""

    content: list[dict[str, Any]] = []
    structured_content: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """What a model can read of it."""
        if not self.content and self.structured_content is not None:
            return msgspec.json.encode(self.structured_content).decode()
        return "\n".join(map(_text_of, self.content))


class Greeting(_Camel):
    """The answer to ``initialize``."""

    protocol_version: str = VERSION


class Refusal(msgspec.Struct):
    """JSON-RPC's error."""

    code: int = 0
    message: str = ""


class Message(msgspec.Struct):
    """One message of JSON-RPC, whatever it is."""

    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: Refusal | None = None


def read(kind: type[T], data: bytes) -> T:
    """Raises McpError where this is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise McpError("protocol", f"its answer cannot be understood: {error}") from error


async def messages_of(response: httpx.Response) -> AsyncGenerator[Message, None]:
    """What an answer is made of, as it comes. Raises McpError where it is too long, or no answer
    of such a server."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise McpError("protocol", "it compresses its answer, which it was asked not to")
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        events = EventData()
        async for chunk in _bounded(response):
            for data in events.feed(chunk):
                yield read(Message, data)
        for data in events.finish():
            yield read(Message, data)
    elif body := b"".join([chunk async for chunk in _bounded(response)]):
        yield read(Message, body)


async def _bounded(response: httpx.Response) -> AsyncIterator[bytes]:
    """As little of it at a time as there is; no event of it can grow larger than all of it."""
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size >= MOST_BYTES:
            raise McpError("protocol", f"its answer has more than {MOST_BYTES} bytes")
        yield chunk
        await asyncio.sleep(0)  # one read may bring ten thousand chunks, of a byte each


def _text_of(part: Mapping[str, Any]) -> str:
    resource = part.get("resource")
    text = part.get("text") or (resource.get("text") if isinstance(resource, dict) else None)
    if isinstance(text, str):
        return text
    return f"[{part.get('type', 'something')}, which cannot be read aloud]"
