"""Who speaks when: error rates, and what it costs.

python -m loadtest.diarization_bench [--folder DIR] [--mixtures]

Every FILE.wav with a FILE.rttm beside it, in the folder or (without one) in pyannote.audio's wheel,
is told apart with the number of its speakers known, and without. ``--mixtures`` does so with
conversations made of recordings of one speaker each, from the model store and the folder: turns
one after the other, whose truth is where they are not silent. No collar, overlaps counted.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import soundfile
import soxr

from engines.audio import Pcm, Samples
from engines.diarization.pyannote import Options, create
from engines.diarization.turns import Diarization, DiarizationRequest, Diarizer, SpeakerTurn
from engines.models import ModelStore
from loadtest.der import Der, diarization_error, turns_of_rttm

RATE: Final = 16_000
KNOWN_LIMIT: Final = 0.08
UNKNOWN_LIMIT: Final = 0.20
COLLAR_MS: Final = 250
_FRAME: Final = RATE // 100
_PAUSE_FRAMES: Final = 30

_SPEAKERS: Final[Mapping[str, str]] = {
    "lv": "lv_*",
    "cards": "cards_*",
    "forever": "forever_*",
    "forward": "goforward*",
    "sb": "sb_*",
    "jfk": "jfk*",
}
"""Speakers of the single recordings, and the names of theirs."""

_MIXTURES: Final = (
    ("lv",),
    ("lv", "forever"),
    ("lv", "cards"),
    ("forever", "cards"),
    ("lv", "cards", "forever"),
    ("lv", "sb"),
    ("sb", "jfk"),
    ("lv", "jfk", "sb"),
    ("jfk", "forward", "lv", "forever"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A recording and who speaks when in it."""

    name: str
    samples: Samples
    truth: Sequence[SpeakerTurn]

    @property
    def speakers(self) -> int:
        return len({turn.speaker for turn in self.truth})

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def main() -> int:
    """Print the figures; 1 where one of the recordings misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="recordings (pyannote.audio's own sample)")
    parser.add_argument("--mixtures", action="store_true", help="conversations put together, too")
    parser.add_argument("--step", type=float, default=Options().step)
    parser.add_argument("--likeness", type=float, default=Options().likeness)
    asked = parser.parse_args()
    options = Options(step=asked.step, likeness=asked.likeness)
    return asyncio.run(measure(options, list(recordings(asked.folder)), list(mixed(asked))))


async def measure(options: Options, cases: Sequence[Case], mixtures: Sequence[Case]) -> int:
    """All of it, in one process after another that has only loaded the models."""
    diarizer = create(options, ModelStore())
    began = time.monotonic()
    await diarizer.warm_up()
    print(f"loading: {time.monotonic() - began:.1f} s")
    await diarizer.close()
    loading_s = _cpu_s()
    await diarizer.warm_up()
    missed = await _judge(diarizer, cases, limited=True)
    await _judge(diarizer, mixtures, limited=False)
    await diarizer.close()
    seconds = 2 * sum(case.seconds for case in (*cases, *mixtures))
    work_s = _cpu_s() - 2 * loading_s
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"CPU: {work_s / seconds:.2f} s for 1 s of sound; at most {memory:.0f} MB")
    return int(missed)


async def _judge(diarizer: Diarizer, cases: Sequence[Case], *, limited: bool) -> bool:
    missed = False
    for case in cases:
        print(f"{case.name}: {case.seconds:.0f} s, speakers: {case.speakers}")
        for known, limit in ((True, KNOWN_LIMIT), (False, UNKNOWN_LIMIT)):
            began = time.monotonic()
            found = await _ask(diarizer, case, case.speakers if known else None)
            rtf = (time.monotonic() - began) / case.seconds
            error = diarization_error(case.truth, found.turns)
            missed |= limited and error.rate > limit
            bound = f" (asked: {limit:.0%} at most)" if limited else ""
            print(f"  {'known' if known else 'unknown':7}  {_row(case, found, error)}{bound}")
            print(f"           real-time factor {rtf:.2f}")
    return missed


def _row(case: Case, found: Diarization, error: Der) -> str:
    lenient = diarization_error(case.truth, found.turns, COLLAR_MS)
    parts = (error.missed, error.false_alarm, error.confused)
    missed, false_alarm, confused = (f"{part / error.speech:.1%}" for part in parts)
    count = len({turn.speaker for turn in found.turns})
    return (
        f"DER {error.rate:.1%} (missed {missed}, false alarm {false_alarm}, confused {confused};"
        f" with a collar of {COLLAR_MS} ms {lenient.rate:.1%}), {count} found"
    )


async def _ask(diarizer: Diarizer, case: Case, speakers: int | None) -> Diarization:
    request = DiarizationRequest(Pcm(case.samples, RATE), speakers)
    async with diarizer.open(request) as given:
        [found] = [each async for each in given]
    return found


def _cpu_s() -> float:
    """Of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- recordings -----------------------------------------------------------------------------


def recordings(folder: Path | None) -> Iterator[Case]:
    """Those that have their truth beside them."""
    if folder is None:
        with resources.as_file(resources.files("pyannote.audio") / "sample") as sample:
            yield from recordings(sample)
        return
    for truth in sorted(folder.glob("*.rttm")):
        turns = turns_of_rttm(truth.read_text("utf-8").splitlines())
        yield Case(truth.stem, _read(truth.with_suffix(".wav")), turns)


def mixed(asked: argparse.Namespace) -> Iterator[Case]:
    """Conversations of those speakers of whom there are recordings."""
    if not asked.mixtures:
        return
    folders = [ModelStore().path("speech"), *([asked.folder] if asked.folder else [])]
    clips = {
        speaker: [_trimmed(_read(path)) for folder in folders for path in sorted(folder.glob(name))]
        for speaker, name in _SPEAKERS.items()
    }
    for number, speakers in enumerate(_MIXTURES):
        if all(clips[speaker] for speaker in speakers):
            yield mixture(speakers, clips, Random(number))


def mixture(
    speakers: Sequence[str], clips: Mapping[str, Sequence[Samples]], chance: Random
) -> Case:
    """14 turns of random speakers, one after the other, equally loud, 0.1 to 1 s apart."""
    parts: list[Samples] = []
    truth: list[SpeakerTurn] = []
    heard = dict.fromkeys(speakers, 0)
    at, before = 0, ""
    for _ in range(14):
        others = [speaker for speaker in speakers if speaker != before]
        before = speaker = chance.choice(others or list(speakers))
        clip = _some_of(clips[speaker][heard[speaker] % len(clips[speaker])], chance)
        heard[speaker] += 1
        silence = round(RATE * min(max(chance.gauss(0.4, 0.2), 0.1), 1.0))
        noise = np.random.default_rng(at).normal(0, 8, silence)
        parts += [noise.astype(np.int16), clip]
        at += silence
        truth += [SpeakerTurn(speaker, at // 16 + a, at // 16 + b) for a, b in _spoken(clip)]
        at += len(clip)
    return Case("+".join(speakers), np.concatenate(parts), truth)


def _read(path: Path) -> Samples:
    sound, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = sound.mean(axis=1)
    return Pcm.from_floats(mono if rate == RATE else soxr.resample(mono, rate, RATE), RATE).samples


def _loudness(samples: Samples) -> Samples:
    """The peak of each 10 ms."""
    whole = samples[: len(samples) // _FRAME * _FRAME].astype(np.int32)
    peaks: Samples = np.abs(whole).reshape(-1, _FRAME).max(axis=1)
    return peaks


def _trimmed(samples: Samples) -> Samples:
    """Without the silence at both ends."""
    peaks = _loudness(samples)
    loud = np.flatnonzero(peaks > max(300, 0.03 * peaks.max()))
    return samples[max(0, loud[0] - 3) * _FRAME : (loud[-1] + 4) * _FRAME]


def _some_of(clip: Samples, chance: Random) -> Samples:
    """Two to five seconds of what is longer than six, and as loud as all others."""
    if len(clip) > 6 * RATE:
        start = chance.randrange(len(clip) - 5 * RATE)
        clip = clip[start : start + chance.randrange(2 * RATE, 5 * RATE)]
    floats = clip.astype(np.float64)
    levelled = floats * (3_000 / np.sqrt(np.mean(floats**2)))
    clipped: Samples = np.clip(levelled, -32_768, 32_767).astype(np.int16)
    return clipped


def _spoken(clip: Samples) -> Iterator[tuple[int, int]]:
    """The times in ms between pauses of 0.3 s and more."""
    peaks = _loudness(clip)
    loud = np.flatnonzero(peaks > 0.05 * peaks.max())
    cuts = np.flatnonzero(np.diff(loud) > _PAUSE_FRAMES)
    starts, ends = [loud[0], *loud[cuts + 1]], [*loud[cuts], loud[-1]]
    for start, end in zip(starts, ends, strict=True):
        yield 10 * int(start), 10 * int(end + 1)


if __name__ == "__main__":
    sys.exit(main())
