"""A folder of documents brought into an index: what is new or has changed is read, cut and
embedded, what has gone is taken out, and all else is left as it is.

The next documents are read while the last ones are embedded.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from engines.ports import Embedder, EmbeddingRequest, Embeddings, Priority
from pipelines.media.threads import OneThread, one_thread
from pipelines.memory.documents import SUFFIXES, DocumentError, parts_of, read
from pipelines.memory.embedding import embed
from pipelines.memory.folders import Document, Folder, look_into
from pipelines.memory.passages import Passage, passages
from pipelines.memory.writing import State, Writing

_TEXTS: Final = 64
"""Passages that are embedded and written at a time: what a stop may cost."""


@dataclass(slots=True)
class Outcome:
    """What has become of a folder: documents that were ``added``, ``changed``, ``unchanged`` or
    ``removed``, and those that could not be read, with the reason; files that are no documents, by
    suffix. ``documents`` and ``passages`` are what the index has now; ``anew``: why nothing of an
    older one could be used."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    documents: int = 0
    passages: int = 0
    embedded: int = 0
    seconds: float = 0.0
    anew: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)


class Progress(Protocol):
    """Who is told how far it is."""

    def begin(self, documents: int, size: int) -> None:
        """So many documents are to be read, of so many bytes together."""

    def advance(self, size: int, passages: int) -> None:
        """So many more bytes are in, as so many more passages."""


@dataclass(slots=True)
class _Step:
    """Passages of a document, its first ones or not; ``state`` where they are its last ones.
    ``same``: what is in of it is right. ``fault``: why there are none."""

    document: Document
    passages: list[Passage] = field(default_factory=list)
    first: bool = True
    state: State | None = None
    same: bool = False
    fault: str = ""


async def bring_up_to_date(
    folder: Path, path: Path, embedder: Embedder, progress: Progress
) -> Outcome:
    """Make ``path`` the index of all documents in ``folder``. Cancelled, it leaves the index as it
    was; what is done is kept beside it, and used the next time. Raises EngineError, and
    DocumentError where there is nothing to index."""
    began = time.monotonic()
    model = await _model_of(embedder)
    async with one_thread() as thread:
        found = await thread.run(look_into, folder)
        if not found.documents:
            told = f"{folder}: has no documents ({', '.join(SUFFIXES)}): name another folder"
            raise DocumentError(told)
        async with _opened(thread, path, model) as writing:
            outcome = Outcome(anew=writing.anew, failed=found.failed, ignored=found.ignored)
            await thread.run(_check_same, writing, found, path)
            wanted = await thread.run(_compare, writing, found, outcome)
            progress.begin(len(wanted), sum(document.size for document in wanted))
            batches = _batches(wanted, writing.known())
            batch = await thread.run(next, batches, None)
            while batch is not None:
                following, vectors = await asyncio.gather(
                    thread.run(next, batches, None), _vectors(embedder, batch)
                )
                await thread.run(_write, writing, batch, vectors, outcome)
                _tell(progress, batch)
                batch = following
            outcome.documents, outcome.passages = writing.counts()
            await thread.run(writing.put_in_place)
    outcome.seconds = time.monotonic() - began
    return outcome


async def _model_of(embedder: Embedder) -> Embeddings:
    """What its vectors are like."""
    await embedder.warm_up()
    return await embed(embedder, EmbeddingRequest(("hello",), Priority.BATCH))


@asynccontextmanager
async def _opened(thread: OneThread, path: Path, model: Embeddings) -> AsyncIterator[Writing]:
    writing = await thread.run(Writing, path, model.model, model.vectors.shape[1])
    try:
        yield writing
    finally:
        await asyncio.shield(thread.run(writing.close))  # behind what it may still be doing


def _check_same(writing: Writing, found: Folder, path: Path) -> None:
    """Raises DocumentError for an index of which the folder has nothing: it is another folder's."""
    known = writing.known()
    if path.exists() and known and not any(found.may_have(source) for source in known):
        told = f"{path}: has none of this folder's documents, but others, such as {min(known)}"
        raise DocumentError(f"{told}: name another file by -o, or delete this one")


def _compare(writing: Writing, found: Folder, outcome: Outcome) -> list[Document]:
    """Those that are to be read. What has gone is taken out, unless it was not to be reached."""
    known = writing.known()
    gone = [source for source in known if not found.may_have(source)]
    writing.forget(gone)
    outcome.removed = len(gone)
    wanted = []
    for document in found.documents.values():
        state = known.get(document.source)
        now = (document.size, document.changed_ns)
        if state and state.digest and (state.size, state.changed_ns) == now:
            outcome.unchanged += 1
        else:
            wanted.append(document)
    return wanted


# --- batches --------------------------------------------------------------------------------


def _batches(wanted: list[Document], known: Mapping[str, State]) -> Iterator[list[_Step]]:
    """All that is to be done, so much at a time as is embedded together."""
    batch: list[_Step] = []
    room = _TEXTS
    for document in wanted:
        step = _step(document, known.get(document.source))
        while len(step.passages) > room:
            now, step.passages = step.passages[:room], step.passages[room:]
            yield [*batch, _Step(document, now, step.first)]
            step.first, batch, room = False, [], _TEXTS
        batch.append(step)
        room -= len(step.passages)
    if batch:
        yield batch


def _step(document: Document, before: State | None) -> _Step:
    """A document, read and cut."""
    try:
        data = read(document.path)
        state = State(document.size, document.changed_ns, hashlib.sha256(data).hexdigest())
        if before and before.digest == state.digest:
            return _Step(document, state=state, same=True)
        return _Step(document, list(passages(parts_of(document.path, data))), state=state)
    except DocumentError as error:
        return _Step(document, fault=str(error))


async def _vectors(embedder: Embedder, batch: list[_Step]) -> Embeddings | None:
    texts = tuple(passage.text for step in batch for passage in step.passages)
    if not texts:
        return None
    return await embed(embedder, EmbeddingRequest(texts, Priority.BATCH, cut=True))


def _write(
    writing: Writing, batch: list[_Step], embeddings: Embeddings | None, outcome: Outcome
) -> None:
    at = 0
    for step in batch:
        source, count = step.document.source, len(step.passages)
        if step.fault:
            outcome.failed[source] = step.fault
            continue
        if step.first and not step.same:
            known = writing.begin(source)
            outcome.changed += known
            outcome.added += not known
        outcome.unchanged += step.same
        if embeddings is not None and count:
            writing.add(source, step.passages, embeddings.vectors[at : at + count])
        if step.state is not None:
            writing.finish(source, step.state)
        at += count
        outcome.embedded += count


def _tell(progress: Progress, batch: list[_Step]) -> None:
    """A document's bytes are in with its last passages."""
    size = sum(step.document.size for step in batch if step.state is not None or step.fault)
    progress.advance(size, sum(len(step.passages) for step in batch))
