"""Any endpoint that speaks /v1/embeddings: vLLM, Ollama, text-embeddings-inference, or hosted.

One client with a pool of connections serves all. A request of many texts is sent in parts.
Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import httpx
import msgspec
import numpy as np
from msgspec import Meta, Struct

from engines.endpoint import endpoint_client, endpoint_url, without_key
from engines.llm.chat_wire import code_of, upstream_message
from engines.ports import EmbeddingRequest, Embeddings, EngineError, FloatArray

if TYPE_CHECKING:
    from engines.models import ModelStore

_NAME: Final = "openai embeddings"
_FIRST_BACKOFF_S: Final = 0.1
_TRANSIENT: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Options:
    """``texts``: how many are sent at a time. ``dimensions`` is asked for where it is set, of
    models that can be cut. What fails with 429, 503 or no connection is tried again up to
    ``retries`` times, all within ``timeout_s``."""

    base_url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    api_key: str = field(default="", repr=False)
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    texts: Annotated[int, Meta(ge=1)] = 64
    connections: Annotated[int, Meta(ge=1)] = 32
    connect_timeout_s: float = 3.0
    timeout_s: float = 30.0
    retries: Annotated[int, Meta(ge=0)] = 2


class _Vector(Struct):
    index: int
    embedding: str | list[float]


class _Used(Struct):
    prompt_tokens: int = 0


class _Answer(Struct):
    data: list[_Vector]
    usage: _Used | None = None


def create(options: Options, models: ModelStore) -> OpenAiEmbedder:  # noqa: ARG001 - the contract
    """The plug-in contract: connects nowhere yet. Raises EngineError (``bad_request``)."""
    if not options.model:
        told = "no model is chosen: set [embedding] model to a name that the endpoint knows"
        raise EngineError(_NAME, "bad_request", told)
    return OpenAiEmbedder(options)


class OpenAiEmbedder:
    """An ``Embedder`` behind HTTP. It has no lanes: whoever serves many decides who goes first."""

    def __init__(self, options: Options) -> None:
        self._options = options
        url = endpoint_url(options.base_url, _NAME, "embedding")
        self._shown_url = str(url.copy_with(userinfo=b""))
        self._client = endpoint_client(
            url,
            options.api_key,
            connections=options.connections,
            connect_s=options.connect_timeout_s,
        )

    async def warm_up(self) -> None:
        """Embed a word. Raises EngineError where the endpoint is down, refuses the key, or has no
        such model."""
        await self._part(("hello",))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def open(self, request: EmbeddingRequest) -> AsyncIterator[AsyncIterator[Embeddings]]:
        """One Embeddings. Iterating raises EngineError. ``cut`` is the endpoint's business."""
        async with aclosing(self._embeddings(request)) as stream:
            yield stream

    async def _embeddings(self, request: EmbeddingRequest) -> AsyncGenerator[Embeddings, None]:
        texts, size = request.texts, self._options.texts
        parts = [await self._part(texts[at : at + size]) for at in range(0, len(texts), size)]
        if len({part.shape[1] for part, _ in parts}) > 1:
            raise self._failure("bad_response", "its vectors are not of one length")
        vectors = np.concatenate([part for part, _ in parts])
        yield Embeddings(vectors, self._options.model, sum(tokens for _, tokens in parts))

    async def _part(self, texts: Sequence[str]) -> tuple[FloatArray, int]:
        body: dict[str, object] = {
            "model": self._options.model,
            "input": texts,
            "encoding_format": "base64",
        }
        if self._options.dimensions is not None:
            body["dimensions"] = self._options.dimensions
        request = self._client.build_request(
            "POST", "embeddings", content=msgspec.json.encode(body)
        )
        try:
            async with asyncio.timeout(self._options.timeout_s):
                response = await self._send(request)
        except TimeoutError:
            limit = self._options.timeout_s
            told = f"sent nothing for {limit:g} s: is it overloaded?"
            raise self._failure("timeout", told) from None
        return self._read(response.content, len(texts))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """The response to the request, after as many attempts as are allowed."""
        retries, backoff = self._options.retries, _FIRST_BACKOFF_S
        while True:
            try:
                response = await self._client.send(request)
            except httpx.HTTPError as error:
                if not retries:
                    told = f"gave no answer ({error or type(error).__name__}): is it running?"
                    raise self._failure("unavailable", told) from None
            else:
                if response.is_success:
                    return response
                if not (retries and response.status_code in _TRANSIENT):
                    said = f"answered {response.status_code}: {upstream_message(response.content)}"
                    raise self._failure(code_of(response.status_code), said)
            await asyncio.sleep(backoff)
            retries, backoff = retries - 1, 2 * backoff

    def _read(self, body: bytes, count: int) -> tuple[FloatArray, int]:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
            rows = {each.index: _floats(each.embedding) for each in answer.data}
            vectors = np.stack([rows[place] for place in range(count)])
        except (msgspec.DecodeError, KeyError, ValueError, binascii.Error) as error:
            told = f"answered with something else than {count} vectors: {error!r:.200}"
            raise self._failure("bad_response", told) from None
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise self._failure("bad_response", "its vectors have no direction")
        return vectors / lengths, answer.usage.prompt_tokens if answer.usage else 0

    def _failure(self, code: str, told: str) -> EngineError:
        return EngineError(
            _NAME, code, without_key(f"{self._shown_url} {told}", self._options.api_key)
        )


def _floats(embedding: str | list[float]) -> FloatArray:
    """Numbers, or the bytes of float32 in base64. Raises ValueError."""
    if isinstance(embedding, list):
        return np.array(embedding, np.float32)
    return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float32)
