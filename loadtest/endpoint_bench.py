"""When a turn is taken for over: callers who think, and callers who wait for an answer.

    python -m loadtest.endpoint_bench [FOLDER ...]

Each recording of a folder with transcripts.json (the model store's speech) is a turn that ends.
Cut at a gap between two of its words, with silence put in, it is a turn that does not: someone
thinks. Numbers are dictated by the embedded voice, group by group. The real VAD hears it all, the
real recogniser gives the words so far, the end-of-turn model its opinion, and the endpointer
waits as the profile has it. Printed are, for the VAD with fixed silences and for each kind of
evidence, how many of the pauses were taken for the end, and how long real ends were waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from engines.models import ModelStore
from loadtest.paused_speech import PAUSES_MS, Ears, Opinion, Turn, dictations, paused, whole
from loadtest.speech import RATE, Recording, recordings
from pipelines.conversation.endpoint import WINDOW_MS, Border, Endpointer, EndpointSettings
from pipelines.conversation.patience import PROFILES, Profile, opinion_of_sound, wait_ms

SOUND_MS = 50
"""What the end-of-turn model takes, its queue included."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to wait, and which opinions may move it."""

    name: str
    profile: Profile = "normal"
    fixed_ms: int | None = None
    words: bool = False
    sound: bool = False

    @property
    def base_ms(self) -> int:
        """The silence to wait for where nothing is known yet."""
        return PROFILES[self.profile].base_ms if self.fixed_ms is None else self.fixed_ms

    def wait_ms(self, opinion: Opinion, since_ms: float) -> int:
        """The silence to wait for, so long after the opinion was asked for."""
        if self.fixed_ms is not None:
            return self.fixed_ms
        evidence = []
        if self.words and since_ms >= opinion.words_ms:
            evidence.append(opinion.words)
        if self.sound and since_ms >= SOUND_MS:
            evidence.append(opinion_of_sound(opinion.probability))
        return wait_ms(self.profile, evidence)


def policies(profile: Profile, fixed_ms: Sequence[int]) -> list[Policy]:
    """What is compared."""
    return [
        *(Policy(f"VAD alone, {ms} ms", fixed_ms=ms) for ms in fixed_ms),
        Policy("VAD + words", profile, words=True),
        Policy("VAD + sound", profile, sound=True),
        Policy("VAD + words + sound", profile, words=True, sound=True),
    ]


def stops(turn: Turn, policy: Policy) -> list[int]:
    """Where the endpointer ends turns in this audio, in ms from its beginning."""
    settings = EndpointSettings(silence_ms=policy.base_ms)
    endpointer = Endpointer(settings)
    opinion, asked_at = None, 0
    ends = []
    for place, (probability, level_db) in enumerate(turn.windows):
        border = endpointer.hear(probability, level_db)
        if border is Border.PAUSED:
            opinion, asked_at = turn.opinions.get(place), place
        elif border is not None:
            opinion = None
            endpointer.configure(settings)
            if border is Border.STOPPED:
                ends.append((place + 1) * WINDOW_MS)
        if opinion is not None:
            silence_ms = policy.wait_ms(opinion, (place - asked_at) * WINDOW_MS)
            endpointer.configure(replace(settings, silence_ms=silence_ms))
    return ends


@dataclass(slots=True)
class Score:
    """Of one policy: for each length of pause whether it was cut, stops in the middle of whole
    recordings, and the waits at their ends in ms."""

    cuts: dict[int, list[bool]] = field(default_factory=lambda: {ms: [] for ms in PAUSES_MS})
    early: int = 0
    waits_ms: list[float] = field(default_factory=list)

    def add(self, turn: Turn, ends: Sequence[int]) -> None:
        """Count what the policy made of a turn."""
        for pause in turn.pauses:
            lasted_ms = 1000 * len(pause) // RATE
            cut = any(pause.start < end * RATE // 1000 < pause.stop for end in ends)
            self.cuts[lasted_ms].append(cut)
        if not turn.pauses:
            end_ms = 1000 * turn.end / RATE
            self.early += sum(end < end_ms for end in ends)
            self.waits_ms += [end - end_ms for end in ends[-1:]]

    def row(self) -> str:
        """The score as columns of the table."""
        cut = "".join(f"{100 * np.mean(cuts):7.0f} %" for cuts in self.cuts.values())
        mean, late = np.mean(self.waits_ms), np.percentile(self.waits_ms, 95)
        return f"{cut}{self.early:8d}{mean:10.0f}{late:8.0f}"


def table(title: str, turns: Sequence[Turn], compared: Sequence[Policy]) -> str:
    """The scores of all policies for a person."""
    pauses = sum(len(turn.pauses) for turn in turns) // len(PAUSES_MS)
    ends = sum(not turn.pauses for turn in turns)
    heads = "".join(f"{ms / 1000:8.1f}s" for ms in PAUSES_MS)
    lines = [
        f"{title}: {pauses} pauses of each length taken for the end, {ends} real ends",
        f"{'':24}{heads}   early  mean ms     p95",
    ]
    for policy in compared:
        score = Score()
        for turn in turns:
            score.add(turn, stops(turn, policy))
        lines.append(f"{policy.name:24}{score.row()}")
    return "\n".join(lines) + "\n"


async def spoken(ears: Ears, clips: Sequence[Recording]) -> list[Turn]:
    """The recordings as turns, whole and with pauses of each length at each gap."""
    turns = [whole(clip) for clip in clips]
    for clip in clips:
        for gap in await ears.word_gaps(clip):
            turns += [paused(clip, gap, ms) for ms in PAUSES_MS]
        sys.stderr.write(f"\r{len(turns)} turns ")
        sys.stderr.flush()
    sys.stderr.write("\n")
    return [await ears.hear(turn, "normal") for turn in turns]


async def compare(folders: Sequence[Path]) -> str:
    """All tables."""
    models = ModelStore()
    clips = {clip.name: clip for folder in folders for clip in recordings(folder)}
    async with Ears.open(models) as ears:
        talk = await spoken(ears, list(clips.values()))
        numbers = [await ears.hear(turn, "digits") for turn in await dictations()]
    return "\n".join(
        [
            table("talk, normal", talk, policies("normal", (300, 500, 700, 1_000))),
            table("talk, patient", talk, policies("patient", (1_200,))),
            table("numbers, digits", numbers, policies("digits", (500, 1_000, 1_500))),
        ]
    )


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*", help="clips with transcripts.json")
    folders = parser.parse_args().folders or [ModelStore().path("speech")]
    sys.stdout.write(asyncio.run(compare(folders)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
