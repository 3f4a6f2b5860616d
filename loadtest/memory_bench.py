"""What it costs to know documents: looking up, indexing, and what a caller waits for it.

    python -m loadtest.memory_bench
    python -m loadtest.memory_bench --calls 20

Made up are passages of 30 to 60 words from the words of the store's recordings, as many as are
asked for; their vectors are MiniLM's for ``--embedded`` of them, and the rest are drawn near those.
Printed are

- *look-up*: a sentence embedded and searched for, one after the other, and by how much the loop was
  late meanwhile, and without any; then the same while a batch is being embedded;
- *recall*: the share of the 10 best by brute force that the index gives;
- *backfill*: passages a second, and megabytes of memory;
- *calls*: first audio after the caller's last sound, without documents and with them, taken by
  turns in one run, the caller speaking in real time, with scripted engines that take as long as
  real ones (``--asr-ms``, ``--llm-ms``, ``--tts-ms``), or with SmolLM2 itself (``--smollm2``),
  which has a longer prompt to read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop

from engines.clips import CLIPS
from engines.embedding import minilm
from engines.embedding.minilm import MiniLm
from engines.llm import smollm2
from engines.models import ModelStore
from engines.ports import EmbeddingRequest, FloatArray, Llm, Priority
from engines.scripted import LlmOptions, ScriptedLlm
from loadtest.memory_calls import first_audio_ms
from pipelines.memory.embedding import embed
from pipelines.memory.lookup import Documents
from pipelines.memory.passages import Passage
from pipelines.memory.settings import MemorySettings
from pipelines.memory.store import Index, identity_of
from pipelines.memory.writing import State, Writing

QUESTIONS: Final = (
    "what time is breakfast served in the morning",
    "may I bring my dog along and what does it cost",
    "where can I park the car when I arrive late at night",
    "is there a train from the station to the old town",
    "how do I cancel a reservation for three people",
)
MOST: Final = 10
_TICK_S: Final = 0.001


def main() -> int:
    """Run the benchmark; 1 where the index finds less than brute force."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--embedded", type=int, default=1_000)
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--calls", type=int, default=12, help="turns of each kind; 0 for none")
    parser.add_argument("--asr-ms", type=float, default=300.0)
    parser.add_argument("--llm-ms", type=float, default=150.0)
    parser.add_argument("--tts-ms", type=float, default=100.0)
    parser.add_argument("--smollm2", action="store_true", help="the embedded language model")
    parser.add_argument("--threads", type=int, default=2, help="of the embedder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(options))
    text = json.dumps(figures) if options.json else table(figures)
    sys.stdout.write(f"{text}\n")
    return 0 if figures["recall"] == 1.0 else 1


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one run."""
    embedder = minilm.create(minilm.Options(threads=options.threads), ModelStore())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index")
        try:
            await embedder.warm_up()
            texts = made_up(options.embedded)
            began = time.perf_counter()
            some = await embed(embedder, EmbeddingRequest(tuple(texts), Priority.BATCH))
            took_s = time.perf_counter() - began
            vectors = drawn_near(some.vectors, options.passages)
            build_s = write(path, texts, vectors)
            figures: dict[str, Any] = {
                "passages": options.passages,
                "backfill_passages_per_s": round(len(texts) / took_s, 1),
                "backfill_tokens_per_s": round(some.tokens / took_s),
                "write_s": round(build_s, 2),
                "index_mb": round(identity_of(path)[1] / 1e6, 1),
                "recall": await recall(embedder, path, vectors),
            }
            async with opened(path, embedder) as documents:
                figures |= await look_ups(documents, embedder, texts, options.lookups)
                if options.calls:
                    figures |= await calls(documents, options)
        finally:
            await embedder.close()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures | {"peak_memory_mb": round(rss)}


def made_up(count: int) -> list[str]:
    """Passages of the recordings' words."""
    rng = np.random.default_rng(7)
    words = sorted({word for clip in CLIPS for word in clip.words.lower().split()})
    return [" ".join(rng.choice(words, rng.integers(30, 61))) for _ in range(count)]


def drawn_near(vectors: FloatArray, count: int) -> FloatArray:
    """``count`` vectors: these, and others a little off."""
    rng = np.random.default_rng(8)
    near = vectors[rng.integers(0, len(vectors), max(0, count - len(vectors)))]
    near = near + rng.normal(scale=0.03, size=near.shape).astype(np.float32)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    return np.concatenate([vectors, near])[:count].astype(np.float32)


def write(path: Path, texts: Sequence[str], vectors: FloatArray) -> float:
    """An index of them; gives the seconds that it took."""
    began = time.perf_counter()
    writing = Writing(path, minilm.Options().model, vectors.shape[1])
    for at in range(0, len(vectors), 100):
        source, part = f"document {at // 100}.txt", vectors[at : at + 100]
        cut = [Passage(texts[(at + n) % len(texts)], f"line {n}") for n in range(len(part))]
        writing.begin(source)
        writing.add(source, cut, part)
        writing.finish(source, State(1, 1, "d"))
    writing.put_in_place()
    return time.perf_counter() - began


@asynccontextmanager
async def opened(path: Path, embedder: MiniLm) -> AsyncIterator[Documents]:
    """What calls would ask."""
    documents = Documents(MemorySettings(min_score=-1.0), path, embedder)
    try:
        await documents.warm_up()
        yield documents
    finally:
        await documents.close()


async def recall(embedder: MiniLm, path: Path, vectors: FloatArray) -> float:
    """Of the best by brute force, the share that the index gives; those that are as like as the
    last of them are as good."""
    index, right = Index(path), 0
    for words in QUESTIONS:
        asked = (await embed(embedder, EmbeddingRequest((words,)))).vectors[0]
        least = np.sort(vectors @ asked)[-MOST]
        right += sum(found.score >= least - 1e-5 for found in index.nearest(asked, MOST))
    index.close()
    return right / (MOST * len(QUESTIONS))


async def look_ups(
    documents: Documents, embedder: MiniLm, texts: Sequence[str], count: int
) -> dict[str, Any]:
    """Alone, and beside a batch."""
    async with ticking() as idle:
        await asyncio.sleep(2.0)
    alone, late = await timed(documents, count)
    asked = EmbeddingRequest(tuple(texts[:200]), Priority.BATCH)
    batch = asyncio.create_task(embed(embedder, asked))
    await asyncio.sleep(0.05)
    beside, _ = await timed(documents, count, until=batch)
    await batch
    return {
        "lookup_ms": spread(alone),
        "loop_late_ms": spread(late),
        "loop_late_idle_ms": spread(idle),
        "lookup_beside_a_batch_ms": spread(beside),
    }


async def timed(
    documents: Documents, count: int, until: asyncio.Task[Any] | None = None
) -> tuple[list[float], list[float]]:
    """What each look-up took, and how late the loop was meanwhile, in ms."""
    loop, took = asyncio.get_running_loop(), list[float]()
    async with ticking() as late:
        for number in range(count):
            if until is not None and until.done():
                break
            words = f"{QUESTIONS[number % len(QUESTIONS)]} {number}"
            began = loop.time()
            await documents.find(words, "", Priority.SPECULATIVE)
            took.append(1000.0 * (loop.time() - began))
            await asyncio.sleep(0.005)
    return took, late


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """By how much a timer of a millisecond is late, in ms, for as long as the context lasts."""
    loop, late = asyncio.get_running_loop(), list[float]()

    async def tick() -> None:
        while True:
            due = loop.time() + _TICK_S
            await asyncio.sleep(_TICK_S)
            late.append(1000.0 * max(0.0, loop.time() - due))

    task = asyncio.create_task(tick())
    try:
        yield late
    finally:
        task.cancel()


async def calls(documents: Documents, options: argparse.Namespace) -> dict[str, Any]:
    """First audio without documents and with them, by turns."""
    heard: dict[bool, list[float]] = {False: [], True: []}
    delays = (options.asr_ms, options.tts_ms)
    llm: Llm = ScriptedLlm(LlmOptions(start_delay_ms=options.llm_ms))
    if options.smollm2:
        llm = smollm2.create(smollm2.Options(), ModelStore())
    await llm.warm_up()
    for number in range(options.calls):
        for known in (False, True):
            words = QUESTIONS[number % len(QUESTIONS)]
            knowledge = documents if known else None
            heard[known].append(await first_audio_ms(knowledge, words, llm, delays))
            sys.stderr.write(f"\rcalls {2 * number + known + 1}/{2 * options.calls} ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    await llm.close()
    ratio = float(np.median(heard[True]) / np.median(heard[False]))
    return {
        "first_audio_ms_without": spread(heard[False]),
        "first_audio_ms_with": spread(heard[True]),
        "first_audio_ratio": round(ratio, 3),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and the largest."""
    if not values:
        return {}
    told = {f"p{p}": round(float(np.percentile(values, p)), 1) for p in (50, 95)}
    return told | {"max": round(max(values), 1)}


def table(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    return "\n".join(f"{name.replace('_', ' '):28} {value}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
