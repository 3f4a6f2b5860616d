"""Turns with thinking pauses in them, made of recordings, and what models make of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

from engines.asr import moonshine
from engines.audio import Pcm, Samples
from engines.end_of_turn import smart_turn
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, EndOfTurn, SpeechRequest, TurnRequest, Vad
from engines.tts import hibari
from engines.vad import silero
from engines.vad.ears import levels_db
from loadtest.speech import RATE, Recording
from pipelines.conversation.completeness import completeness
from pipelines.conversation.endpoint import WINDOW_MS, Border, Endpointer, EndpointSettings
from pipelines.conversation.patience import Profile

PAUSES_MS: Final = (600, 1_000, 1_500)
LEAD_MS, REST_MS = 320, 3_600
WINDOW: Final = RATE * WINDOW_MS // 1000
FRAME: Final = RATE // 100
GAP_BELOW_DB, END_BELOW_DB = 20.0, 25.0
FEWEST_GAP_FRAMES: Final = 3

NUMBERS: Final = (
    ("four one five", "five five five", "zero one nine two"),
    ("my number is six five zero", "two five three", "four double zero seven"),
    ("zero two zero", "seven nine four six", "zero nine five eight"),
    ("It's five one eight two", "four four zero nine", "one two seven three", "six six zero one"),
    ("four one one one", "two two three four", "nine eight seven six", "five five four three"),
    ("the account is eight eight three", "seven one nine", "two four six five"),
    ("March third", "nineteen eighty four"),
    ("the twenty first of", "June", "nineteen ninety"),
)
"""Telephone, card and account numbers and dates, with commas where a caller reads on."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What is known at a pause: the words so far and how complete they are, and the probability
    that the sound gives. ``words_ms``: what the recogniser takes, as docs/benchmarks.md has it."""

    text: str
    words: float
    probability: float
    words_ms: float


@dataclass(slots=True)
class Turn:
    """Audio at 16 kHz. ``end`` is where speech ends; ``pauses`` the samples of thinking pauses,
    none in a whole recording. ``windows``: probability and level of each; ``opinions``: by the
    window at which a pause was told."""

    name: str
    samples: Samples
    end: int
    pauses: tuple[range, ...] = ()
    windows: list[tuple[float, float]] = field(default_factory=list)
    opinions: dict[int, Opinion] = field(default_factory=dict)


def whole(clip: Recording) -> Turn:
    """The recording as a turn that ends."""
    return joined(clip.name, [clip.pcm.samples])


def paused(clip: Recording, gap: int, pause_ms: int) -> Turn:
    """The recording with a pause at sample ``gap``."""
    return joined(f"{clip.name}@{gap}", np.split(clip.pcm.samples, [gap]), pause_ms)


def joined(name: str, parts: list[Samples], pause_ms: int = 0) -> Turn:
    """The parts with pauses between. A pause sounds like the room: white noise as loud as the
    quietest tenth of what is said."""
    said = np.concatenate(parts)
    room = float(np.percentile(_frame_rms(said), 10))
    rng = np.random.default_rng(len(said))

    def silence(milliseconds: int) -> Samples:
        length = milliseconds * RATE // 1000
        return np.rint(room * rng.standard_normal(length)).astype(np.int16)

    made, pauses = [silence(LEAD_MS)], []
    place = len(made[0])
    for index, part in enumerate(parts):
        if index:
            made.append(silence(pause_ms))
            pauses.append(range(place, place + len(made[-1])))
            place += len(made[-1])
        made.append(part)
        place += len(part)
    end = place - len(parts[-1]) + speech_end(parts[-1])
    return Turn(name, np.concatenate([*made, silence(REST_MS)]), end, tuple(pauses))


async def dictations() -> list[Turn]:
    """Numbers by the embedded voice, group by group, whole and with pauses of each length."""
    voice = hibari.Hibari(hibari.Options())
    await voice.warm_up()
    turns = []
    for groups in NUMBERS:
        parts = [await _say(voice, f"{group},") for group in groups[:-1]]
        parts.append(await _say(voice, f"{groups[-1]}."))
        turns += [joined(" ".join(groups), parts, ms) for ms in PAUSES_MS]
        turns.append(joined(" ".join(groups), [np.concatenate(parts)]))
    await voice.close()
    return turns


async def _say(voice: hibari.Hibari, text: str) -> Samples:
    async with voice.open(SpeechRequest(text)) as chunks:
        pcms = [pcm async for pcm in chunks]
    sound = np.concatenate([pcm.floats() for pcm in pcms])
    samples = Pcm.from_floats(soxr.resample(sound, pcms[0].rate, RATE), RATE).samples
    return samples[: speech_end(samples)]


def gaps(samples: Samples) -> Iterator[int]:
    """The middles of quiet stretches within the recording: candidates for gaps between words."""
    levels = _levels(samples)
    quiet = levels < np.percentile(levels, 95) - GAP_BELOW_DB
    borders = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(int)))
    for start, stop in borders.reshape(-1, 2):
        if stop - start >= FEWEST_GAP_FRAMES and start > 0 and stop < len(quiet):
            yield int(start + stop) // 2 * FRAME


def speech_end(samples: Samples) -> int:
    """After the last frame of 10 ms that is within 25 dB of the loudest."""
    levels = _levels(samples)
    return (int(np.flatnonzero(levels > levels.max() - END_BELOW_DB)[-1]) + 1) * FRAME


def _levels(samples: Samples) -> NDArray[np.float64]:
    levels: NDArray[np.float64] = 20 * np.log10(_frame_rms(samples) + 1e-3)
    return levels


def _frame_rms(samples: Samples) -> NDArray[np.float64]:
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    rms: NDArray[np.float64] = np.sqrt((frames**2).mean(axis=1))
    return rms


def plain(text: str) -> list[str]:
    """The words alone."""
    return re.findall(r"[a-z0-9']+", text.lower())


def falls_apart(first: str, rest: str, both: str) -> bool:
    """Whether ``both`` was cut between two of its words: those at the cut are whole in its parts,
    and none were lost."""
    before, after, all_words = plain(first), plain(rest), plain(both)
    if not before or not after or len(before) + len(after) != len(all_words):
        return False
    return before[-1] == all_words[len(before) - 1] and after[0] == all_words[len(before)]


class Ears:
    """The models, and what they make of a turn."""

    def __init__(self, asr: Asr, turns: EndOfTurn, vad: Vad) -> None:
        self._asr, self._turns, self._vad = asr, turns, vad
        # Up to its pause a turn is the same however long the pause.
        self._known: dict[tuple[bytes, Profile], Opinion] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, models: ModelStore) -> AsyncIterator[Ears]:
        """With the embedded models. Raises EngineError where one is missing."""
        asr = moonshine.create(moonshine.Options(), models)
        turns = smart_turn.create(smart_turn.Options(), models)
        vad = silero.create(silero.Options(), models)
        await asr.warm_up()
        await turns.warm_up()
        yield cls(asr, turns, vad)
        await asr.close()
        await turns.close()

    async def words(self, samples: Samples) -> str:
        """What the recogniser hears."""
        async with self._asr.open(AsrRequest(Pcm(samples, RATE), "en")) as transcripts:
            return "".join([transcript.text async for transcript in transcripts])

    async def word_gaps(self, clip: Recording) -> list[int]:
        """The gaps at which the recording falls into two parts with whole words."""
        samples, found = clip.pcm.samples, []
        heard = await self.words(samples)
        for gap in gaps(samples):
            first, rest = await self.words(samples[:gap]), await self.words(samples[gap:])
            if falls_apart(first, rest, heard) or falls_apart(first, rest, clip.words):
                found.append(gap)
        return found

    async def hear(self, turn: Turn, profile: Profile) -> Turn:
        """Judge all windows of the turn and each pause in it, and give it back."""
        windows = turn.samples[: len(turn.samples) // WINDOW * WINDOW].reshape(-1, WINDOW)
        slot = self._vad.open()
        endpointer = Endpointer(EndpointSettings(silence_ms=10_000))
        start = 0
        for place, window in enumerate(windows):
            floats = Pcm(window, RATE).floats()[np.newaxis]
            loud = float(self._vad.step(np.array([slot], np.intp), floats)[0])
            (level_db,) = levels_db(floats)
            turn.windows.append((loud, level_db))
            border = endpointer.hear(loud, level_db)
            if border is Border.STARTED:
                start = endpointer.start_ms * RATE // 1000
            elif border is Border.PAUSED:
                heard = turn.samples[start : (place + 1) * WINDOW]
                turn.opinions[place] = await self._judge(heard, profile)
        self._vad.close(slot)
        return turn

    async def _judge(self, samples: Samples, profile: Profile) -> Opinion:
        if known := self._known.get((samples.tobytes(), profile)):
            return known
        text = await self.words(samples)
        async with self._turns.open(TurnRequest(Pcm(samples, RATE))) as judgements:
            (probability,) = [judgement async for judgement in judgements]
        words = completeness(text, "en", profile)
        opinion = Opinion(text, words, probability, 10 + 31 * len(samples) / RATE)
        self._known[samples.tobytes(), profile] = opinion
        return opinion
