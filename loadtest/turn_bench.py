"""How soon real engines answer: every clip of a folder as a turn, by one caller or by several.

    python -m loadtest.turn_bench --speech DIR --silence 500 --callers 1

Starts ``voice serve`` (with whatever ``--set`` says) and plays each recording in real time.
Printed are, as p50 and p95 over all turns, the time from the turn's commit and from the last
speech sample to the reply's first audio, the stages from the server's own metrics, the words
that were misheard, and the CPU of a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import uvloop

from clients.caller import Clip, call_up
from clients.recordings import read_recording
from clients.turns import Turn
from engines.models import ModelStore
from loadtest.server_process import Server
from loadtest.wer import wer

MOST_TOKENS = 40
"""A reply is heard out before the next turn begins, and the embedded model likes to talk."""


def main() -> int:
    """Run the benchmark; 1 where a turn went without an answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--speech", type=Path, help="clips with transcripts.json (the store's)")
    parser.add_argument("--silence", type=int, default=500, help="silence_duration_ms")
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--most", type=int, help="of the clips, only so many")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting of the server's")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = options.speech or ModelStore().path("speech")
    texts = json.loads((folder / "transcripts.json").read_text())
    clips = [Clip(name, read_recording(folder / name)) for name in sorted(texts)[: options.most]]
    settings = [f"--set={setting}" for setting in options.set]
    with Server(settings) as server:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            cpu = server.cpu_s
            turns = runner.run(call(server.port, clips, options))
            cpu = server.cpu_s - cpu
        stages = read_stages(server.port)
    figures = summary(turns, texts, stages, cpu)
    sys.stdout.write(json.dumps(figures) + "\n" if options.json else table(figures))
    return 0 if not figures["failed"] else 1


async def call(port: int, clips: list[Clip], options: argparse.Namespace) -> list[Turn]:
    """The turns of all callers. Each begins at another clip, so that they differ in length."""
    session = {
        "max_output_tokens": MOST_TOKENS,
        "audio": {
            "input": {
                "turn_detection": {"type": "server_vad", "silence_duration_ms": options.silence}
            }
        },
    }
    done: list[Turn] = []

    async def talk(number: int) -> None:
        shift = number * len(clips) // options.callers
        async with call_up(f"ws://127.0.0.1:{port}/v1/realtime", session) as caller:
            for clip in (clips[shift:] + clips[:shift]) * options.rounds:
                done.append(await caller.speak(clip, 30.0, lambda *_: None))
                sys.stderr.write(f"\r{len(done)} turns ")
                sys.stderr.flush()

    async with asyncio.TaskGroup() as tasks:
        for number in range(options.callers):
            tasks.create_task(talk(number))
    sys.stderr.write("\n")
    return done


def read_stages(port: int) -> dict[str, float]:
    """Mean milliseconds of each stage, from the server's metrics."""
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    for line in text.splitlines():
        if line.startswith("antiphon_stage_seconds_"):
            name, value = line.rsplit(" ", 1)
            stage = name.partition('stage="')[2].partition('"')[0]
            if "_sum" in name:
                sums[stage] = float(value)
            elif "_count" in name:
                counts[stage] = float(value)
    return {stage: round(1000 * sums[stage] / counts[stage], 1) for stage in sums if counts[stage]}


def summary(
    turns: list[Turn], texts: dict[str, str], stages: dict[str, float], cpu_s: float
) -> dict[str, Any]:
    """All figures of one run."""
    answered = [turn for turn in turns if "first_audio" in turn.stages]
    after_commit = [t.stages["first_audio"] - t.stages["committed"] for t in answered]
    after_speech = [t.stages["first_audio"] - t.speech_end for t in answered]
    return {
        "turns": len(turns),
        "failed": [f"{turn.name}: {turn.problems}" for turn in turns if turn not in answered],
        "first_audio_after_commit_ms": _shares(after_commit),
        "first_audio_after_speech_ms": _shares(after_speech),
        "stage_mean_ms": stages,
        "wer": round(wer((texts[turn.name], turn.transcript) for turn in turns).rate, 4),
        "cut_into": sum(turn.interruptions for turn in turns),
        "cpu_s_per_turn": round(cpu_s / len(turns), 2),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    return "".join(f"{name.replace('_', ' '):30} {value}\n" for name, value in figures.items())


def _shares(seconds: list[float]) -> dict[str, int]:
    return {f"p{share}": round(1000 * float(np.percentile(seconds, share))) for share in (50, 95)}


if __name__ == "__main__":
    sys.exit(main())
