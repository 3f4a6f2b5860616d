"""A client of one MCP server, by streamable HTTP: what tools it has, and calls of them.

Each message of ours is a POST of JSON-RPC, and what it is answered by is JSON or a stream of
events. What the server sends besides (progress, log lines, requests of its own) is passed over: we
offer it nothing that it could ask for.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from engines.endpoint import drain
from voice.mcp.messages import (
    VERSION,
    CallResult,
    Greeting,
    ListedTool,
    McpError,
    ToolPage,
    messages_of,
    read,
)
from voice.mcp.settings import McpSettings

MOST_TOOLS: Final = 128
"""As many as OpenAI's API takes."""

_MOST_PAGES: Final = 16
_CLOSE_S: Final = 1.0
_LEAST_SECRET: Final = 4
"""Characters. What is shorter is in every text."""

_FAULTS: Final = (httpx.HTTPError, ssl.SSLError, UnicodeError)
"""A server that breaks its TLS off with garbage, or names a session in no ASCII, is told of as
neither of the last two by httpx."""

_AUTHORIZATION: Final = "authorization"
_SESSION: Final = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server is, and what opens it."""

    url: str
    authorization: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Access({self.url!r})"

    def sent(self) -> dict[str, str]:
        """The headers of each request."""
        named = {name.lower(): value for name, value in self.headers}
        if self.authorization is not None:
            named[_AUTHORIZATION] = f"Bearer {self.authorization}"
        return named

    def without_secrets(self, text: str) -> str:
        """What a server says, which may be what it was given."""
        for secret in (self.authorization, *(value for _, value in self.headers)):
            if secret and len(secret) >= _LEAST_SECRET:
                text = text.replace(secret, "[secret]")
        return text


class McpClient:
    """Of one server, for one call. ``http`` is its own, and closed with it."""

    def __init__(self, http: httpx.AsyncClient, access: Access, settings: McpSettings) -> None:
        self._http = http
        self._access = access
        self._settings = settings
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}

    async def list_tools(self) -> list[ListedTool]:
        """Begin a session with the server, and ask what it has. Raises McpError."""
        async with _within(self._settings.list_s):
            await self._begin()
            tools: list[ListedTool] = []
            cursor: str | None = None
            for _ in range(_MOST_PAGES):
                asked = {} if cursor is None else {"cursor": cursor}
                page = read(ToolPage, await self._ask("tools/list", asked))
                tools += page.tools
                if (cursor := page.next_cursor) is None:
                    break
        return tools[:MOST_TOOLS]

    async def call(self, name: str, arguments: str) -> str:
        """What a tool gives, as text; ``arguments`` is JSON text. Raises McpError."""
        try:
            decoded = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise McpError("tool", f"the arguments are no JSON object: {error}") from error
        asked = {"name": name, "arguments": decoded}
        async with _within(self._settings.call_s):
            try:
                result = await self._ask("tools/call", asked)
            except _SessionOverError:
                await self._begin()
                result = await self._ask("tools/call", asked)
        given = read(CallResult, result)
        text = self._shortened(self._access.without_secrets(given.text))
        if given.is_error:
            raise McpError("tool", text or "the tool failed, and does not say why")
        return text

    async def close(self) -> None:
        """End the session, if the server keeps one and is quick about it."""
        try:
            if _SESSION in self._session:
                with suppress(*_FAULTS, TimeoutError):
                    async with asyncio.timeout(_CLOSE_S):
                        await self._say_goodbye()
        finally:
            await self._http.aclose()

    async def _say_goodbye(self) -> None:
        """What is answered is not read: it may be long, or unpack into much."""
        async with self._http.stream("DELETE", self._access.url, headers=self._headers()):
            pass

    async def _begin(self) -> None:
        self._session = {}
        about_us = {"name": "antiphon", "version": "1"}
        asked = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about_us}
        greeting = read(Greeting, await self._ask("initialize", asked))
        self._session["mcp-protocol-version"] = greeting.protocol_version
        await self._exchange({"method": "notifications/initialized"})

    async def _ask(self, method: str, params: Mapping[str, Any]) -> bytes:
        """The result of a request, as JSON."""
        number = next(self._numbers)
        result = await self._exchange({"id": number, "method": method, "params": params}, number)
        if result is None:
            raise McpError("protocol", f"it ends its answer to {method} without a result")
        return result

    async def _exchange(self, sent: Mapping[str, Any], number: int | None = None) -> bytes | None:
        """Send a message, and wait for the result of this number if there is one."""
        content = msgspec.json.encode({"jsonrpc": "2.0", **sent})
        url, headers = self._access.url, self._headers()
        try:
            async with self._http.stream("POST", url, content=content, headers=headers) as response:
                self._check(response)
                return await self._result_in(response, number) if number is not None else None
        except _FAULTS as error:
            why = self._access.without_secrets(str(error)) or type(error).__name__
            raise McpError("http", f"it cannot be reached: {why}") from None

    async def _result_in(self, response: httpx.Response, number: int) -> bytes | None:
        async with aclosing(messages_of(response)) as messages:
            async for message in messages:
                if message.method is not None or message.id != number:
                    continue
                if message.error is not None:
                    told = self._access.without_secrets(message.error.message)
                    raise McpError("protocol", self._shortened(told), message.error.code)
                await drain(messages)  # only then can the connection be used again
                return bytes(message.result)
        return None

    def _headers(self) -> dict[str, str]:
        return {
            **self._access.sent(),
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",  # a few kilobytes can be unpacked into any number
            **self._session,
        }

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == httpx.codes.NOT_FOUND and _SESSION in self._session:
            raise _SessionOverError("http", "it has ended the session", status)
        if response.is_redirect:
            raise McpError("http", "it sends elsewhere, which is not followed", status)
        if not response.is_success:
            reason = self._shortened(self._access.without_secrets(response.reason_phrase))
            raise McpError("http", f"it answers {status} {reason}".rstrip(), status)
        if session := response.headers.get(_SESSION):
            self._session[_SESSION] = session

    def _shortened(self, text: str) -> str:
        most = self._settings.max_result_characters
        if len(text) <= most:
            return text
        return f"{text[:most]} … [cut: {len(text)} characters in all]"


class _SessionOverError(McpError):
    """The server does not know our session any more."""


@asynccontextmanager
async def _within(limit_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        raise McpError("http", f"it took longer than {limit_s:g} s") from None
