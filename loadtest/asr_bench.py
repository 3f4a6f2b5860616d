"""How well and how fast the embedded recognisers hear: ``python -m loadtest.asr_bench``.

A row for each engine and number of threads: word error rate over all recordings, the time from
handing in a clip to its transcript, and the CPU time that a second of speech costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines.asr import moonshine, whisper
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, EngineError
from loadtest.speech import Recording, recordings
from loadtest.wer import Wer, wer

ENGINES = ("moonshine", "whisper")


@dataclass(frozen=True, slots=True)
class Measure:
    """One row. ``cpu_s`` is CPU time over the time of the speech."""

    errors: Wer
    p50_ms: float
    p95_ms: float
    cpu_s: float


def engine(name: str, threads: int, models: ModelStore) -> Asr:
    """The engine with its defaults but for the threads."""
    if name == "moonshine":
        return moonshine.create(moonshine.Options(threads=threads), models)
    return whisper.create(whisper.Options(threads=threads), models)


async def transcribe(asr: Asr, clip: Recording) -> str:
    """The text that ``asr`` hears in the whole clip."""
    async with asr.open(AsrRequest(clip.pcm)) as transcripts:
        return " ".join([transcript.text async for transcript in transcripts])


async def measure(asr: Asr, clips: Sequence[Recording], rounds: int) -> Measure:
    """Every clip ``rounds`` times, one after the other; each clip's best time counts."""
    await asr.warm_up()
    heard: dict[str, str] = {}
    took: dict[str, float] = {}
    cpu_before = time.process_time()
    for clip in [clip for _ in range(rounds) for clip in clips]:
        start = time.perf_counter()
        heard[clip.name] = await transcribe(asr, clip)
        elapsed = 1000 * (time.perf_counter() - start)
        took[clip.name] = min(elapsed, took.get(clip.name, elapsed))
    cpu = time.process_time() - cpu_before
    await asr.close()
    p50_ms, p95_ms = np.percentile(list(took.values()), [50, 95])
    spoken = rounds * sum(clip.pcm.duration_ms for clip in clips) / 1000
    errors = wer((clip.words, heard[clip.name]) for clip in clips)
    return Measure(errors, float(p50_ms), float(p95_ms), cpu / spoken)


async def report(folder: Path | None, names: Sequence[str], threads: Sequence[int]) -> None:
    """Print the table over the recordings in ``folder``, or else those of the model store."""
    models = ModelStore()
    clips = recordings(folder or models.path("speech"))
    seconds = sum(clip.pcm.duration_ms for clip in clips) / 1000
    print(f"{len(clips)} clips, {seconds:.1f} s of speech, {os.cpu_count()} cores")
    print("engine      threads   WER %   p50 ms   p95 ms   CPU s per s")
    for name in names:
        for count in threads:
            row = await measure(engine(name, count, models), clips, rounds=3)
            print(
                f"{name:10} {count:8} {100 * row.errors.rate:7.1f} {row.p50_ms:8.0f} "
                f"{row.p95_ms:8.0f} {row.cpu_s:13.3f}"
            )


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="recordings with transcripts.json")
    parser.add_argument("--engine", action="append", choices=ENGINES, dest="engines")
    parser.add_argument("--threads", action="append", type=int)
    given = parser.parse_args()
    try:
        asyncio.run(report(given.folder, given.engines or ENGINES, given.threads or (1, 2)))
    except (EngineError, OSError) as error:
        sys.exit(f"asr_bench: {error}")


if __name__ == "__main__":
    main()
