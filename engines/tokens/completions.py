"""Tokens from any server with /v1/completions: vLLM, trtllm-serve, llama.cpp.

The prompt goes as token ids, so it is exactly what the model was trained on; ids come back, or
the text of the audio tokens. Leaving a request's context closes its connection (HTTP/1.1) or
resets its stream (HTTP/2), which is what makes a server stop generating.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

import httpx
import msgspec

from engines.endpoint import drain, endpoint_client, endpoint_url, without_key
from engines.llm.chat_wire import code_of, upstream_message
from engines.tokens.completions_wire import (
    NAME,
    SERVERS,
    Server,
    TokenReader,
    failure,
    request_body,
    server_of,
)
from engines.tokens.ports import TokenRequest, Tokens

if TYPE_CHECKING:
    from engines.models import ModelStore
    from engines.tts.orpheus import Options

_log = logging.getLogger(__name__)
_CONNECT_S: Final = 3.0
_ERROR_BYTES: Final = 65_536


def create_source(options: Options, models: ModelStore) -> Completions:  # noqa: ARG001 - contract
    """The contract of a token source: connects nowhere yet."""
    return Completions(options)


class Completions:
    """A TokenSource behind HTTP. It cannot follow a request's grammar."""

    def __init__(self, options: Options) -> None:
        if options.server not in ("", *SERVERS):
            known = ", ".join(SERVERS)
            raise failure("bad_request", f"[tts] server is {options.server!r}: take {known}")
        self._options = options
        self._model = options.served_model
        self._server = cast("Server | None", options.server or None)
        url = endpoint_url(options.base_url, NAME, "tts")
        self._shown_url = str(url.copy_with(userinfo=b""))
        self._client = endpoint_client(
            url,
            options.api_key,
            # More than slots, since one that is being closed still counts for a moment.
            connections=2 * options.slots + 1,
            connect_s=_CONNECT_S,
        )

    async def warm_up(self) -> None:
        """Connect, check the key, learn the model's name and which server it is, as far as the
        options leave that open. Raises EngineError where that cannot be done."""
        async with self._within():
            response = await self._send(self._client.build_request("GET", "models"))
            listed = _models(await response.aread())
        if not listed and not self._model:
            raise failure("bad_request", f"{self._shown_url} lists no model: set served_model")
        chosen = next((m for m in listed if m.id == self._model), listed[0] if listed else None)
        self._model = self._model or (chosen.id if chosen else "")
        self._server = self._server or server_of(chosen.owned_by or "" if chosen else "")
        _log.info("%s: the model %s on %s", self._shown_url, self._model, self._server)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def open(self, request: TokenRequest) -> AbstractAsyncContextManager[AsyncIterator[Tokens]]:
        """Ask the server. Iterating raises EngineError, with the codes of the port."""
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: TokenRequest) -> AsyncGenerator[AsyncIterator[Tokens], None]:
        async with aclosing(self._tokens(request)) as tokens:
            yield tokens

    async def _tokens(self, request: TokenRequest) -> AsyncGenerator[Tokens, None]:
        if self._server is None or not self._model:
            raise failure("unavailable", "the server is not known yet: call warm_up first")
        content = request_body(request, self._model, self._server, self._options.extra_body)
        ask = self._client.build_request("POST", "completions", content=content)
        async with self._within():
            response = await self._send(ask)
        answer = TokenReader(request.stop)
        body = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
        try:
            while not answer.done:
                tokens, ended = await self._next(body, answer)
                if tokens:
                    yield tokens
                if ended:
                    return
            answer.finish()
            await drain(body)
        finally:
            await body.aclose()
            await response.aclose()

    async def _next(self, body: AsyncIterator[bytes], answer: TokenReader) -> tuple[Tokens, bool]:
        """The next tokens, and whether the body has ended.

        The time for them goes on while comments and empty events come: those keep a connection
        alive, and make no sound.
        """
        async with self._within():
            while True:
                data = await anext(body, None)
                tokens = answer.finish() if data is None else answer.feed(data)
                if tokens or answer.done or data is None:
                    return tokens, data is None

    async def _send(self, request: httpx.Request) -> httpx.Response:
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        body = b""
        try:
            async for data in response.aiter_raw():
                body += data
                if len(body) > _ERROR_BYTES:
                    break
        finally:
            await response.aclose()
        said = self._without_key(upstream_message(body))
        status, path = response.status_code, response.request.url.path
        raise failure(code_of(status), f"{self._shown_url} answered {status} to {path}: {said}")

    @asynccontextmanager
    async def _within(self) -> AsyncGenerator[None, None]:
        """Bound what is awaited inside, and translate how a connection fails there."""
        limit = self._options.timeout_s
        try:
            async with asyncio.timeout(limit):
                yield
        except (TimeoutError, httpx.TimeoutException):
            raise failure(
                "timeout", f"{self._shown_url} sent no token for {limit:g} s: is it overloaded?"
            ) from None
        except httpx.ConnectError as error:
            raise failure(
                "unavailable", f"no connection to {self._shown_url} ({error}): is it running?"
            ) from None
        except httpx.TransportError as error:
            what = self._without_key(str(error)) or type(error).__name__
            raise failure(
                "unavailable", f"the connection to {self._shown_url} broke ({what})"
            ) from None

        except httpx.DecodingError as error:
            raise failure("bad_response", f"{self._shown_url} sent garbage: {error}") from None

    def _without_key(self, text: str) -> str:
        return without_key(text, self._options.api_key)


class _Model(msgspec.Struct):
    id: str
    owned_by: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


def _models(body: bytes) -> list[_Model]:
    try:
        return msgspec.json.decode(body, type=_Models).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
