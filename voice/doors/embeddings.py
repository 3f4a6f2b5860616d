"""``POST /v1/embeddings``: texts to vectors, work that gives way to calls.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import asyncio
from typing import Final

import numpy as np

from engines.ports import Embedder, EmbeddingRequest, Embeddings, EngineError, Priority
from pipelines.memory.embedding import embed
from pipelines.places import DisplacedError
from voice.doors.companions import Companion, Job, Upload, while_there
from voice.doors.uploads import read_body
from voice.house import House
from voice.wire.embeddings_api import (
    EmbeddingsBody,
    check_dimensions,
    embeddings_answer,
    embeddings_body,
)

PATH: Final = "/v1/embeddings"

_BODY_BYTES: Final = 8 * 1024 * 1024
"""As many texts as may be asked for at once, of as many tokens as the model reads."""

_TEXTS: Final = 32
"""What is done between two looks at whether calls want the place."""


def embeddings(house: House) -> Companion:
    """The endpoint of this house."""
    return Companion(house, "embedding", EmbeddingsDoor(house).serve)


class EmbeddingsDoor:
    """Of one house."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def serve(self, upload: Upload) -> None:
        """Read the request and answer. Raises what ``companions.answer_for`` knows."""
        embedder = self._house.embedder
        if embedder is None:
            told = "there is none here: see [embedding] engine, and `voice models list`"
            raise EngineError("embedding", "unavailable", told)
        least = self._house.config.files.least_bytes_per_s
        body = embeddings_body(await read_body(upload.request, _BODY_BYTES, least))
        async with upload.begin() as job:
            await while_there(job.request, self._answer(job, body, embedder))

    async def _answer(self, job: Job, body: EmbeddingsBody, embedder: Embedder) -> None:
        texts, parts = body.texts, list[Embeddings]()
        for at in range(0, len(texts), _TEXTS):
            try:
                parts.append(await self._part(job, texts[at : at + _TEXTS], embedder))
            except EngineError as error:
                raise _placed(error, at) from error
            check_dimensions(body, parts[0].vectors.shape[1])
        vectors = np.concatenate([part.vectors for part in parts])
        tokens = sum(part.tokens for part in parts)
        model = f"antiphon/{self._house.config.embedding.engine}"
        answer = await asyncio.to_thread(embeddings_answer, body, vectors, model, tokens)
        await job.out.whole(answer, "application/json")

    async def _part(self, job: Job, texts: list[str], embedder: Embedder) -> Embeddings:
        request = EmbeddingRequest(tuple(texts), Priority.BATCH, job.call)
        while True:
            try:
                async with job.place.hold():
                    return await embed(embedder, request)
            except DisplacedError:
                continue


def _placed(error: EngineError, at: int) -> EngineError:
    """Texts are counted from the first of their part."""
    if not at:
        return error
    return EngineError(error.engine, error.code, f"counted from text {at} on, {error.message}")
