"""A null embedder: what shares words is alike. It reads no meaning and costs next to nothing."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from msgspec import Meta

from engines.ports import EmbeddingRequest, Embeddings, EngineError, FloatArray

if TYPE_CHECKING:
    from engines.models import ModelStore

_WORD: Final = re.compile(r"\w+")
_NAME: Final = "scripted embedder"


@dataclass(frozen=True, slots=True)
class Options:
    """``delay_ms``: when the vectors come. ``fail_code``: the EngineError code to fail with."""

    dimensions: Annotated[int, Meta(ge=1)] = 64
    delay_ms: float = 0.0
    fail_code: str = ""


def create(options: Options, models: ModelStore) -> ScriptedEmbedder:  # noqa: ARG001 - the contract
    """The plug-in contract."""
    return ScriptedEmbedder(options)


class ScriptedEmbedder:
    """An ``Embedder``."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    @asynccontextmanager
    async def open(self, request: EmbeddingRequest) -> AsyncIterator[AsyncIterator[Embeddings]]:
        """One Embeddings."""
        async with aclosing(self._embeddings(request)) as stream:
            yield stream

    async def _embeddings(self, request: EmbeddingRequest) -> AsyncGenerator[Embeddings, None]:
        options = self._options
        await asyncio.sleep(options.delay_ms / 1000.0)
        if options.fail_code:
            raise EngineError(_NAME, options.fail_code, "it was told to fail")
        words = [_WORD.findall(text.lower()) or [""] for text in request.texts]
        rows = [sum(_vector(word, options.dimensions) for word in each) for each in words]
        vectors = np.array(rows, np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield Embeddings(vectors, f"scripted-{options.dimensions}", sum(map(len, words)))


@lru_cache(4096)
def _vector(word: str, dimensions: int) -> FloatArray:
    drawn = np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace")))
    return drawn.normal(size=dimensions).astype(np.float32)
