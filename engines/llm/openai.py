"""Any endpoint that speaks /v1/chat/completions: vLLM, trtllm-serve, Ollama, or hosted.

One client with a pool of connections serves all calls. An answer is streamed; leaving its
context closes the connection (HTTP/1.1) or resets the stream (HTTP/2), which is what makes a
server stop generating when a caller interrupts.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
import msgspec

from engines.endpoint import drain, endpoint_client, endpoint_url, without_key
from engines.llm.chat_wire import (
    NAME,
    AnswerReader,
    code_of,
    failure,
    request_body,
    upstream_message,
)
from engines.ports import ChatRequest, Delta, EngineError, Usage

if TYPE_CHECKING:
    from engines.models import ModelStore

_log = logging.getLogger(__name__)
_FIRST_BACKOFF_S: Final = 0.1
_ERROR_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Options:
    """``model`` may be empty where the endpoint has just one. ``extra_body`` is merged into
    each request: {"chat_template_kwargs": {"enable_thinking": false}} keeps Qwen from thinking
    aloud. ``max_tokens_name`` is ``max_completion_tokens`` for OpenAI's reasoning models.
    ``images`` off says that the model cannot see: callers are told so at once.

    A request that fails before its first byte (no connection, 429, 503) is tried again up to
    ``retries`` times, all within ``first_token_timeout_s``; a Retry-After that is longer than
    ``retry_after_limit_s`` fails it at once.
    """

    base_url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    api_key: str = field(default="", repr=False)
    max_tokens: int | None = None
    temperature: float | None = None
    max_tokens_name: str = "max_tokens"
    extra_body: dict[str, Any] = field(default_factory=dict)
    images: bool = True
    connections: int = 256
    connect_timeout_s: float = 3.0
    first_token_timeout_s: float = 15.0
    idle_timeout_s: float = 10.0
    retries: int = 2
    retry_after_limit_s: float = 2.0


def create(options: Options, models: ModelStore) -> OpenAi:  # noqa: ARG001 - the plug-in contract
    """The plug-in contract: connects nowhere yet."""
    return OpenAi(options)


class OpenAi:
    """An Llm behind HTTP."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._model = options.model
        self.sees_images = options.images
        url = endpoint_url(options.base_url, NAME, "llm")
        self._shown_url = str(url.copy_with(userinfo=b""))
        self._client = endpoint_client(
            url,
            options.api_key,
            connections=options.connections,
            connect_s=options.connect_timeout_s,
        )

    async def warm_up(self) -> None:
        """Connect, check the key, and see that the model is there.

        Raises EngineError where the endpoint is down, refuses the key, or has no such model
        to choose. One that cannot list its models is taken on trust.
        """
        async with self._within(self._options.first_token_timeout_s):
            response = await self._send(self._client.build_request("GET", "models"), missing=True)
            listed = _model_names(await response.aread()) if response.is_success else []
        if not self._model and listed:
            self._model = listed[0]
            _log.info("%s: using the model %s", self._shown_url, self._model)
        if not self._model:
            raise failure("bad_request", f"{self._shown_url} lists no model: set [llm] model")
        if listed and self._model not in listed:
            _log.warning(
                "%s does not list the model %s, only: %s",
                self._shown_url,
                self._model,
                ", ".join(listed[:20]),
            )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def open(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Ask the endpoint. Iterating raises EngineError, with the codes of the port.

        ``max_tokens=0``, which warms an embedded model's cache, asks nothing here.
        """
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: ChatRequest) -> AsyncGenerator[AsyncIterator[Delta], None]:
        async with aclosing(self._deltas(request)) as deltas:
            yield deltas

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        if request.max_tokens == 0:
            yield Usage(finish_reason="skipped")
            return
        limit = self._options.first_token_timeout_s
        deadline = asyncio.get_running_loop().time() + limit
        async with self._within(limit, deadline):
            response = await self._send(self._request(request))
        answer = AnswerReader()
        body = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
        try:
            while not answer.done:
                async with self._within(limit, deadline):
                    data = await _next(body)
                seen = answer.events
                for delta in self._understood(answer, data):
                    yield delta
                if data is None:
                    break
                if answer.events > seen:
                    limit = self._options.idle_timeout_s
                    deadline = asyncio.get_running_loop().time() + limit
            await drain(body)
            yield answer.usage()
        finally:
            await body.aclose()
            await response.aclose()

    def _understood(self, answer: AnswerReader, data: bytes | None) -> Iterator[Delta]:
        try:
            yield from answer.finish() if data is None else answer.feed(data)
        except EngineError as error:  # it may hold the endpoint's words, and they the key
            raise failure(error.code, self._without_key(error.message)) from None

    def _request(self, request: ChatRequest) -> httpx.Request:
        options = self._options
        if not self._model:
            raise failure("bad_request", "no model is chosen: set [llm] model, or warm up first")
        defaults = dict(options.extra_body)
        if options.max_tokens is not None:
            defaults[options.max_tokens_name] = options.max_tokens
        if options.temperature is not None:
            defaults["temperature"] = options.temperature
        body = request_body(
            request, self._model, max_tokens_name=options.max_tokens_name, defaults=defaults
        )
        return self._client.build_request("POST", "chat/completions", content=body)

    async def _send(self, request: httpx.Request, *, missing: bool = False) -> httpx.Response:
        """The response, its body still to be read, after as many attempts as are allowed.

        ``missing``: a 404 or 405 is an answer too.
        """
        retries, backoff = self._options.retries, _FIRST_BACKOFF_S
        while True:
            try:
                response = await self._client.send(request, stream=True)
            except httpx.TransportError as error:
                if not retries:
                    raise self._unreachable(error) from None
                wait = backoff
            else:
                if response.is_success or (missing and response.status_code in (404, 405)):
                    return response
                wait = _retry_after(response, backoff)
                transient = response.status_code in (429, 503)
                if not (retries and transient and wait <= self._options.retry_after_limit_s):
                    raise await self._refusal(response)
                await response.aclose()
            await asyncio.sleep(wait)
            retries -= 1
            backoff *= 2

    async def _refusal(self, response: httpx.Response) -> EngineError:
        body = b""
        try:
            with suppress(httpx.TransportError):
                async for data in response.aiter_bytes():
                    body += data
                    if len(body) > _ERROR_BYTES:
                        break
        finally:
            await response.aclose()
        status = response.status_code
        said = self._without_key(upstream_message(body))
        where = response.request.url.path
        advice = _ADVICE.get(code_of(status), "")
        return failure(
            code_of(status), f"{self._shown_url} answered {status} to {where}: {said}{advice}"
        )

    def _unreachable(self, error: httpx.TransportError) -> EngineError:
        what = self._without_key(str(error)) or type(error).__name__
        # httpx raises the same for a server that hangs up without a word: that one is down.
        if isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in what:
            return failure("bad_response", f"{self._shown_url} does not speak HTTP: {what}")
        if isinstance(error, httpx.TimeoutException):
            return failure("timeout", f"no connection to {self._shown_url} in time: {what}")
        return failure(
            "unavailable", f"no connection to {self._shown_url} ({what}): is it running?"
        )

    @asynccontextmanager
    async def _within(
        self, seconds: float, deadline: float | None = None
    ) -> AsyncGenerator[None, None]:
        """Bound what is awaited inside, and translate how a connection fails there."""
        until = asyncio.get_running_loop().time() + seconds if deadline is None else deadline
        try:
            async with asyncio.timeout_at(until):
                yield
        except TimeoutError:
            raise failure(
                "timeout", f"{self._shown_url} sent nothing for {seconds:g} s: is it overloaded?"
            ) from None
        except httpx.TransportError as error:
            raise failure(
                "unavailable",
                f"the connection to {self._shown_url} broke: {error or type(error).__name__}",
            ) from None
        except httpx.DecodingError as error:
            raise failure("bad_response", f"{self._shown_url} sent garbage: {error}") from None

    def _without_key(self, text: str) -> str:
        return without_key(text, self._options.api_key)


_ADVICE: Final = {
    "unauthorized": "; check the API key",
    "rate_limited": "; ask for a higher limit, or admit fewer callers",
}


async def _next(body: AsyncIterator[bytes]) -> bytes | None:
    return await anext(body, None)


def _retry_after(response: httpx.Response, backoff: float) -> float:
    """Seconds to wait: RFC 9110, section 10.2.3 allows a number or a date."""
    value = response.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return backoff
    zoned = when if when.tzinfo else when.replace(tzinfo=UTC)  # "-0000" is UTC without a zone
    return max((zoned - datetime.now(UTC)).total_seconds(), 0.0)


def _model_names(body: bytes) -> list[str]:
    try:
        listed = msgspec.json.decode(body)
        return [str(model["id"]) for model in listed["data"]]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return []
