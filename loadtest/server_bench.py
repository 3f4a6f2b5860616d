"""What the server itself costs: real VAD, null models, many callers in real time.

    python -m loadtest.server_bench --sessions 64

Starts ``voice serve --scripted`` on one core and calls it from another. Printed are

- *overhead*: from the moment the caller sends the frame that completes the window in which the
  VAD decides (found beforehand by the same VAD on the same audio) to the reply's first audio;
- CPU of the server per session and second, from the kernel's accounting;
- memory per further session, after connecting and hanging up 200 times, and start-up time;
- gaps in the audio, by a virtual player that starts with 60 ms in its buffer.

A run whose own sending is more than 10 ms late at p99 is marked as not valid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
import soxr
import uvloop

from engines.audio import Samples
from engines.models import ModelStore
from engines.vad import silero
from engines.vad.ears import levels_db
from engines.vad.resampling import Polyphase
from loadtest.caller import FRAME_MS, FRAME_SAMPLES, RATE, Caller, append_frame
from loadtest.server_process import Server
from pipelines.conversation.endpoint import Border, Endpointer, EndpointSettings

SILENCE_MS: Final = 200
REPLY_MS: Final = 3_000
PREBUFFER_MS: Final = 60
SERVED: Final = ("--scripted", "--set", "overload.enabled=false")
"""Null models; and nothing left off under strain, which would be another service."""
SESSION: Final = {
    "type": "session.update",
    "session": {
        "type": "realtime",
        "audio": {
            "input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": SILENCE_MS}}
        },
    },
}


def main() -> int:
    """Run the benchmark; the exit status is that of its validity."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clip", type=Path, help="a recording (default: one of the store's)")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with Server(SERVED, options.server_core) as server:
        if (os.cpu_count() or 1) > 1:
            os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {options.server_core})
        program, decisions = make_program(options.clip or clip())
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(measure(server, program, decisions, options))
    sys.stdout.write(json.dumps(figures) + "\n" if options.json else table(figures))
    return 0 if figures["valid"] else 1


def make_program(clip: Path) -> tuple[list[bytes], list[float]]:
    """A turn and the silence in which it is answered, as frames; and for each turn of the first
    hundred the time (ms from the first frame) at which the deciding frame is sent."""
    samples, rate = soundfile.read(clip, dtype="int16", always_2d=True)
    speech = soxr.resample(samples[:, 0], rate, RATE)
    silence = np.zeros(RATE * (REPLY_MS + 1_500) // 1000, np.int16)
    turn = np.concatenate([speech, silence])
    # Whole frames, and whole windows too, so that each repetition is cut alike.
    grain = int(np.lcm(FRAME_SAMPLES, 768))
    turn = np.concatenate([turn, np.zeros(-len(turn) % grain, np.int16)])
    frames = [turn[at : at + FRAME_SAMPLES] for at in range(0, len(turn), FRAME_SAMPLES)]
    return [append_frame(frame.tobytes()) for frame in frames], _decisions(np.tile(turn, 12))


def _decisions(samples: Samples) -> list[float]:
    vad = silero.create(silero.Options(), ModelStore())
    resampler = Polyphase(RATE)
    endpointer = Endpointer(EndpointSettings(silence_ms=SILENCE_MS))
    padded = np.concatenate([np.zeros(resampler.history, np.int16), samples]).astype(np.float32)
    slots = np.array([vad.open()])
    sent_ms: list[float] = []
    for window in range(len(samples) // resampler.samples):
        at = window * resampler.samples
        row = padded[None, at : at + resampler.history + resampler.samples]
        heard = resampler.convert(row)
        border = endpointer.hear(float(vad.step(slots, heard)[0]), levels_db(heard)[0])
        if border is Border.STOPPED:
            last_sample = at + resampler.samples - 1
            sent_ms.append(last_sample // FRAME_SAMPLES * FRAME_MS)
    return sent_ms


async def measure(
    server: Server, program: list[bytes], decisions: list[float], options: argparse.Namespace
) -> dict[str, Any]:
    """All figures of one run."""
    loop = asyncio.get_running_loop()
    idle_mb = server.rss_mb
    callers = await connect(server, program, 1)
    callers[0].start(loop.time())
    await asyncio.sleep(4.0)
    one_mb = server.rss_mb
    callers += await connect(server, program, options.sessions - 1)
    turn_s = len(program) * FRAME_MS / 1000
    for index, caller in enumerate(callers[1:], start=1):
        caller.start(loop.time() + turn_s * index / options.sessions)
    await asyncio.sleep(turn_s)
    began, cpu = loop.time(), server.cpu_s
    await _wait(options.seconds)
    elapsed, cpu = loop.time() - began, server.cpu_s - cpu
    full_mb = server.rss_mb
    heard = [caller.heard for caller in callers]
    lost = sum(each.lost for each in heard)
    for caller in callers:
        caller.hang_up()
    overheads = [
        overhead
        for caller in callers
        for overhead in overheads_of(caller, decisions, began, elapsed)
    ]
    if not overheads:
        raise SystemExit("no turn was answered in the measured time: give it more --seconds")
    before_mb, after_mb = await _reconnect(server, program)
    late_ms = 1000 * np.percentile([late for each in heard for late in each.late_s], 99)
    return {
        "sessions": options.sessions,
        "turns": len(overheads),
        "overhead_ms": {
            f"p{p}": round(float(np.percentile(overheads, p)), 1) for p in (50, 90, 95, 99)
        },
        "cpu_ms_per_session_second": round(1000 * cpu / elapsed / options.sessions, 2),
        "core_share": round(cpu / elapsed, 3),
        "gaps": sum(gaps_of(caller) for caller in callers),
        "errors": sum(len(each.errors) for each in heard),
        "lost": lost,
        "ready_s": round(server.ready_s, 2),
        "memory_mb": {"idle": round(idle_mb, 1), "one": round(one_mb, 1), "all": round(full_mb, 1)},
        "mb_per_further_session": round((full_mb - one_mb) / max(1, options.sessions - 1), 2),
        "mb_after_200_hang_ups": {"before": round(before_mb, 1), "after": round(after_mb, 1)},
        "sender_late_ms_p99": round(float(late_ms), 2),
        "valid": bool(late_ms <= 10.0),
    }


async def connect(server: Server, program: list[bytes], count: int) -> list[Caller]:
    """So many callers whose sessions are set up, and who say nothing yet."""
    loop, session = asyncio.get_running_loop(), json.dumps(SESSION).encode()
    callers = []
    for _ in range(count):
        opened = asyncio.Event()
        make = partial(Caller, program, session, opened.set)
        _, caller = await loop.create_connection(make, "127.0.0.1", server.port)
        await asyncio.wait_for(opened.wait(), 5)
        callers.append(caller)
    return callers


async def _wait(seconds: float) -> None:
    """Sleep, and say how far it is."""
    for second in range(int(seconds)):
        await asyncio.sleep(1)
        sys.stderr.write(f"\rmeasuring {second + 1}/{int(seconds)} s ")
        sys.stderr.flush()
    sys.stderr.write("\n")


def overheads_of(
    caller: Caller, decisions: Sequence[float], began: float, elapsed: float
) -> list[float]:
    """For each turn of the measured time: first audio after the deciding frame was sent, in ms."""
    arrivals = np.array(caller.heard.audio_at)
    overheads = []
    for decided_ms in decisions:
        decided = caller.began + decided_ms / 1000
        if began <= decided < began + elapsed - 1:
            after = arrivals[arrivals >= decided - 0.001]
            if len(after):
                overheads.append(1000 * float(after[0] - decided))
    return overheads


def gaps_of(caller: Caller) -> int:
    """How often a player that holds back 60 ms runs dry inside a reply."""
    gaps, empty_at = 0, 0.0
    for at, duration in zip(caller.heard.audio_at, caller.heard.audio_ms, strict=True):
        if at > empty_at + 0.5:
            empty_at = at + PREBUFFER_MS / 1000
        elif at > empty_at:
            gaps, empty_at = gaps + 1, at
        empty_at += duration / 1000
    return gaps


async def _reconnect(server: Server, program: list[bytes]) -> tuple[float, float]:
    """Memory before and after 200 calls that are hung up in mid-word, once the first 100 have
    brought the process to its working size."""
    loop = asyncio.get_running_loop()
    sizes = []
    for _ in range(3):
        for _ in range(10):
            callers = await connect(server, program, 10)
            for caller in callers:
                caller.start(loop.time())
            await asyncio.sleep(0.5)
            for caller in callers:
                caller.hang_up()
        await asyncio.sleep(0.5)
        sizes.append(server.rss_mb)
    return sizes[0], sizes[2]


def table(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = [f"{name.replace('_', ' '):28} {value}" for name, value in figures.items()]
    return "\n".join(lines) + "\n"


def clip() -> Path:
    """The recording that is played where none is named."""
    return sorted(ModelStore().path("speech").glob("*.wav"))[0]


if __name__ == "__main__":
    sys.exit(main())
