"""all-MiniLM-L6-v2 (sentence-transformers, Apache-2.0; arXiv 2002.10957): 384 numbers that say what
an English text means, by onnxruntime.

There are two lanes. A look-up that a caller waits for has a thread of its own, so it never stands
behind a batch; whatever nobody waits for is gathered into batches, texts of like length together,
since each is filled up to its longest. Larger batches than these are no faster on a CPU: their
arrays do not stay in its cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from tokenizers import Tokenizer

from engines.batching.policy import BatchPolicy
from engines.batching.runner import BatchRunner, Submitted
from engines.embedding.bert_graph import IDS, MASK, SHARES, graph_of
from engines.embedding.safetensors import read_floats
from engines.models import ModelStore
from engines.onnx_sessions import ORT_ERRORS, open_session
from engines.ports import (
    EmbeddingRequest,
    Embeddings,
    EngineError,
    FloatArray,
    Load,
    Priority,
)
from engines.workers import Workers

_NAME: Final = "minilm"
_HEADS: Final = 12
_BATCH: Final = 16
_BATCH_TOKENS: Final = 640
"""What goes through the model at a time, filling included: a fifth of a second on one busy core."""

_TOKEN_CHARACTERS: Final = 20
"""A token has no more of them on average; what is behind so many is not looked at, since a text of
some MB would take the tokenizer seconds."""

Ids: TypeAlias = list[int]


@dataclass(frozen=True, slots=True)
class Options:
    """``model``: a name of the model store, or the path of a folder. ``threads``: of one step.
    ``max_tokens``: a longer text is refused; the model has no places for more than 512, and was
    trained on shorter ones than 256."""

    model: str = "all-minilm-l6-v2"
    threads: int = 2
    max_tokens: int = 512


def create(options: Options, models: ModelStore) -> MiniLm:
    """The embedder; the model (91 MB) is loaded by ``warm_up`` or else by the first request.
    Raises EngineError where it is missing."""
    if not 8 <= options.max_tokens <= 512:
        raise EngineError(_NAME, "bad_request", "[embedding] max_tokens must be 8 to 512")
    return MiniLm(options, models.path(options.model))


class MiniLm:
    """An ``Embedder``."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._model: Model | None = None
        self._loading = asyncio.Lock()
        self._lookups = Workers(_NAME)
        self._bulk = Workers(f"{_NAME}-batches")
        policy: BatchPolicy[Submitted[Ids, FloatArray]] = BatchPolicy(
            max_batch=_BATCH, window_ms=0.0
        )
        self._batches = BatchRunner(
            _NAME, self._embed, policy, expected=lambda: 1, workers=self._bulk
        )
        self._open = 0

    async def warm_up(self) -> None:
        """Load the model and embed a text. Raises EngineError (``unavailable``)."""
        async with self.open(EmbeddingRequest(("Is anybody there?",))) as stream:
            await anext(stream)

    async def close(self) -> None:
        """Free the model, once the batch that may still run is done."""
        self._batches.close()
        await self._batches.wait_closed()
        for workers in (self._lookups, self._bulk):
            workers.close()
            await workers.wait_closed()
        self._model = None

    def load(self) -> Load:
        """Requests that are open; what waits, of look-ups and of batches."""
        lookups = self._lookups.load()
        load = self._batches.load()
        return replace(
            load, busy=self._open, queued=load.queued + lookups.queued, oldest_ms=lookups.oldest_ms
        )

    @asynccontextmanager
    async def open(self, request: EmbeddingRequest) -> AsyncIterator[AsyncIterator[Embeddings]]:
        """One Embeddings. Iterating raises EngineError."""
        self._open += 1
        try:
            async with aclosing(self._embeddings(request)) as stream:
                yield stream
        finally:
            self._open -= 1

    async def _embeddings(self, request: EmbeddingRequest) -> AsyncGenerator[Embeddings, None]:
        if self._model is None:
            await self._load()
        if request.priority < Priority.BATCH:
            ids, vectors = await self._lookups.run(request.priority, self._look_up, request)
        else:
            ids = await self._bulk.run(request.priority, self._read, request)
            vectors = await self._in_batches(ids)
        yield Embeddings(vectors, self._options.model, sum(map(len, ids)))

    async def _load(self) -> None:
        async with self._loading:
            if self._model is None:
                self._model = await self._lookups.run(
                    Priority.FINAL, Model, self._folder, self._options.threads
                )

    def _look_up(self, request: EmbeddingRequest) -> tuple[list[Ids], FloatArray]:
        ids = self._read(request)
        return ids, np.array(self._embed(ids), np.float32)

    async def _in_batches(self, texts: list[Ids]) -> FloatArray:
        """Handed in by length, so that a batch has like ones."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        rows = await asyncio.gather(*(self._batches.submit(texts[place]) for place in order))
        vectors = np.empty((len(texts), len(rows[0])), np.float32)
        vectors[order] = rows
        return vectors

    def _read(self, request: EmbeddingRequest) -> list[Ids]:
        """The token ids of each text, in a worker. Raises EngineError (``bad_request``)."""
        assert self._model is not None, "it is loaded first"
        most = self._options.max_tokens
        longest = most * _TOKEN_CHARACTERS
        texts = self._model.read([text[:longest] for text in request.texts])
        for place, ids in enumerate(texts):
            if not request.cut and (len(ids) > most or len(request.texts[place]) > longest):
                told = f"has {len(ids)} tokens or more, and the model reads {most}: split it"
                raise EngineError(_NAME, "bad_request", f"text {place} {told}")
            if len(ids) > most:
                texts[place] = [*ids[: most - 1], ids[-1]]  # the last says that it is the end
        return texts

    def _embed(self, texts: list[Ids]) -> list[FloatArray]:
        """The vector of each text, in a worker. Raises EngineError (``failed``)."""
        assert self._model is not None, "it is loaded first"
        vectors: list[FloatArray] = [_NOTHING] * len(texts)
        try:
            for places in _alike(texts):
                embedded = self._model.embed([texts[place] for place in places])
                for place, vector in zip(places, embedded, strict=True):
                    vectors[place] = vector
        except ORT_ERRORS as error:
            raise EngineError(_NAME, "failed", f"the model failed: {error}") from error
        return vectors


_NOTHING: Final[FloatArray] = np.zeros(0, np.float32)


def _alike(texts: Sequence[Ids]) -> Iterator[list[int]]:
    """Places of texts that go through the model together, the shortest first."""
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        if batch and (len(batch) + 1) * len(texts[place]) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


class Model:
    """The loaded model; for one thread at a time or several. Raises EngineError (``unavailable``)
    where it cannot be loaded."""

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            graph = graph_of(read_floats(folder / "model.safetensors"), _HEADS)
            self._session: Any = open_session(graph, threads)
            self._tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text("utf-8"))
        except (OSError, ValueError, KeyError, *ORT_ERRORS) as error:
            told = f"cannot load the model in {folder} ({error}): pull it again"
            raise EngineError(_NAME, "unavailable", told) from error
        except Exception as error:
            told = f"cannot read {folder / 'tokenizer.json'} ({error}): pull the model again"
            raise EngineError(_NAME, "unavailable", told) from error
        self._tokenizer.no_truncation()  # the file is set to cut at 128 and to fill up to it
        self._tokenizer.no_padding()

    def read(self, texts: Sequence[str]) -> list[Ids]:
        """The token ids of each text, those of its beginning and its end included."""
        # Python's text may hold halves of characters, which the tokenizer refuses.
        whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch(whole)]

    def embed(self, texts: Sequence[Ids]) -> FloatArray:
        """The mean of all tokens of each text (texts, dimensions), of length 1."""
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int32)
        mask = np.zeros((len(texts), longest), np.int32)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        shares = (mask / mask.sum(1, keepdims=True)).astype(np.float32)[:, np.newaxis]
        vectors: FloatArray = self._session.run(None, {IDS: ids, MASK: mask, SHARES: shares})[0]
        vectors = vectors[:, 0]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors
