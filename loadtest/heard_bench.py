"""How well it is known which words of a reply were heard, against what a recogniser makes of it.

python -m loadtest.heard_bench [--step-ms 40]

Each sentence is spoken, cut off after every ``step-ms``, and read by a recogniser: a word counts as
heard from the first cut on in which it is understood, with all words before it. That is a
listener's own measure: most words are understood some time before they end, so all ways are late
by it. What is left of the errors without that delay (the median) is what a way can be blamed for.
Against it stand three ways to tell where words end: by the letters alone, by letters and pauses
(for a voice that tells nothing), and by the voice's own marks.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import soxr

from engines.asr import moonshine
from engines.audio import Mark, Pcm
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, SpeechRequest, Tts
from engines.tts import hibari
from loadtest.wer import spoken_words
from pipelines.conversation.heard import Span

RATE: Final = 16_000
TAIL_MS: Final = 300
"""Silence behind a cut, as a listener would have it."""

SENTENCES: Final = (
    "Your table is booked for Tuesday, the fifth of May, at half past seven in the evening.",
    "I have checked your account, and there are two open invoices from last month.",
    "Turn left at the church, then walk three kilometres, and you will see the river.",
    "Thank you for calling, and have a wonderful afternoon with your family!",
    "Could you please tell me the name of the street that you live in?",
    "The museum is closed on Monday; on all other days it opens at nine in the morning.",
    "Well, that depends on what you are looking for, because we have many of them.",
    "Strong winds and heavy rain are expected throughout the whole weekend.",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence, its sound, and where the voice says that its words end."""

    text: str
    pcm: Pcm

    @property
    def words(self) -> list[str]:
        return spoken_words(self.text)


def by_letters(spoken: Spoken, at_ms: float) -> str:
    """Time is shared out by letters alone; whole words."""
    share = at_ms / spoken.pcm.duration_ms
    return spoken.text[: int(share * len(spoken.text)) + 1].rpartition(" ")[0]


def by_pauses(spoken: Spoken, at_ms: float) -> str:
    """As for a voice that tells nothing."""
    return _heard(spoken, at_ms, ())


def by_marks(spoken: Spoken, at_ms: float) -> str:
    """As for a voice that marks its words."""
    return _heard(spoken, at_ms, spoken.pcm.marks)


WAYS: Final[dict[str, Callable[[Spoken, float], str]]] = {
    "letters": by_letters,
    "letters and pauses": by_pauses,
    "the voice's marks": by_marks,
}


def _heard(spoken: Spoken, at_ms: float, marks: tuple[Mark, ...]) -> str:
    end_ms = spoken.pcm.duration_ms
    return Span(spoken.text, 0.0, end_ms, "", list(marks)).heard_text(at_ms, end_ms)


def ends_ms(spoken: Spoken, way: Callable[[Spoken, float], str]) -> list[float]:
    """When each word counts as heard."""
    ends = [spoken.pcm.duration_ms] * len(spoken.words)
    for at_ms in range(int(spoken.pcm.duration_ms), 0, -5):
        heard = len(spoken_words(way(spoken, at_ms)))
        ends[:heard] = [min(end, float(at_ms)) for end in ends[:heard]]
    return ends


async def say(voice: Tts, text: str) -> Spoken:
    """One sentence, which comes in one piece."""
    async with voice.open(SpeechRequest(text)) as pieces:
        (pcm,) = [piece async for piece in pieces]
    return Spoken(text, pcm)


async def understood_ms(asr: Asr, spoken: Spoken, step_ms: int) -> list[float | None]:
    """When each word is first understood with all before it; None for never."""
    at_16k = Pcm.from_floats(soxr.resample(spoken.pcm.floats(), spoken.pcm.rate, RATE), RATE)
    tail = Pcm.silence(TAIL_MS, RATE).samples
    words = spoken.words
    found: list[float | None] = [None] * len(words)
    for at_ms in range(step_ms, int(spoken.pcm.duration_ms) + step_ms, step_ms):
        cut = at_16k.samples[: at_ms * RATE // 1000]
        async with asr.open(AsrRequest(Pcm(np.concatenate([cut, tail]), RATE))) as transcripts:
            texts = [transcript.text async for transcript in transcripts]
        for number, word in enumerate(spoken_words(" ".join(texts))[: len(words)]):
            if word != words[number]:
                break
            found[number] = found[number] or float(at_ms)
    return found


async def main(step_ms: int) -> None:
    """Print how late each way is against the listener, and its errors beside that."""
    asr = moonshine.create(moonshine.Options(), ModelStore())
    voice = hibari.create(hibari.Options(), ModelStore())
    await asyncio.gather(asr.warm_up(), voice.warm_up())
    try:
        spoken = [await say(voice, text) for text in SENTENCES]
        truth = [await understood_ms(asr, one, step_ms) for one in spoken]
    finally:
        await asyncio.gather(asr.close(), voice.close())
    for name, way in WAYS.items():
        errors = np.array(
            [
                told - (known - step_ms / 2)
                for one, ends in zip(spoken, truth, strict=True)
                for told, known in zip(ends_ms(one, way), ends, strict=True)
                if known is not None
            ]
        )
        late = float(np.median(errors))
        rest = np.abs(errors - late)
        print(
            f"{name:18}  {len(errors)} words  mean absolute error {np.abs(errors).mean():4.0f} ms"
            f"  late by {late:4.0f} ms, beside that {rest.mean():4.0f} ms"
            f" (p95 {np.percentile(rest, 95):4.0f} ms)"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--step-ms", type=int, default=40, help="between two cuts")
    asyncio.run(main(parser.parse_args().step_ms))
