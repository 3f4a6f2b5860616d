"""The documents of a house as its calls know them: what they say that is like a caller's words.

Neither half of a look-up runs on the loop: the embedder has threads, and the index one of its own.
An index that is put in the place of the one in use is taken up with the next look-up.
"""

from __future__ import annotations

import logging
from pathlib import Path

from engines.ports import Embedder, EmbeddingRequest, Embeddings, EngineError, FloatArray, Priority
from engines.workers import Workers
from pipelines.memory.embedding import embed
from pipelines.memory.settings import NAME, MemorySettings
from pipelines.memory.store import Found, Index, identity_of

logger = logging.getLogger(__name__)


class Documents:
    """Of one house; shared by all calls. ``embedder`` is not closed with it."""

    def __init__(self, settings: MemorySettings, path: Path, embedder: Embedder) -> None:
        self.settings = settings
        self._path = path
        self._embedder = embedder
        self._workers = Workers(NAME)
        self._index: Index | None = None
        self._refused: tuple[int, int, int] | None = None

    async def warm_up(self) -> None:
        """Open the index, see that it is of this embedder, and look something up. Raises
        EngineError (``unavailable``)."""
        known = await embed(self._embedder, EmbeddingRequest(("Is anybody there?",)))
        index = await self._workers.run(Priority.FINAL, Index, self._path)
        if fault := _fault(index, known):
            index.close()
            raise EngineError(NAME, "unavailable", f"{self._path}: {fault}")
        self._index = index
        documents, passages = await self._workers.run(Priority.FINAL, lambda: index.counts)
        logger.info("%s: %d documents, %d passages", self._path, documents, passages)
        await self._workers.run(Priority.FINAL, self._nearest, known)

    async def close(self) -> None:
        """Let go of the index."""
        self._workers.close()
        await self._workers.wait_closed()
        if self._index is not None:
            self._index.close()

    async def find(self, words: str, call: str, priority: Priority) -> tuple[Found, ...]:
        """The passages that are like ``words``, the best first. Raises EngineError."""
        request = EmbeddingRequest((words,), priority, call, cut=True)
        embeddings = await embed(self._embedder, request)
        found = await self._workers.run(priority, self._nearest, embeddings)
        return tuple(each for each in found if each.score >= self.settings.min_score)

    def _nearest(self, embeddings: Embeddings) -> tuple[Found, ...]:
        """In the worker."""
        if self._index is None:
            raise EngineError(NAME, "unavailable", "no index is open: await warm_up() first")
        self._look_for_another(embeddings)
        vector: FloatArray = embeddings.vectors[0]
        return self._index.nearest(vector, self.settings.top_k)

    def _look_for_another(self, known: Embeddings) -> None:
        """Take what lies in the index's place, if it is another; one that is of no use is told of
        once, and the old one goes on."""
        assert self._index is not None
        try:
            identity = identity_of(self._path)
        except OSError:  # it is being replaced, or gone: what is open still is
            return
        if identity in (self._index.identity, self._refused):
            return
        try:
            index = Index(self._path)
        except EngineError as error:
            logger.warning("the index in use goes on: %s", error.message)
            self._refused = identity
            return
        if fault := _fault(index, known):
            logger.warning("the index in use goes on: %s: %s", self._path, fault)
            index.close()
            self._refused = identity
            return
        self._index.close()
        self._index = index
        logger.info("%s: taken up anew, %d documents, %d passages", self._path, *index.counts)


def _fault(index: Index, known: Embeddings) -> str:
    """Why an index cannot be asked by this embedder."""
    model, dimensions = known.model, known.vectors.shape[1]
    if (index.model, index.dimensions) == (model, dimensions):
        return ""
    return (
        f"is of the embedder {index.model} ({index.dimensions} dimensions), and [embedding] is"
        f" {model} ({dimensions}): run `voice index` again"
    )
