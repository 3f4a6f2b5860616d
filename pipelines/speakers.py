"""Whose words are whose: words and turns of speakers laid over one another.

Neither is exact: recognisers put a word 100 ms off, and turns begin where somebody breathes in. So
a word goes to whoever speaks longest while it is said; one that falls into a gap, to the nearest;
and a single word that a border has cut off from its sentence, back to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from engines.diarization.turns import SpeakerTurn
from pipelines.transcription.captions import Spoken, joined, words_of

NEAREST_MS: Final = 1_000
"""A word that is so far from all turns is nobody's."""

_SLACK_MS: Final = 300
"""So far may a border of a turn be off."""

_ALIKE: Final = 0.8
"""Of the longest overlap: whoever spoke before and has so much of a word, goes on speaking."""

_ENDS: Final = tuple(".?!…")


def named(turns: Iterable[SpeakerTurn]) -> tuple[SpeakerTurn, ...]:
    """The same in order of time, speakers called ``Speaker 1`` and so on as they appear."""
    names: dict[str, str] = {}
    found = sorted(turns, key=lambda turn: (turn.start_ms, turn.end_ms))
    for turn in found:
        names.setdefault(turn.speaker, f"Speaker {len(names) + 1}")
    return tuple(replace(turn, speaker=names[turn.speaker]) for turn in found)


def speakers_of(words: Sequence[Spoken], turns: Iterable[SpeakerTurn]) -> list[str]:
    """Who says each word; empty where nobody speaks anywhere near. Words are in order of time."""
    spoken = _Turns(turns)
    speakers: list[str] = []
    for word in words:
        speakers.append(spoken.speaker(word, speakers[-1] if speakers else ""))
    return _smoothed(words, speakers, spoken)


def by_speaker(stretches: Iterable[Spoken], turns: Iterable[SpeakerTurn]) -> list[Spoken]:
    """Stretches of speech in pieces of one speaker each, who is told of each."""
    stretches = [stretch for stretch in stretches if stretch.text.strip()]
    words = [words_of(stretch) for stretch in stretches]
    speakers = iter(speakers_of([word for each in words for word in each], turns))
    pieces = []
    for stretch, own in zip(stretches, words, strict=True):
        said = [(next(speakers), word) for word in own]
        for speaker, group in groupby(said, key=lambda each: each[0]):
            part = [word for _, word in group]
            piece = replace(joined(part), words=tuple(part) if stretch.words else ())
            pieces.append(replace(stretch if part == own else piece, speaker=speaker))
    return pieces


class _Turns:
    """Turns that can be asked about a time."""

    def __init__(self, turns: Iterable[SpeakerTurn]) -> None:
        self._turns = sorted(turns, key=lambda turn: turn.start_ms)
        self._starts = [turn.start_ms for turn in self._turns]
        self._longest = max((turn.end_ms - turn.start_ms for turn in self._turns), default=0)

    def speaker(self, word: Spoken, before: str) -> str:
        """Who says it, ``before`` having said what was before."""
        near = self._near(word, NEAREST_MS)
        overlaps: dict[str, int] = {}
        for turn in near:
            overlap = min(turn.end_ms, word.end_ms) - max(turn.start_ms, word.start_ms)
            if overlap > 0:
                overlaps[turn.speaker] = overlaps.get(turn.speaker, 0) + overlap
        if overlaps:
            most = max(overlaps.values())
            if overlaps.get(before, 0) >= _ALIKE * most:
                return before
            return max(overlaps, key=lambda speaker: overlaps[speaker])
        return min(near, key=lambda turn: _gap(turn, word)).speaker if near else ""

    def may_say(self, speaker: str, word: Spoken) -> bool:
        """Whether the speaker is so near that it may be a border that is off."""
        return any(turn.speaker == speaker for turn in self._near(word, _SLACK_MS))

    def _near(self, word: Spoken, within_ms: int) -> list[SpeakerTurn]:
        first = bisect_left(self._starts, word.start_ms - within_ms - self._longest)
        found = []
        for turn in self._turns[first:]:
            if turn.start_ms > word.end_ms + within_ms:
                break
            if _gap(turn, word) <= within_ms:
                found.append(turn)
        return found


def _gap(turn: SpeakerTurn, word: Spoken) -> int:
    return max(turn.start_ms - word.end_ms, word.start_ms - turn.end_ms, 0)


def _smoothed(words: Sequence[Spoken], speakers: list[str], turns: _Turns) -> list[str]:
    """Single words given back to the sentence that they are part of."""
    for place in range(len(words)):
        speaker = _rightful(words, speakers, place)
        if speaker != speakers[place] and turns.may_say(speaker, words[place]):
            speakers[place] = speaker
    return speakers


def _rightful(words: Sequence[Spoken], speakers: Sequence[str], place: int) -> str:
    """Who should say a word, going by what is around it."""
    own = speakers[place]
    before = speakers[place - 1] if place else own
    after = speakers[place + 1] if place + 1 < len(words) else own
    if before == own == after:
        return own
    opens = place == 0 or words[place - 1].text.endswith(_ENDS)
    closes = words[place].text.endswith(_ENDS)
    if before == after and not (opens and closes):
        return before  # in the middle of what somebody else says
    if before not in (own, "") and after == own and closes and not opens:
        return before  # the last word of a sentence, taken for the first of the next
    if after not in (own, "") and before == own and opens and not closes:
        return after  # the first word of a sentence, taken for the last of the one before
    return own
