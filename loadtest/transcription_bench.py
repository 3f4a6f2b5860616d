"""A long file heard here and by faster-whisper: ``python -m loadtest.transcription_bench``.

Recordings with transcripts are joined into one file with silences of 0.2 to 3 s between them, some
of them noisy. Both hear it with the same files of Whisper, the same numbers and the same threads,
each in a process of its own, one after the other and in turns: here through
``pipelines.transcription``, there by ``BatchedInferencePipeline``, which is installed into an
environment of its own the first time. The time has all but the loading of the model in it; memory
is what is taken above the loaded model, a second copy of it included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from engines.asr import whisper
from engines.audio import Samples
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, EngineError, Priority
from engines.vad import silero
from loadtest.peers.environments import PeerError, cache, environment
from loadtest.peers.faster_whisper_file import Memory
from loadtest.speech import RATE, Recording, recordings
from loadtest.wer import wer
from pipelines.media.threads import decoded
from pipelines.transcription.captions import Utterance
from pipelines.transcription.hearing import Wanted, transcribe

_PEERS: Final = Path(__file__).parent / "peers"
_LANGUAGE: Final = "en"
_THEIR_BATCH: Final = 8  # their default
_MOST_S: Final = 7_200


@dataclass(frozen=True, slots=True)
class Run:
    """``took_s`` of the clock and ``cpu_s`` of the processors for a file; ``live_ms``: what clips
    of a call took meanwhile."""

    took_s: float
    cpu_s: float
    above_mb: float
    text: str
    live_ms: Sequence[float] = ()


def joined(clips: Sequence[Recording], seconds: float, seed: int) -> tuple[Samples, str]:
    """Samples (n,) at 16 kHz of at least so long, and what is said in them."""
    rng, parts, words, length = np.random.default_rng(seed), list[Samples](), list[str](), 0
    while length < seconds * RATE:
        clip = clips[int(rng.integers(len(clips)))]
        noise = rng.normal(size=int(RATE * rng.uniform(0.2, 3.0))) * rng.choice([1, 30])
        parts += [clip.pcm.samples, noise.astype(np.int16)]
        words.append(clip.words)
        length += len(clip.pcm) + len(noise)
    return np.concatenate(parts), " ".join(words)


class _Anywhere:
    """A place that is always there."""

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """At once."""
        yield


async def hear(file: Path, options: whisper.Options, every_s: float) -> Run:
    """The file heard by this project, and beside it a clip of a call ``every_s``, 0 for none."""
    models, heard = ModelStore(), list[Utterance]()
    vad, asr = silero.create(silero.Options(), models), whisper.create(options, models)
    await asr.warm_up()

    async def put(utterance: Utterance) -> None:
        heard.append(utterance)

    live = list[float]()
    with file.open("rb") as opened, Memory() as memory:
        began, cpu = time.perf_counter(), time.process_time()
        calls = asyncio.ensure_future(_call(asr, every_s, live))
        async with decoded(opened, _MOST_S) as blocks:
            await transcribe(blocks, Wanted(_LANGUAGE), vad, asr, _Anywhere(), put)
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        calls.cancel()
        await asyncio.gather(calls, return_exceptions=True)
    await asr.close()
    text = " ".join(each.text for each in heard)
    return Run(took_s, cpu_s, memory.above_mb, text, live)


async def _call(asr: Asr, every_s: float, took_ms: list[float]) -> None:
    """A turn of a call again and again."""
    [clip] = [each for each in recordings(ModelStore().path("speech")) if "lv_0880" in each.name]
    while every_s:
        began = time.perf_counter()
        async with asr.open(AsrRequest(clip.pcm, _LANGUAGE, priority=Priority.FINAL)) as given:
            await anext(given)
        took_ms.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(every_s)


def ours(file: Path, given: argparse.Namespace, beams: int) -> Run:
    """In a process of its own."""
    command = [sys.executable, "-m", "loadtest.transcription_bench", "--hear", str(file)]
    command += ["--threads", str(given.threads), "--beams", str(beams)]
    command += ["--batch", str(given.batch), "--live", str(given.live)]
    return _run(command, None)


def theirs(file: Path, given: argparse.Namespace, beams: int) -> Run:
    """The same for faster-whisper. Raises PeerError where it cannot be installed."""
    folder = environment("faster-whisper", _PEERS / "faster_whisper.txt", cache())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(folder / "bin" / "python"), str(_PEERS / "faster_whisper_file.py")]
    model = ModelStore().path(whisper.Options.model)
    command += [str(model), str(file), str(given.threads), whisper.Options.compute_type]
    command += [str(beams), str(_THEIR_BATCH), _LANGUAGE]
    return _run(command, kept | {"OMP_NUM_THREADS": str(given.threads), "HF_HUB_OFFLINE": "1"})


def _run(command: list[str], variables: dict[str, str] | None) -> Run:
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=_MOST_S, check=False
    )
    if done.returncode:
        raise PeerError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2_000:]}")
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def report(given: argparse.Namespace) -> None:
    """Print a row for each run, and how many times faster we are."""
    clips = recordings(given.folder or ModelStore().path("speech"))
    samples, said = joined(clips, 60 * given.minutes, given.seed)
    lasts_s = len(samples) / RATE
    print(f"{lasts_s:.0f} s of {len(clips)} clips, {given.threads} threads, {os.cpu_count()} cores")
    print("who             beams  took s   speed   CPU s   WER %   MB above  live p50/p95/max ms")
    with tempfile.TemporaryDirectory(prefix="antiphon-") as folder:
        file = Path(folder) / "speech.wav"
        soundfile.write(file, samples, RATE)
        for _ in range(given.rounds):
            for beams in given.beams:
                runs = {"antiphon": ours(file, given, beams)}
                if not given.alone:
                    runs["faster-whisper"] = theirs(file, given, beams)
                for name, run in runs.items():
                    print(_row(name, beams, run, lasts_s, said), flush=True)
                if not given.alone:
                    ratio = runs["faster-whisper"].took_s / runs["antiphon"].took_s
                    print(f"{'':14} {beams:6} {ratio:6.2f} times as fast")


def _row(name: str, beams: int, run: Run, lasts_s: float, said: str) -> str:
    errors = 100 * wer([(said, run.text)]).rate
    live = list(np.percentile(run.live_ms, [50, 95, 100])) if run.live_ms else list[float]()
    return (
        f"{name:14} {beams:6} {run.took_s:7.1f} {lasts_s / run.took_s:6.1f}x {run.cpu_s:7.1f} "
        f"{errors:7.2f} {run.above_mb:10.0f}  {'/'.join(f'{each:.0f}' for each in live)}"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="recordings with transcripts.json")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=whisper.Options.batch, help="ours")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without faster-whisper")
    parser.add_argument(
        "--live", type=float, default=0.0, metavar="S", help="a call's clip so often"
    )
    parser.add_argument("--hear", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _child(given: argparse.Namespace) -> dict[str, Any]:
    options = whisper.Options(
        language=_LANGUAGE, threads=given.threads, beam_size=given.beams[0], batch=given.batch
    )
    run = asyncio.run(hear(given.hear, options, given.live))
    return {name: getattr(run, name) for name in Run.__slots__}


def main() -> None:
    """Read the command line and print the table."""
    given = _parse()
    try:
        if given.hear:
            print(json.dumps(_child(given)))
        else:
            report(given)
    except (PeerError, EngineError, OSError) as error:
        sys.exit(f"transcription_bench: {error}")


if __name__ == "__main__":
    main()
