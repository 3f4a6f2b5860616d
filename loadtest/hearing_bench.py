"""How well a call hears: recordings through the whole server against the recogniser alone.

    python -m loadtest.hearing_bench [FOLDER] [--asr whisper]

Starts ``voice serve`` and speaks every recording of a folder with transcripts.json (the model
store's) in real time, several calls at once, as 24 kHz PCM and as 8 kHz mu-law, under both ways to
find the end of a turn. Printed are the word error rates next to those of the recogniser when it is
handed the same audio whole; the exit status is 1 where a call is worse by more than one word in a
hundred. With ``--noises`` it is instead played a minute each of silence, hiss, hum, music and
babble at several levels, faster than real time, and must hear no word in them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import soxr
import uvloop

from clients.realtime import FRAME_MS, RealtimeCall, connect
from clients.recordings import RATE, read_recording
from engines.asr import moonshine, whisper
from engines.audio import FULL_SCALE, Pcm, Samples
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest
from loadtest.noises import at_level, noises
from loadtest.overheard import Overheard, overhear
from loadtest.server_process import Server
from loadtest.speech import RATE as HEARD_RATE
from loadtest.speech import recordings
from loadtest.wer import Wer, spoken_words, wer
from voice.wire import g711
from voice.wire.realtime_client import InputAudioBufferAppendEvent
from voice.wire.realtime_server import (
    InputAudioBufferCommittedEvent,
    InputAudioBufferSpeechStartedEvent,
    InputAudioBufferSpeechStoppedEvent,
    InputAudioTranscriptionCompletedEvent,
    InputAudioTranscriptionFailedEvent,
    RealtimeErrorEvent,
    ServerEvent,
)

ALLOWED: Final = 0.01
"""By so much a call may be worse than the recogniser alone."""

SETTLED_S: Final = 2.0
"""Silence after which a turn that has not begun will not, and one that was cut goes on no more."""

PATIENCE_S: Final = 20.0
LEVELS_DBFS: Final = (-50, -40, -30, -20, -10)
ASR: Final = {"moonshine": moonshine, "whisper": whisper}
MUTE: Final = ("--set=llm.engine=scripted", "--set=tts.engine=scripted")
DETECTIONS: Final[dict[str, dict[str, Any]]] = {
    name: {"type": name, "create_response": False} for name in ("server_vad", "semantic_vad")
}


@dataclass(frozen=True, slots=True)
class Wire:
    """How audio travels: ``form`` is what a session calls it."""

    name: str
    form: dict[str, Any]
    rate: int

    def samples(self, recording: Samples) -> Samples:
        """A recording of 24 kHz, as it leaves."""
        if self.rate == RATE:
            return recording
        floats = soxr.resample(recording.astype(np.float32) / FULL_SCALE, RATE, self.rate)
        return Pcm.from_floats(floats, self.rate).samples

    def encode(self, samples: Samples) -> bytes:
        """As bytes of the wire."""
        if self.rate == RATE:
            return Pcm(samples, RATE).to_bytes()
        return g711.encode(samples, "mulaw")

    def arrived(self, recording: Samples) -> Pcm:
        """The recording after the wire, at the rate of the recogniser."""
        samples = self.samples(recording)
        if self.rate != RATE:
            samples = g711.decode(g711.encode(samples, "mulaw"), "mulaw")
        floats = soxr.resample(samples.astype(np.float32) / FULL_SCALE, self.rate, HEARD_RATE)
        return Pcm.from_floats(floats, HEARD_RATE)


WIRES: Final = (
    Wire("24 kHz PCM", {"type": "audio/pcm", "rate": RATE}, RATE),
    Wire("8 kHz mu-law", {"type": "audio/pcmu"}, g711.RATE),
)


@dataclass(frozen=True, slots=True)
class Clip:
    """``samples`` (n,) int16 at 24 kHz, and the words in them."""

    name: str
    samples: Samples
    words: str


class Listener:
    """What one call understands: ``turns`` of the clip that is being spoken."""

    def __init__(self, call: RealtimeCall) -> None:
        self._call = call
        self._speaking = False
        self._open: set[str] = set()
        self.turns: list[str] = []
        self.doubts: list[str] = []

    @property
    def busy(self) -> bool:
        """Speech is going on, or its words are still to come."""
        return self._speaking or bool(self._open)

    async def run(self) -> None:
        """Take in what the server says, until the call ends."""
        async for event in self._call:
            self._take(event)

    def _take(self, event: ServerEvent) -> None:
        match event:
            case InputAudioBufferSpeechStartedEvent():
                self._speaking = True
            case InputAudioBufferSpeechStoppedEvent():
                self._speaking = False
            case InputAudioBufferCommittedEvent():
                self._open.add(event.item_id)
            case InputAudioTranscriptionCompletedEvent():
                self._open.discard(event.item_id)
                self.turns.append(event.transcript)
                self.doubts += [event.suspicion] if event.suspicion else []
            case InputAudioTranscriptionFailedEvent() | RealtimeErrorEvent():
                raise SystemExit(f"hearing_bench: the server failed: {event.error.message}")


@dataclass(frozen=True, slots=True)
class Told:
    """What a call understood of a clip: the words of each turn, and the guard's doubts."""

    turns: list[str]
    doubts: list[str]


async def speak(call: RealtimeCall, wire: Wire, clips: Sequence[Clip]) -> AsyncIterator[Told]:
    """Say clip after clip, in real time and with silence between."""
    listener = Listener(call)
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(listener.run())
        line = Line(call, wire)
        for clip in clips:
            listener.turns, listener.doubts = [], []
            await line.say(clip.samples)
            began = time.monotonic()
            while (lasted := time.monotonic() - began) < SETTLED_S or listener.busy:
                if lasted > PATIENCE_S:
                    raise SystemExit(f"hearing_bench: no transcript of {clip.name} came")
                await line.say(np.zeros(RATE // 10, np.int16))
            yield Told(listener.turns, listener.doubts)
        listening.cancel()


class Line:
    """Sends sound in frames, each when its last sample would have been recorded."""

    def __init__(self, call: RealtimeCall, wire: Wire) -> None:
        self._call = call
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def say(self, recording: Samples) -> None:
        """So much more, 24 kHz."""
        samples = self._wire.samples(recording)
        size = self._wire.rate * FRAME_MS // 1000
        for start in range(0, len(samples), size):
            frame = samples[start : start + size]
            self._due += len(frame) / self._wire.rate
            await asyncio.sleep(self._due - self._loop.time())
            await self._call.send(InputAudioBufferAppendEvent(self._wire.encode(frame)))


async def live(
    port: int, wire: Wire, detection: dict[str, Any], clips: Sequence[Clip], calls: int
) -> dict[str, Told]:
    """What so many calls understand, each of its share of the clips."""
    told: dict[str, Told] = {}
    session = {"audio": {"input": {"format": wire.form, "turn_detection": detection}}}

    async def talk(share: Sequence[Clip]) -> None:
        async with connect(f"ws://127.0.0.1:{port}/v1/realtime") as call:
            await call.configure(session)
            names = (clip.name for clip in share)
            async for each in speak(call, wire, share):
                told[next(names)] = each
                progress(f"{wire.name}, {detection['type']}: {len(told)}/{len(clips)} clips")

    async with asyncio.TaskGroup() as tasks:
        for number in range(calls):
            tasks.create_task(talk(clips[number::calls]))
    return told


async def offline(asr: Asr, wire: Wire, clips: Sequence[Clip]) -> dict[str, str]:
    """What the recogniser hears when it is handed each clip whole, after the wire."""
    heard = {}
    for clip in clips:
        async with asr.open(AsrRequest(wire.arrived(clip.samples))) as transcripts:
            heard[clip.name] = " ".join([transcript.text async for transcript in transcripts])
    return heard


def row(
    title: str, clips: Sequence[Clip], alone: dict[str, str], told: dict[str, Told]
) -> tuple[str, bool]:
    """One line of the table, those of the clips that came out otherwise, and whether it will do."""
    heard = {name: " ".join(filter(None, each.turns)) for name, each in told.items()}
    without, within = errors(clips, alone), errors(clips, heard)
    cut = sum(len(each.turns) > 1 for each in told.values())
    good = within.rate <= without.rate + ALLOWED
    lines = [
        f"{title:28} {100 * without.rate:8.2f} {100 * within.rate:8.2f} "
        f"{within.errors - without.errors:+7d} {cut:9d}   {'' if good else 'WORSE'}"
    ]
    for clip in clips:
        if spoken_words(alone[clip.name]) != spoken_words(heard[clip.name]):
            doubts = ", ".join(told[clip.name].doubts)
            lines += [f"    {clip.name}: {alone[clip.name]!r}"]
            lines += [f"    {'':{len(clip.name)}}  {' | '.join(told[clip.name].turns)!r} {doubts}"]
    return "\n".join(lines), good


def errors(clips: Sequence[Clip], heard: dict[str, str]) -> Wer:
    """Of all clips together."""
    return wer((clip.words, heard[clip.name]) for clip in clips)


async def compare(folder: Path, name: str, calls: int) -> bool:
    """Print the table. Whether each row will do."""
    clips = [
        Clip(each.name, read_recording(folder / each.name), each.words)
        for each in recordings(folder)
    ]
    words = sum(len(spoken_words(clip.words)) for clip in clips)
    asr = ASR[name].create(ASR[name].Options(), ModelStore())
    await asr.warm_up()
    alone = {wire.name: await offline(asr, wire, clips) for wire in WIRES}
    await asr.close()
    seconds = sum(len(clip.samples) for clip in clips) / RATE
    print(f"{name}: {len(clips)} clips, {words} words, {seconds:.0f} s, {calls} calls at once")
    print(f"{'':28} {'alone %':>8} {'call %':>8} {'errors':>7} {'cut turns':>9}")
    fine = True
    with Server([*MUTE, f"--set=asr.engine={name}"]) as server:
        for wire in WIRES:
            for kind, detection in DETECTIONS.items():
                told = await live(server.port, wire, detection, clips, calls)
                text, good = row(f"{wire.name}, {kind}", clips, alone[wire.name], told)
                print(text, flush=True)
                fine = fine and good
    return fine


async def listen_to_noises(folder: Path, name: str, seconds: int) -> bool:
    """Print what is heard in noise. Whether it is nothing."""
    models = ModelStore()
    asr = ASR[name].create(ASR[name].Options(), models)
    await asr.warm_up()
    print(f"{name}, {seconds} s of each")
    print(f"{'':20} {'dBFS':>5} {'turns':>6} {'readings':>9} {'words':>6} {'paused':>7} "
          f"{'stopped':>8}")  # fmt: skip
    fine = True
    kinds = {"silence": np.zeros(seconds * HEARD_RATE), **noises(seconds, recordings(folder))}
    for number, (kind, sound) in zip(count(1), kinds.items(), strict=False):
        for dbfs in LEVELS_DBFS if sound.any() else (-100,):
            progress(f"{number}/{len(kinds)} {kind} at {dbfs} dBFS")
            heard = await overhear(at_level(sound, dbfs), asr, models)
            print(noise_row(kind, dbfs, heard), flush=True)
            fine = fine and not heard.words and not heard.stopped
    await asr.close()
    return fine


def noise_row(kind: str, dbfs: float, heard: Overheard) -> str:
    """One line of the table, and the words."""
    figures = (
        f"{kind:20} {dbfs:5} {heard.turns:6} {heard.readings:9} {len(heard.words):6} "
        f"{heard.paused:7} {heard.stopped:8}"
    )
    return "\n".join([figures, *(f"    {text!r}" for text in heard.words)])


def progress(text: str) -> None:
    """Where nobody but a person reads it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def main() -> int:
    """Run it; 1 where a call hears worse than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="clips with transcripts.json")
    parser.add_argument("--asr", choices=ASR, default="moonshine")
    parser.add_argument("--calls", type=int, default=3, help="at once")
    parser.add_argument("--noises", action="store_true", help="play noises instead")
    parser.add_argument("--seconds", type=int, default=60, help="of each noise")
    options = parser.parse_args()
    folder = options.folder or ModelStore().path("speech")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if options.noises:
            fine = runner.run(listen_to_noises(folder, options.asr, options.seconds))
        else:
            fine = runner.run(compare(folder, options.asr, options.calls))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
