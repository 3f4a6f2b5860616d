"""Texts as vectors, for whoever wants no more of an embedder than its one answer."""

from __future__ import annotations

from engines.ports import Embedder, EmbeddingRequest, Embeddings, EngineError
from pipelines.memory.settings import NAME


async def embed(embedder: Embedder, request: EmbeddingRequest) -> Embeddings:
    """The one Embeddings of a request. Raises EngineError."""
    async with embedder.open(request) as stream:
        async for embeddings in stream:
            return embeddings
    raise EngineError(NAME, "bad_response", "the embedder gave nothing")
