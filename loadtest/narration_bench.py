"""How a long text comes out when it is read aloud: ``python -m loadtest.narration_bench``.

The text beside this file, some ten minutes of speech, is narrated by the embedded voice and heard
by the embedded Whisper, as files are. Word errors are counted against what the voice was given, so
they are the voice's and the recogniser's together. Silences are measured where pieces join and
held against what was asked for; the largest step from sample to sample at a join, against those
inside: a click is a step that speech has not.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import resource
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import soxr

from engines.asr import whisper
from engines.audio import FULL_SCALE, Pcm, Samples
from engines.models import ModelStore
from engines.ports import EngineError
from engines.tts import hibari
from engines.vad import silero
from loadtest.wer import Wer, spoken_words, wer
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.joining import Seam
from pipelines.narration.narrating import narrate
from pipelines.narration.pieces import Narration, Piece, pieces
from pipelines.speaking.normalise import speakable
from pipelines.transcription.captions import Utterance
from pipelines.transcription.hearing import Wanted, transcribe

TEXT: Final = Path(__file__).with_name("narration.md")
_HEARD_HZ: Final = 16_000
_FRAME_MS: Final = 5
_SOUND: Final = FULL_SCALE * 10 ** (-50 / 20)
_AT_JOIN_MS: Final = 10
_MOST_WER: Final = 0.04


class Free:
    """A place that nobody takes away."""

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """At once."""
        yield


@dataclass(slots=True)
class Narrated:
    """The sound of a text. ``joins``: where each piece's sound has ended, in samples. ``rose_mb``:
    what the most memory of the process rose by."""

    samples: Samples
    rate: int
    said: list[Piece]
    joins: list[int]
    took_s: float
    rose_mb: float = 0.0


@dataclass(slots=True)
class Silences:
    """In ms: the longest and what it came to be at, and how far the pauses between pieces are from
    those asked for."""

    longest: float
    longest_after: str
    off: list[float] = field(default_factory=list)


async def narrated(text: str, narration: Narration, ahead: int, models: ModelStore) -> Narrated:
    """Have it said by hibari."""
    tts = hibari.create(hibari.Options(), models)
    await tts.warm_up()
    sound: list[Pcm] = []
    said: list[Piece] = []
    joins: list[int] = []

    async def put(pcm: Pcm) -> None:
        sound.append(pcm)

    async def ended(piece: Piece, _: Seam) -> None:
        said.append(piece)
        joins.append(sum(map(len, sound)))

    before_mb, began = _peak_mb(), time.perf_counter()
    planned = pieces(chapters(blocks(text)), narration)
    await narrate(planned, narration, tts, Free(), put, ahead=ahead, ended=ended)
    took_s, rose_mb = time.perf_counter() - began, _peak_mb() - before_mb
    await tts.close()
    samples = np.concatenate([pcm.samples for pcm in sound])
    return Narrated(samples, sound[0].rate, said, joins, took_s, rose_mb)


async def heard(samples: Samples, rate: int, models: ModelStore) -> str:
    """What Whisper makes of it, by way of the flow for files."""
    asr = whisper.create(whisper.Options(language="en"), models)
    await asr.warm_up()
    words: list[str] = []

    async def blocks_of() -> AsyncIterator[Samples]:
        at_16k = np.asarray(soxr.resample(samples, rate, _HEARD_HZ))
        for start in range(0, len(at_16k), 4 * _HEARD_HZ):
            yield at_16k[start : start + 4 * _HEARD_HZ]

    async def put(utterance: Utterance) -> None:
        words.append(utterance.text)

    vad = silero.create(silero.Options(), models)
    await transcribe(blocks_of(), Wanted(language="en"), vad, asr, Free(), put)
    await asr.close()
    return " ".join(words)


def silences(made: Narrated) -> Silences:
    """All silences of 5 ms and more, and those at the joins."""
    frame = _FRAME_MS * made.rate // 1000
    frames = made.samples[: len(made.samples) // frame * frame].astype(np.float64)
    loud = np.flatnonzero(np.sqrt((frames.reshape(-1, frame) ** 2).mean(axis=1)) > _SOUND)
    gaps = np.diff(loud) - 1
    longest = int(np.argmax(gaps))
    place = int(np.searchsorted(made.joins, (loud[longest] + 1) * frame))
    found = Silences(float(gaps[longest] * _FRAME_MS), made.said[place].spoken)
    for piece, join in zip(made.said[1:], made.joins, strict=False):
        after = int(np.searchsorted(loud, join // frame))
        if 0 < after < len(loud):
            gap_ms = (loud[after] - loud[after - 1] - 1) * _FRAME_MS
            found.off.append(float(gap_ms - piece.pause_ms))
    return found


def steps(made: Narrated) -> tuple[int, int, float]:
    """The largest step from sample to sample: near a join, elsewhere; and the 99.99th of a hundred
    of those elsewhere."""
    change = np.abs(np.diff(made.samples.astype(np.int32)))
    near = np.zeros(len(change), bool)
    reach = _AT_JOIN_MS * made.rate // 1000
    for join in made.joins:
        near[max(0, join - reach) : join + reach] = True
    inside = change[~near]
    return int(change[near].max()), int(inside.max()), float(np.percentile(inside, 99.99))


def differences(said: Sequence[str], understood: Sequence[str]) -> list[str]:
    """Where the words differ, with the word before."""
    matcher = difflib.SequenceMatcher(None, said, understood, autojunk=False)
    return [
        f"{' '.join(said[max(0, a - 1) : a])}"
        f" [{' '.join(said[a:b])} -> {' '.join(understood[c:d])}]"
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def compared(made: Narrated, transcript: str) -> tuple[Wer, list[str]]:
    """Word errors, both sides as they are spoken."""
    said = " ".join(piece.spoken for piece in made.said)
    understood = speakable(transcript)
    places = differences(spoken_words(said), spoken_words(understood))
    return wer([(said, understood)]), places


def told_of_sound(made: Narrated) -> list[str]:
    """How it was made, and what it is like."""
    lasts_s = len(made.samples) / made.rate
    quiet, (at_joins, inside, usual) = silences(made), steps(made)
    off, after = np.abs(quiet.off), quiet.longest_after[:50]
    return [
        f"narrated   {lasts_s / 60:.1f} min, {len(made.said)} pieces, in {made.took_s:.1f} s:"
        f" RTF {made.took_s / lasts_s:.4f}",
        f"memory     rose by {made.rose_mb:.0f} MB, the sound's {made.samples.nbytes / 1e6:.0f} MB"
        f" among them",
        f"pauses     {len(off)}, off by p50 {np.median(off):.0f} ms, max {off.max():.0f} ms;"
        f" longest {quiet.longest:.0f} ms, behind {after!r}",
        f"steps      at joins {at_joins}; inside max {inside}, p99.99 {usual:.0f} (of 32767)",
    ]


async def run(arguments: argparse.Namespace) -> int:
    """Narrate, hear, and tell. 1 where more than 4 % of the words are wrong."""
    models = ModelStore()
    narration = Narration(live=arguments.live, speed=arguments.speed)
    made = await narrated(arguments.text.read_text("utf-8"), narration, arguments.ahead, models)
    print("\n".join(told_of_sound(made)))
    if arguments.no_asr:
        return 0
    began = time.perf_counter()
    errors, places = compared(made, await heard(made.samples, made.rate, models))
    took_s, rate = time.perf_counter() - began, 100 * errors.rate
    print(
        f"heard      in {took_s:.0f} s: WER {rate:.2f} % ({errors.errors} of {errors.words} words)"
    )
    print("".join(f"           {place}\n" for place in places), end="")
    return int(errors.rate > _MOST_WER)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser("narration_bench", description=__doc__)
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="another text")
    parser.add_argument("--ahead", type=int, default=4, help="pieces under way (4)")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--live", action="store_true", help="as the REST door has it said")
    parser.add_argument("--no-asr", action="store_true", help="do not hear it")
    try:
        return asyncio.run(run(parser.parse_args()))
    except (EngineError, OSError) as error:
        sys.stderr.write(f"narration_bench: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
