"""The null embedder: what shares words is alike."""

import numpy as np
import pytest

from engines.embedding.scripted import Options, create
from engines.ports import EmbeddingRequest, EngineError


async def embed(embedder, *texts):
    async with embedder.open(EmbeddingRequest(texts)) as stream:
        [embeddings] = [each async for each in stream]
    return embeddings


async def test_texts_that_share_words_are_alike():
    embedder = create(Options(dimensions=256), None)
    await embedder.warm_up()
    made = await embed(embedder, "Breakfast is at seven", "is breakfast at seven?", "no dogs", "")
    assert made.vectors.shape == (4, 256)
    assert made.model == "scripted-256"
    assert made.tokens == 4 + 4 + 2 + 1
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1, atol=1e-5)
    assert made.vectors[0] @ made.vectors[1] > 0.99
    assert made.vectors[0] @ made.vectors[2] < 0.3
    await embedder.close()


async def test_it_fails_when_it_is_told_to():
    with pytest.raises(EngineError) as failed:
        await embed(create(Options(fail_code="unavailable"), None), "hello")
    assert failed.value.code == "unavailable"
