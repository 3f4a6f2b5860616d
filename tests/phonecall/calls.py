"""A call by the script, and what can be found out afterwards about how it went."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soxr

from engines.asr.listening import Clip
from engines.asr.moonshine import Moonshine, Options
from engines.audio import Pcm
from engines.models import ModelStore
from loadtest.speech import RATE as RECORDED
from loadtest.speech import first_sound, recordings
from loadtest.wer import wer
from tests.phonecall import phones, script
from tests.phonecall.exchange import Root
from tests.phonecall.listening import Piece, Spell, cut, pieces, spells
from tests.phonecall.narrator import spoken

SILENT_MS: Final = 500
"""From the first sound of an interruption to silence in the caller's ear."""
GAP_MS: Final = 60
LIKENESS: Final = 0.7
"""Of each piece of a reply to what was said."""
HELD_MS: Final = 90
"""Of its last sound is kept back by a phone that is sent nothing more: baresip's is. Another one
plays it, so it counts as heard after an interruption."""
MISHEARD: Final = 0.34
"""Of the words, at a telephone's bandwidth and by the smallest recogniser."""

_CLOSED_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Way:
    """One way for audio to go: the extension that is dialled, and who hangs up."""

    name: str
    extension: str
    agent_hangs_up: bool = False

    @property
    def keys(self) -> str:
        return f"{script.KEYS[:-1]}0#" if self.agent_hangs_up else script.KEYS


WAYS: Final = (
    Way("chan_websocket, JSON, slin16", "200"),
    Way("chan_websocket, plain text, ulaw", "201", agent_hangs_up=True),
    Way("AudioSocket(), slin", "100"),
    Way("Dial(AudioSocket), slin16", "101", agent_hangs_up=True),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a call was to do; ``told``: how it did. ``passed`` is None where nobody can
    tell."""

    call: str
    what: str
    passed: bool | None
    told: str


class Caller:
    """Knows what is said by both sides, and has an ear of its own."""

    def __init__(self, models: ModelStore) -> None:
        self._spoken = spoken(models)
        told = {recording.words: recording.pcm for recording in recordings(models.path("speech"))}
        question, interruption = told[script.QUESTION], told[script.INTERRUPTION]
        self.said = phones.mixed(
            script.OVER_MS + 5_000,
            {
                script.QUESTION_MS: _narrow(question),
                script.INTERRUPTION_MS: _narrow(interruption),
            },
        )
        onset = first_sound(interruption.floats()) * 1000 // RECORDED
        self.interrupts_at_ms = script.INTERRUPTION_MS + onset
        self._hear = Moonshine(Options(), models).hear

    def speech(self, sentences: Sequence[str]) -> Pcm:
        """How they are said, at a telephone's rate."""
        samples = np.concatenate([self._spoken[sentence].samples for sentence in sentences])
        return _narrow(Pcm(samples, RECORDED))

    def words_of(self, pcm: Pcm) -> str:
        """What is said there, by a recogniser."""
        samples = soxr.resample(pcm.floats(), pcm.rate, RECORDED)
        return self._hear(Clip(samples, None, "")).heard.text


async def call(root: Root, way: Way, caller: Caller, last: Path) -> Pcm:
    """Place it, by the clock of the script; what the caller has heard. Raises PhoneCallError."""
    async with phones.baresip(root, caller.said, last / f"baresip-{way.extension}.log") as phone:
        await phone.dial(way.extension)
        began = asyncio.get_running_loop().time()
        await _until(began, script.KEYS_MS)
        await phone.press(way.keys)
        if not way.agent_hangs_up:
            await _until(began, script.OVER_MS)
            phone.hang_up()
        await phone.wait_for("CALL_CLOSED", _CLOSED_S)
    shutil.copy(root.scratch("phone") / "heard.wav", last / f"heard-{way.extension}.wav")
    return phones.heard(root)


def asked(file: Path, after: int) -> Mapping[int, str]:
    """What the model was asked since the file had ``after`` characters: each message of the
    caller's by its number, as it was in the end."""
    lines = file.read_text("utf-8")[after:].splitlines() if file.exists() else []
    return dict(json.loads(line) for line in lines)


def findings(
    way: Way, caller: Caller, sound: Pcm, messages: Mapping[int, str]
) -> Iterator[Finding]:
    """How that call went, by what its caller heard and what the model was asked."""

    def found(what: str, passed: bool, told: str) -> Finding:
        return Finding(way.name, what, passed, told)

    def understood(what: str, said: str, words: str) -> Finding:
        return found(what, wer([(said, words)]).rate <= MISHEARD, repr(words))

    yield understood("the agent hears the question", script.QUESTION, messages.get(1, ""))
    yield understood("and the interruption", script.INTERRUPTION, messages.get(2, ""))
    typed = f"[keypad: {' '.join(way.keys)}]"
    yield found("and the keys", messages.get(3) == typed, messages.get(3, "nothing"))
    heard = spells(sound)
    yield found("the caller hears four replies", len(heard) == 4, _told(heard))
    if len(heard) != 4:
        return
    replies = (script.GREETING, script.STORY, script.ANSWER, script.GOODBYE)
    for spell, sentences in zip(heard, replies, strict=True):
        name = f"the reply at {spell.start_ms / 1000:.0f} s"
        if sentences is not script.STORY:
            words = caller.words_of(cut(sound, spell))
            yield understood(f"{name} is heard", " ".join(sentences), words)
        found_again = pieces(sound, caller.speech(sentences), spell.start_ms, spell.end_ms)
        yield Finding(way.name, f"{name} is whole", *_whole(found_again))
    silent_ms = heard[1].end_ms + HELD_MS - caller.interrupts_at_ms
    in_time = HELD_MS < silent_ms <= SILENT_MS
    yield found("the agent is silent when interrupted", in_time, f"after {silent_ms} ms")
    gap_ms = max(spell.gap_ms for spell in heard)
    yield found("nothing is missing within replies", gap_ms <= GAP_MS, f"longest gap {gap_ms} ms")


def _whole(found: Sequence[Piece]) -> tuple[bool, str]:
    """Whether all pieces are there, each as late as the others."""
    if not found:
        return False, "none of it is there"
    late = [piece.late_ms for piece in found]
    spread_ms, likeness = max(late) - min(late), min(piece.likeness for piece in found)
    told = f"{len(found)} pieces in place to {spread_ms} ms, each {likeness:.2f} the same or more"
    return spread_ms <= GAP_MS and likeness >= LIKENESS, told


def _told(heard: Sequence[Spell]) -> str:
    return ", ".join(f"{spell.start_ms}–{spell.end_ms} ms" for spell in heard) or "nothing"


async def _until(began: float, at_ms: int) -> None:
    await asyncio.sleep(began + at_ms / 1000 - asyncio.get_running_loop().time())


def _narrow(pcm: Pcm) -> Pcm:
    return Pcm.from_floats(soxr.resample(pcm.floats(), pcm.rate, phones.RATE), phones.RATE)
