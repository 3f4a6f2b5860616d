"""What silences a speaking agent, how soon, and what does not: through the Realtime door.

    python -m loadtest.interruption_bench --trials 50 --callers 4

The agent (the embedded voice) tells a story; into it sounds, in real time, one of these:
``speech``, a recorded sentence; ``backchannel``, "mm-hm" and its like in the embedded voice;
``cough``, bursts of noise in the shape of coughs; ``echo``, the agent itself, delayed and damped;
``both``, a recorded sentence over the echo. A client drops what it has not played as soon as the
server tells of speech. Printed are, for each kind, the interruptions that were wrong or missed,
how often the agent fell silent for a moment and went on, and the time from the caller's first
sound to the last sound that the caller hears of the agent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
import uvloop
from numpy.typing import NDArray

from clients.playback import Player
from clients.realtime import RealtimeCall, connect
from engines.audio import Pcm
from engines.models import ModelStore
from loadtest.murmurs import make_murmurs, without_lead
from loadtest.server_process import Server
from loadtest.speech import recordings
from voice.wire.realtime_client import ResponseCancelEvent, ResponseCreateEvent
from voice.wire.realtime_server import (
    InputAudioBufferSpeechStartedEvent,
    InputAudioTranscriptionCompletedEvent,
    ResponseAudioDeltaEvent,
    ResponseAudioTranscriptDeltaEvent,
    ResponseCreatedEvent,
    ResponseDoneEvent,
)

Samples: TypeAlias = NDArray[np.int16]
Kind: TypeAlias = Literal["speech", "backchannel", "cough", "echo", "both"]

RATE: Final = 24_000
FRAME_MS: Final = 20
FRAME: Final = RATE * FRAME_MS // 1000
AFTER_S: Final = (1.5, 6.0)
WATCHED_MS: Final = 2_500
"""So long after the sound began nothing more comes of it."""

KINDS: Final[tuple[Kind, ...]] = ("speech", "backchannel", "cough", "echo", "both")
MEANT: Final = ("speech", "both")
ECHOES: Final = tuple((db, ms) for db in (-6, -12, -20) for ms in range(50, 301, 50))

BEGIN: Final = "Once upon a time"
STORY: Final = BEGIN + (
    " there was a miller who lived beside a slow green river. Every morning he opened the gate and"
    " let the water turn his heavy wheel. One winter the river froze, and for the first time the"
    " house was silent. So the miller took his coat and walked upstream to find out what the cold"
    " had done. He passed the bridge, the old chapel and the last of the gardens. There, under a"
    " bent willow, a small grey heron was looking at him. It had lost its way in the snow, and one"
    " of its wings was stiff with ice. The miller carried it home under his coat and put it down"
    " beside the stove."
)


@dataclass(slots=True)
class Trial:
    """One sound, so long after the agent has begun to speak. Times are loop seconds; ``began`` is
    that of the caller's first sound."""

    kind: Kind
    what: str
    after_s: float = 0.0
    began: float = 0.0
    silent_at: float | None = None
    resumed: bool = False
    answered: bool = False
    heard: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> bool:
        """A reply that was lost to nothing, or one that spoke over its caller; not one that answers
        the caller, stops for its own echo, and goes on."""
        if self.kind in MEANT:
            return self.silent_at is None or (self.resumed and not self.answered)
        return self.answered or (self.silent_at is not None and not self.resumed)

    @property
    def silence_ms(self) -> float | None:
        """From the first sound to the last that is heard of the agent."""
        return None if self.silent_at is None else 1000 * (self.silent_at - self.began)


@dataclass
class Line:
    """One call: a microphone that hears a program and the loudspeaker, and a player."""

    call: RealtimeCall
    player: Player = field(default_factory=Player)
    text: str = ""
    responding: bool = False
    program: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    echo_db: float | None = None
    echo_ms: int = 0
    trial: Trial | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def speak(self) -> None:
        """Send a frame every 20 ms, on an absolute schedule, for ever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += FRAME_MS / 1000
            await asyncio.sleep(due - loop.time())
            frame, self.program = self.program[:FRAME], self.program[FRAME:]
            mixed = np.zeros(FRAME, np.float32)
            mixed[: len(frame)] = frame
            if self.echo_db is not None:
                end = due - self.echo_ms / 1000
                mixed += self.player.recording(end - FRAME_MS / 1000, end) * 10 ** (
                    self.echo_db / 20
                )
            await self.call.append(np.clip(mixed, -32_768, 32_767).astype(np.int16))

    async def listen(self) -> None:
        """Take what the server tells, as a stock client does."""
        loop = asyncio.get_running_loop()
        async for event in self.call:
            match event:
                case ResponseAudioDeltaEvent():
                    self.player.put(event, loop.time())
                case InputAudioBufferSpeechStartedEvent():
                    await self._fall_silent(loop.time())
                case ResponseCreatedEvent():
                    self.responding, self.text = True, ""
                case ResponseAudioTranscriptDeltaEvent():
                    self._read(event.delta)
                case ResponseDoneEvent():
                    self.responding = False
                case InputAudioTranscriptionCompletedEvent() if self.trial is not None:
                    self.trial.heard.append(event.transcript)
            self.changed.set()

    async def _fall_silent(self, now: float) -> None:
        cut = self.player.interrupt(now)
        if cut is None:
            return
        await self.call.send(cut)
        if self.trial is not None and self.trial.silent_at is None:
            self.trial.silent_at = now

    def _read(self, delta: str) -> None:
        first, self.text = not self.text, self.text + delta
        if first and self.trial is not None:
            answer = delta.strip().startswith(BEGIN[:4])
            self.trial.answered |= answer
            self.trial.resumed |= not answer

    async def until(self, wanted: bool) -> None:
        """Wait for a response to begin to sound, or for there to be none."""
        loop = asyncio.get_running_loop()
        while (self.responding and self.player.playing(loop.time())) != wanted:
            self.changed.clear()
            try:
                async with asyncio.timeout(0.1):
                    await self.changed.wait()
            except TimeoutError:
                continue


def main() -> int:
    """Run the benchmark; 1 where an interruption was wrong or missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50, help="of each kind")
    parser.add_argument("--callers", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting of the server's")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(folder, options.set) as house,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        sounds = runner.run(make_sounds())
        trials = runner.run(run(house.port, plan(options, sounds), options.callers))
    sys.stdout.write(table(trials))
    return int(any(trial.wrong for trial in trials))


def server(folder: str, settings: Sequence[str]) -> Server:
    """A house with real ears, recogniser and voice, and a model that tells the story."""
    words = [word if index == 0 else f" {word}" for index, word in enumerate(STORY.split(" "))]
    config = Path(folder) / "story.toml"
    config.write_text(f'[llm]\nengine = "scripted"\nscript = {json.dumps(words)}\n')
    sets = [part for setting in settings for part in ("--set", setting)]
    return Server(["--config", str(config), *sets])


Plan: TypeAlias = list[tuple[Trial, Samples, tuple[float, int] | None]]


def plan(options: argparse.Namespace, sounds: dict[Kind, list[tuple[str, Samples]]]) -> Plan:
    """All trials in an order that mixes the kinds: what sounds, and the echo beside it."""
    draw, trials = random.Random(options.seed), Plan()
    for kind in options.kinds:
        for number in range(options.trials):
            what, samples = "", np.zeros(0, np.int16)
            if kind != "echo":
                made = sounds["speech" if kind == "both" else kind]
                what, samples = made[number % len(made)]
            echo = ECHOES[number % len(ECHOES)] if kind in ("echo", "both") else None
            trial = Trial(kind, f"{what} {echo or ''}".strip(), draw.uniform(*AFTER_S))
            trials.append((trial, samples, echo))
    draw.shuffle(trials)
    return trials


async def run(port: int, trials: Plan, callers: int) -> list[Trial]:
    """Every trial in a call of its own."""
    waiting, done = list(trials), list[Trial]()
    began = asyncio.get_running_loop().time()

    async def take() -> None:
        while waiting:
            trial, samples, echo = waiting.pop()
            await attempt(port, trial, samples, echo)
            done.append(trial)
            elapsed = asyncio.get_running_loop().time() - began
            sys.stderr.write(
                f"\r{len(done)} of {len(trials)} trials, {60 * len(done) / elapsed:.0f} a minute,"
                f" {sum(trial.wrong for trial in done)} wrong "
            )
            sys.stderr.flush()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(take())
    sys.stderr.write("\n")
    return done


async def attempt(
    port: int, trial: Trial, samples: Samples, echo: tuple[float, int] | None
) -> None:
    """Have the story begun, let the sound come in, and see what becomes of both."""
    loop = asyncio.get_running_loop()
    async with connect(f"ws://127.0.0.1:{port}/v1/realtime") as call, asyncio.TaskGroup() as tasks:
        line = Line(call)
        running = [tasks.create_task(line.speak()), tasks.create_task(line.listen())]
        if echo is not None:
            line.echo_db, line.echo_ms = echo
        await call.send(ResponseCreateEvent())
        await line.until(wanted=True)
        if trial.kind != "echo":
            await asyncio.sleep(trial.after_s)
        line.trial = trial
        trial.began = loop.time()  # of the frame that is sent next
        line.program = samples
        await asyncio.sleep(WATCHED_MS / 1000 * (3 if trial.kind == "echo" else 1))
        if trial.kind == "echo" and trial.wrong:  # it has just fallen silent, and may go on
            await asyncio.sleep(WATCHED_MS / 1000)
        line.trial = None
        await call.send(ResponseCancelEvent())
        for task in running:
            task.cancel()


async def make_sounds() -> dict[Kind, list[tuple[str, Samples]]]:
    """Every sound at 24 kHz, from its first audible sample on."""
    speech = [
        (clip.name, without_lead(clip.pcm).samples[: 2 * RATE])
        for clip in recordings(ModelStore().path("speech"))
    ]
    murmurs = [(text, sound.samples) for text, sound in await make_murmurs()]
    coughs = [(f"cough {seed}", _cough(seed)) for seed in range(12)]
    return {"speech": speech, "backchannel": murmurs, "cough": coughs}


def _cough(seed: int) -> Samples:
    """One or two bursts: a hard onset, noise through the resonances of a throat, a fast decay."""
    draw = np.random.default_rng(seed)
    bursts = []
    for _ in range(1 + seed % 2):
        length = int(RATE * draw.uniform(0.12, 0.3))
        time = np.arange(length) / RATE
        noise = draw.standard_normal(length)
        spectrum = np.fft.rfft(noise)
        hertz = np.fft.rfftfreq(length, 1 / RATE)
        shape = sum(
            1 / (1 + ((hertz - center) / width) ** 2)
            for center, width in ((500, 250), (1_400, 500), (3_200, 900))
        )
        burst = np.fft.irfft(spectrum * shape, length)
        burst *= np.minimum(time / 0.004, 1) * np.exp(-time / draw.uniform(0.04, 0.1))
        bursts += [burst / np.abs(burst).max(), np.zeros(int(RATE * 0.15))]
    return Pcm.from_floats((0.5 * np.concatenate(bursts)).astype(np.float32), RATE).samples


def table(trials: list[Trial]) -> str:
    """The figures for a person, and each wrong trial."""
    lines = ["kind         trials  wrong  fell silent  went on   first sound to silence, ms\n"]
    for kind in KINDS:
        mine = [trial for trial in trials if trial.kind == kind]
        if not mine:
            continue
        times = [trial.silence_ms for trial in mine if trial.silence_ms is not None]
        spread = ""
        if times:
            shares = (float(np.percentile(times, share)) for share in (50, 95, 100))
            spread = "p50 {:.0f}  p95 {:.0f}  max {:.0f}".format(*shares)
        lines.append(
            f"{kind:12} {len(mine):6} {sum(trial.wrong for trial in mine):6}"
            f" {len(times):12} {sum(trial.resumed for trial in mine):8}   {spread}\n"
        )
    lines += [f"wrong: {t.kind} {t.what}: heard {t.heard}\n" for t in trials if t.wrong]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
