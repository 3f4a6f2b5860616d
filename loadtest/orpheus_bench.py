"""Text to speech by way of Orpheus and SNAC, through the Realtime door, several calls at once.

    python -m loadtest.orpheus_bench --sessions 8

Makes a tiny Orpheus of random weights, serves it beside a scripted language model, and asks for
one reply in each session at the same time. Every sample that a session hears is compared with
what the same engine says alone: a frame that was lost, doubled or changed by its neighbours in
the batch is counted, and the run fails. ``--set tts.source=completions …`` tries another source.

What a listener misses is told of a player that waits 60 ms after the first audio: at the speed of
speech, which two idle cores keep up with for eight such voices, just so; and at the model's own
rate, that of a player as fast as this session's audio came on the whole. The latter runs dry
where audio comes unevenly, as it does between two phrases, however fast the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop
from numpy.typing import NDArray

from clients.realtime import connect
from engines.ports import SpeechRequest
from loadtest import tiny_orpheus
from loadtest.server_process import Server
from pipelines.speaking.loudness import Leveller
from pipelines.speaking.script import Script
from voice.app import open_house
from voice.config import load
from voice.wire.realtime_server import (
    ResponseAudioDeltaEvent,
    ResponseAudioTranscriptDeltaEvent,
    ResponseDoneEvent,
)

FRAME_SAMPLES: Final = 2048
RATE: Final = 24_000
KEPT_S: Final = 0.06
"""What a player waits after the first audio, so that a late piece does no harm."""

_ENDLESS: Final = 1_000.0
"""Frames after which the tiny model would stop by itself: each phrase ends by its limit."""

ROUNDING: Final = 2
"""Batches of different sizes may differ in the last bits of a float, so by one of 16 bits, which
levelling may double."""


@dataclass(slots=True)
class Reply:
    """What one session heard. Times are seconds of the loop's clock."""

    asked_at: float
    phrases: list[str] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    @property
    def own_rate(self) -> float:
        """Samples a second of this reply, on the whole."""
        return len(self.samples) / (self.last_at - self.first_at)

    def gaps(self, rate: float) -> list[float]:
        """The seconds for which a player of so many samples a second had nothing to play."""
        gaps, dry_at = [], self.first_at + KEPT_S
        for at, count in self.arrivals:
            if at > dry_at:
                gaps.append(at - dry_at)
            dry_at = max(dry_at, at) + count / rate
        return gaps

    @property
    def samples(self) -> NDArray[np.int16]:
        return np.frombuffer(b"".join(self.pieces), "<i2")

    @property
    def frames(self) -> float:
        return len(self.samples) / FRAME_SAMPLES


def settings(folder: Path, sessions: int, more: Iterable[str] = ()) -> list[str]:
    """A server's settings for the tiny model that lies in ``folder``."""
    return [
        "tts.engine=orpheus",
        "tts.source=transformers",
        f"tts.model={folder}",
        f"tts.snac={folder / 'snac'}",
        "tts.device=cpu",
        f"tts.slots={sessions}",
        "tts.watch=false",  # random weights break every rule of how speech sounds
        *more,
    ]


async def hear_reply(url: str) -> Reply:
    """Ask in a session of one's own, and hear all of the reply."""
    loop = asyncio.get_running_loop()
    async with connect(url) as call:
        reply = Reply(loop.time())
        await call.say("Say something.")
        async for event in call:
            match event:
                case ResponseAudioTranscriptDeltaEvent():
                    reply.phrases.append(event.delta)
                case ResponseAudioDeltaEvent():
                    reply.last_at = loop.time()
                    reply.first_at = reply.first_at or reply.last_at
                    reply.pieces.append(event.delta)
                    reply.arrivals.append((reply.last_at, len(event.delta) // 2))
                case ResponseDoneEvent():
                    break
    return reply


async def hear_replies(url: str, sessions: int) -> list[Reply]:
    """One reply in each of so many sessions, all at once."""
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(hear_reply(url)) for _ in range(sessions)]
    return [task.result() for task in asked]


async def alone(given: list[str], phrases: Iterable[str]) -> NDArray[np.int16]:
    """What a listener hears of this reply when nobody else speaks."""
    async with open_house(load(settings=given, scripted=True)) as house:
        tts = house.engines.tts
        await tts.warm_up()
        script, leveller, said = Script(), Leveller(), []
        for line in [*script.feed("".join(phrases)), *script.finish()]:
            levelled = leveller.phrase()
            async with tts.open(SpeechRequest(line.spoken)) as audio:
                said += [levelled.feed(pcm).samples async for pcm in audio]
            levelled.finish()
    return np.concatenate(said)


def damage(heard: NDArray[np.int16], said: NDArray[np.int16]) -> tuple[int, int]:
    """(frames missing or, below 0, too many; frames that differ) of what was heard."""
    both = min(len(heard), len(said))
    apart = np.abs(heard[:both].astype(np.int32) - said[:both]) > ROUNDING
    frames = np.arange(both)[apart] // FRAME_SAMPLES
    return (len(said) - len(heard)) // FRAME_SAMPLES, len(np.unique(frames))


def main() -> int:
    """Run it; 1 where a frame is not the one it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--full-snac", action="store_true", help="SNAC in its real size")
    parser.add_argument("--set", action="append", default=[], help="a setting of the server's")
    wanted = parser.parse_args()
    # Of matrices this small, more threads than one spend their time in waiting for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        tiny_orpheus.make(Path(folder), frames=_ENDLESS, full_snac=wanted.full_snac)
        given = settings(Path(folder), wanted.sessions, wanted.set)
        arguments = ["--scripted", *(f"--set={setting}" for setting in given)]
        with Server(arguments) as server:
            url = f"ws://127.0.0.1:{server.port}/v1/realtime"
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                cpu = server.cpu_s
                replies = runner.run(hear_replies(url, wanted.sessions))
                cpu = server.cpu_s - cpu
        said = asyncio.run(alone(given, replies[0].phrases))
    damages = [damage(reply.samples, said) for reply in replies]
    for name, value in summary(replies, damages, cpu).items():
        print(f"{name:34} {value}")
    return int(any(lost or changed for lost, changed in damages))


def summary(replies: list[Reply], damages: list[tuple[int, int]], cpu_s: float) -> dict[str, Any]:
    """All figures of one run."""
    firsts = [1000 * (reply.first_at - reply.asked_at) for reply in replies]
    spoken = sum(len(reply.samples) for reply in replies) / RATE
    took = max(reply.last_at for reply in replies) - min(reply.asked_at for reply in replies)
    of_speech = [gap for reply in replies for gap in reply.gaps(RATE)]
    of_model = [gap for reply in replies for gap in reply.gaps(reply.own_rate)]
    return {
        "sessions": len(replies),
        "frames heard": f"{sum(reply.frames for reply in replies):g}",
        "frames lost or doubled": sum(abs(lost) for lost, _ in damages),
        "frames changed by the batch": sum(changed for _, changed in damages),
        "first audio, ms (p50 / p95)": " / ".join(
            f"{np.percentile(firsts, share):.0f}" for share in (50, 95)
        ),
        "audio a second, all sessions": f"{spoken / took:.1f}",
        "gaps at the speed of speech": _told(of_speech),
        "gaps at the model's own rate": _told(of_model),
        "CPU a second of audio": f"{cpu_s / spoken:.3f} s",
    }


def _told(gaps: list[float]) -> str:
    longest = f", the longest {1000 * max(gaps):.0f}" if gaps else ""
    return f"{len(gaps)}, {1000 * sum(gaps):.0f} ms in all{longest}"


if __name__ == "__main__":
    sys.exit(main())
