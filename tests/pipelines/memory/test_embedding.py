"""An embedder asked for its one answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.ports import EmbeddingRequest, Embeddings, EngineError
from pipelines.memory.embedding import embed


class Embedder:
    def __init__(self, *answers: Embeddings) -> None:
        self.answers = answers

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    @asynccontextmanager
    async def open(self, request: EmbeddingRequest) -> AsyncIterator[AsyncIterator[Embeddings]]:
        yield self._given()

    async def _given(self) -> AsyncIterator[Embeddings]:
        for answer in self.answers:
            yield answer


async def test_its_answer_is_given() -> None:
    answer = Embeddings(np.ones((1, 2), np.float32), "m", 3)
    assert await embed(Embedder(answer), EmbeddingRequest(("hello",))) is answer


async def test_one_that_gives_nothing_has_failed() -> None:
    with pytest.raises(EngineError, match="memory: the embedder gave nothing") as caught:
        await embed(Embedder(), EmbeddingRequest(("hello",)))
    assert caught.value.code == "bad_response"
