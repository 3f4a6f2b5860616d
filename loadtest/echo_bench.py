"""How the echo guard does: replies that must not interrupt themselves, callers who must be heard.

    python -m loadtest.echo_bench

The embedded voice speaks replies; each comes back into the microphone at three levels and six
delays over three ways (mixed in digitally; through a loudspeaker that clips and a room, at a
level that drifts; over a phone line and its mu-law). Onto some of them a recorded caller speaks.
The real VAD hears it all, and a caller is who is heard: speech (0.5 or more) that is not echo (a
share below 0.5) in six of eight windows of 32 ms. Every reply has a guard of its own, which
knows nothing yet; "from 0.15 s" are callers who begin so soon after the first echo of their
call, "from 1 s" is about all others. A caller's first sound is where the recording comes within
15 dB of its speech and stays there. Printed too is what the guard costs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from engines.audio import FULL_SCALE, Pcm
from engines.models import ModelStore
from engines.ports import SpeechRequest
from engines.tts import hibari
from engines.vad import silero
from loadtest.speech import RATE, from_first_sound, recordings, speech_level
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.endpoint import WINDOW_MS
from voice.wire import g711

Signal = NDArray[np.floating]

WAYS = ("clean", "room", "phone")
LEVELS_DB = (-6, -12, -20)
DELAYS_MS = (50, 100, 150, 200, 250, 300)
ABOVE_DB = (0, 6, 12)
BEGINNINGS_MS = (150, 1_000)
NOISE_DB = {"clean": -90, "room": -62, "phone": -65}
CHUNK = 1_920
WINDOW = 512
GIVE_UP_MS = 1_500

REPLIES = (
    "Of course. I can book that for you. The next free appointment is on Tuesday at half past "
    "three in the afternoon, with Doctor Miller. Shall I take that one?",
    "Your order left our warehouse yesterday morning, and it should be with you by Thursday. If "
    "nobody is at home, the driver will leave it with a neighbour.",
    "Let me read the number back to you: four, seven, one, nine, two, two, eight. Is that right, "
    "or did I mishear a digit?",
    "I'm sorry to hear that. Please switch the router off, wait for ten seconds, and switch it on "
    "again. The light at the front turns green when it is ready.",
    "We are open from nine in the morning until six in the evening, Monday to Friday. On "
    "Saturdays we close at one.",
    "There are three rooms left. The cheapest one has a view of the garden and costs eighty nine "
    "euros a night, with breakfast. The others look at the sea.",
    "Yes. That is possible. Which city are you flying from, and when would you like to leave?",
    "To bake this bread you need flour, water, salt and patience. Mix everything, let it rest for "
    "eighteen hours, fold it twice, and bake it in a very hot pot for half an hour.",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One reply with its echo; with a caller, who begins at ``begins_ms`` of the reply's echo."""

    way: str
    level_db: int
    delay_ms: int
    reply: int
    seed: int
    caller: int | None = None
    above_db: int = 0
    begins_ms: int = 0

    @property
    def caller_ms(self) -> int:
        """The caller's first sound, counted from the reply's."""
        return self.delay_ms + self.begins_ms


@dataclass(frozen=True, slots=True)
class Take:
    """A scene as it was heard: windows (n, 512) and their speech probabilities."""

    scene: Scene
    windows: NDArray[np.int16]
    probabilities: list[float]


def scenes(seed: int = 0) -> Iterator[Scene]:
    """Every reply over every way, level and delay; and of each of those some callers."""
    numbers = itertools.count(seed)
    for way, level, delay in itertools.product(WAYS, LEVELS_DB, DELAYS_MS):
        for reply in range(len(REPLIES)):
            yield Scene(way, level, delay, reply, next(numbers))
        for above, begins in itertools.product(ABOVE_DB, BEGINNINGS_MS):
            n = next(numbers)
            begins += n % WINDOW_MS  # borders of windows fall anywhere
            yield Scene(way, level, delay, n % len(REPLIES), n, 7 * n, above, begins)


# --- sound ----------------------------------------------------------------------------------


async def speak() -> list[Pcm]:
    """The replies."""
    tts = hibari.create(hibari.Options(), ModelStore())
    await tts.warm_up()
    spoken = []
    for text in REPLIES:
        async with tts.open(SpeechRequest(text)) as chunks:
            pieces = [pcm async for pcm in chunks]
        spoken.append(Pcm(np.concatenate([pcm.samples for pcm in pieces]), pieces[0].rate))
    await tts.close()
    return spoken


def come_back(reply: Pcm, scene: Scene) -> Signal:
    """The echo of the reply at 16 kHz, from the moment when the reply begins."""
    random = np.random.default_rng(scene.seed)
    echo = soxr.resample(reply.floats(), reply.rate, RATE)
    if scene.way == "room":
        echo = np.clip(echo, *(np.abs(echo).max() * np.array([-0.5, 0.5])))
        echo = _convolve(echo, _room(random))
        echo *= 10 ** (3 / 20 * np.sin(np.arange(len(echo)) * np.pi / (2 * RATE) + scene.seed))
    elif scene.way == "phone":
        line = np.zeros(400)
        line[random.integers(1, 400, 6)] = 0.4 * random.normal(size=6)
        line[0] = 1
        echo = _convolve(echo, line)
    silence = np.zeros(scene.delay_ms * RATE // 1000)
    return np.concatenate([silence, echo * 10 ** (scene.level_db / 20)])


def mix(echo: Signal, caller: Signal | None, scene: Scene) -> NDArray[np.int16]:
    """The microphone's windows (n, 512)."""
    begin = scene.caller_ms * RATE // 1000
    length = max(len(echo), 0 if caller is None else begin + len(caller))
    sound: Signal = np.random.default_rng(~scene.seed & 0xFFFF).normal(size=length)
    sound *= 10 ** (NOISE_DB[scene.way] / 20)
    sound[: len(echo)] += echo
    if caller is not None:
        gain = speech_level(echo) / speech_level(caller) * 10 ** (scene.above_db / 20)
        sound[begin : begin + len(caller)] += gain * caller
    if scene.way == "phone":
        sound = _phone(sound)
    samples = Pcm.from_floats(sound, RATE).samples
    return samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW)


def _room(random: np.random.Generator) -> Signal:
    """A direct path and 2 dB less of reflections, ever denser, that lose 60 dB in 250 ms."""
    age = np.arange(RATE // 4) / (RATE // 4)
    tail = random.normal(size=len(age)) * 10 ** (-3 * age)
    tail *= random.random(len(age)) < 0.02 + age / 5
    tail *= 0.8 / np.sqrt(np.square(tail).sum())
    tail[0] = 1
    room: Signal = tail / np.sqrt(np.square(tail).sum())
    return room


def _convolve(sound: Signal, response: Signal) -> Signal:
    size = 1 << (len(sound) + len(response)).bit_length()
    both = np.fft.rfft(sound, size) * np.fft.rfft(response, size)
    convolved: Signal = np.fft.irfft(both, size)[: len(sound) + len(response)]
    return convolved


def _phone(sound: Signal) -> Signal:
    """8 kHz, 280 to 3,450 Hz, mu-law, and back."""
    narrow = soxr.resample(sound, RATE, g711.RATE)
    spectrum = np.fft.rfft(narrow)
    frequencies = np.fft.rfftfreq(len(narrow), 1 / g711.RATE)
    spectrum[(frequencies < 280) | (frequencies > 3_450)] = 0
    line = Pcm.from_floats(np.fft.irfft(spectrum, len(narrow)), g711.RATE)
    heard = Pcm(g711.decode(g711.encode(line.samples, "mulaw"), "mulaw"), g711.RATE)
    wide: Signal = soxr.resample(heard.floats(), g711.RATE, RATE)
    return wide


# --- hearing --------------------------------------------------------------------------------


def heard(replies: Sequence[Pcm], callers: Sequence[Signal], all_scenes: list[Scene]) -> list[Take]:
    """The scenes as microphone and VAD have them."""
    takes = []
    for scene in all_scenes:
        caller = None if scene.caller is None else callers[scene.caller % len(callers)]
        windows = mix(come_back(replies[scene.reply], scene), caller, scene)
        takes.append(Take(scene, windows, []))
    vad = silero.create(silero.Options(), ModelStore())
    slots = np.array([vad.open() for _ in takes])
    for n in range(max(len(take.windows) for take in takes)):
        live = [i for i, take in enumerate(takes) if n < len(take.windows)]
        floats = np.array([takes[i].windows[n] for i in live], np.float32) / np.float32(FULL_SCALE)
        for i, probability in zip(live, vad.step(slots[live], floats).tolist(), strict=True):
            takes[i].probabilities.append(probability)
    return takes


def interrupted_at(take: Take, reply: Pcm, costs_us: list[float]) -> float | None:
    """When six of the last eight windows were a caller's, in ms from the reply's beginning."""
    guard = EchoGuard()
    epoch_ms = 1_000.0
    for start in range(0, len(reply), CHUNK):
        chunk = Pcm(reply.samples[start : start + CHUNK], reply.rate)
        guard.sounded(chunk, epoch_ms + 1000 * start / reply.rate)
    hits: list[bool] = []
    for n, (window, probability) in enumerate(zip(take.windows, take.probabilities, strict=True)):
        now = epoch_ms + WINDOW_MS * (n + 1)
        began = time.thread_time_ns()
        share = guard.share(window, now, suspect=probability >= 0.5) if guard.audible(now) else 0.0
        if probability >= 0.5:
            costs_us.append((time.thread_time_ns() - began) / 1000)
        hits.append(probability >= 0.5 and share < 0.5)
        if sum(hits[-8:]) >= 6:
            return now - epoch_ms
    return None


# --- figures --------------------------------------------------------------------------------


def table_of_replies(results: dict[Scene, float | None]) -> str:
    """False interruptions of replies that nobody spoke over, by way and level."""
    rows = ["replies alone   " + "".join(f"{level:>10} dB" for level in LEVELS_DB)]
    for way in WAYS:
        row = f"{way:16}"
        for level in LEVELS_DB:
            ends = [at for s, at in results.items() if (s.way, s.level_db) == (way, level)]
            row += f"{sum(at is not None for at in ends):>7} of {len(ends):2}"
        rows.append(row)
    return "\n".join(rows)


def table_of_callers(results: dict[Scene, float | None]) -> str:
    """Callers over a reply: how soon they were heard, by way and level above the echo."""
    rows = ["callers                        p50 ms   p95 ms   over 300 ms    missed"]
    for begins, way, above in itertools.product(BEGINNINGS_MS, WAYS, ABOVE_DB):
        waits = [
            np.inf if at is None or at - scene.caller_ms > GIVE_UP_MS else at - scene.caller_ms
            for scene, at in results.items()
            if (scene.way, scene.above_db) == (way, above)
            and scene.begins_ms // 100 == begins // 100
        ]
        p50, p95 = np.percentile(waits, [50, 95], method="higher")
        late = sum(wait > 300 for wait in waits)
        missed = sum(np.isinf(wait) for wait in waits)
        rows.append(
            f"from {begins / 1000:4} s  {way:6} +{above:2} dB {p50:10.0f} {p95:8.0f}"
            f" {late:7} of {len(waits)} {missed:9}"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only each so many-th scene")
    parser.add_argument("--seed", type=int, default=0, help="other rooms, lines, noises, callers")
    options = parser.parse_args()
    replies = asyncio.run(speak())
    speech = recordings(ModelStore().path("speech"))
    callers = [from_first_sound(recording.pcm.floats()) for recording in speech]
    costs_us: list[float] = []
    alone: dict[Scene, float | None] = {}
    spoken_over: dict[Scene, float | None] = {}
    for take in heard(replies, callers, list(scenes(options.seed))[:: options.every]):
        results = alone if take.scene.caller is None else spoken_over
        results[take.scene] = interrupted_at(take, replies[take.scene.reply], costs_us)
    print(table_of_replies(alone), table_of_callers(spoken_over), sep="\n\n")
    p50, p95 = np.percentile(costs_us, [50, 95])
    print(f"\nus for a suspect window: p50 {p50:.0f}, p95 {p95:.0f}, of {len(costs_us)}")


if __name__ == "__main__":
    main()
