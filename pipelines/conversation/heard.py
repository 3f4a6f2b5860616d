"""Which words were heard: from a moment in the audio of a phrase to a place in its text.

Two steps, each along straight lines between places that are known. From the moment to a place in
what was read aloud: a voice that knows marks the ends of its words; otherwise time is shared out
by letters, and a pause counts as some. From there to a place in what was written ("$5.20" was read
as "five dollars and twenty cents"): the words that stand in both tie the two together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from engines.audio import Mark

Points: TypeAlias = Sequence[tuple[float, float]]
"""Pairs of which both numbers rise."""

LETTERS_PER_PAUSE: Final = 7
"""How long a voice pauses at punctuation. Of 1 to 12, this comes nearest to where hibari's words
end: 0.11 s off on average, where letters alone are 0.18 s off. See ``loadtest.heard_bench``."""

MS_PER_CHARACTER: Final = 60.0
"""A lively speaker's pace. A phrase whose audio was cut off is taken to have lasted no less."""

_PAUSE: Final = re.compile(r"[,;:.!?…—](?=\s|$)|[、。，！？]")
_IDEOGRAM: Final = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"([{_IDEOGRAM}]|[^\s{_IDEOGRAM}]*[^\W_{_IDEOGRAM}])(?:[^\w\s]|_)*")
"""A word with the punctuation behind it; the group is what of it is heard."""

_NEARLY: Final = 1e-6
"""Of a letter: what adding up floats may lose."""


@dataclass(slots=True)
class Span:
    """A phrase and the part of the reply's audio that speaks it, in milliseconds.

    ``spoken`` is the text as it was read aloud, empty where that is the text itself. ``marks`` are
    the ends of words in it, where the voice gave them, counted from the phrase's first sound.
    """

    text: str
    start_ms: float
    end_ms: float
    spoken: str = ""
    marks: list[Mark] = field(default_factory=list)

    @property
    def likely_end_ms(self) -> float:
        """Where its audio would have ended, if it may not be all there."""
        return max(self.end_ms, self.start_ms + MS_PER_CHARACTER * len(self.spoken or self.text))

    def sound(self, duration_ms: float, marks: Iterable[Mark] = ()) -> None:
        """It has so much more audio."""
        before_ms = self.end_ms - self.start_ms
        self.marks += [Mark(mark.offset, before_ms + mark.at_ms) for mark in marks]
        self.end_ms += duration_ms

    def heard_text(self, heard_ms: float, end_ms: float) -> str:
        """The whole words that were heard by then, if its audio ends at ``end_ms``."""
        if heard_ms >= end_ms:
            return self.text
        place = self._place(heard_ms, end_ms)
        if self.spoken:
            place = _along(_ties(self.spoken, self.text), place)
        return self.text[: _whole_words(self.text, place)]

    def heard_spoken(self, heard_ms: float, end_ms: float) -> int:
        """How much of what is read aloud the whole words are that were heard by then."""
        return _whole_words(self.spoken or self.text, self._place(heard_ms, end_ms))

    def until(self, heard_ms: float, end_ms: float) -> Span:
        """The part of it that was heard by then, if its audio ends at ``end_ms``."""
        known = self.heard_spoken(heard_ms, end_ms)
        return Span(
            self.heard_text(heard_ms, end_ms),
            self.start_ms,
            min(max(self.start_ms, heard_ms), self.end_ms),
            self.spoken[:known],
            [mark for mark in self.marks if mark.offset <= known],
        )

    def _place(self, heard_ms: float, end_ms: float) -> float:
        """How far into what is read aloud."""
        spoken = self.spoken or self.text
        duration_ms = end_ms - self.start_ms
        known = [(mark.at_ms, float(mark.offset)) for mark in self.marks]
        if known:
            points: Points = [(0.0, 0.0), *known, (duration_ms, float(len(spoken)))]
        else:
            points = _by_letters(spoken, duration_ms)
        return _along(points, heard_ms - self.start_ms)


def _whole_words(text: str, place: float) -> int:
    """Where the last word ends that lies before ``place``."""
    ends = [word.end() for word in _WORD.finditer(text) if word.end(1) <= place + _NEARLY]
    return ends[-1] if ends else 0


def _by_letters(spoken: str, duration_ms: float) -> Points:
    """(milliseconds, place) at both ends of each pause, if letters take the same time."""
    places = [0, *(end for pause in _PAUSE.finditer(spoken) for end in pause.span()), len(spoken)]
    letters = [0]
    for number, (place, following) in enumerate(pairwise(places)):
        letters.append(letters[-1] + (LETTERS_PER_PAUSE if number % 2 else following - place))
    each_ms = duration_ms / max(letters[-1], 1)
    return [(each_ms * count, place) for count, place in zip(letters, places, strict=True)]


@lru_cache(maxsize=256)
def _ties(spoken: str, written: str) -> Points:
    """(place in ``spoken``, place in ``written``): both ends of each word that stands in both, and
    of what stands for one another between such words.

    A word that stands more often in one of them ties nothing: the "and" of "five dollars and
    twenty cents" is not one that was written.
    """
    said, wrote = list(_words(spoken)), list(_words(written))
    uneven = Counter(word for word, *_ in said)
    uneven.subtract(word for word, *_ in wrote)
    kept = [None if uneven[word] else word for word, *_ in wrote]
    same = SequenceMatcher(None, [word for word, *_ in said], kept, autojunk=False)
    points = [(0.0, 0.0)]
    for kind, said_from, said_to, wrote_from, wrote_to in same.get_opcodes():
        if kind == "equal":
            for (_, *here), (_, *there) in zip(
                said[said_from:said_to], wrote[wrote_from:wrote_to], strict=True
            ):
                points += zip(here, there, strict=True)
        elif kind == "replace":
            points.append((said[said_from][1], wrote[wrote_from][1]))
            points.append((said[said_to - 1][2], wrote[wrote_to - 1][2]))
    return [*points, (float(len(spoken)), float(len(written)))]


def _words(text: str) -> Iterator[tuple[str, float, float]]:
    """Each word, as it is whatever stands around it, and where what is heard of it begins and
    ends."""
    for word in _WORD.finditer(text):
        letters = re.sub(r"[\W_]+", "", word[1]).casefold()
        yield letters, float(word.start()), float(word.end(1))


def _along(points: Points, x: float) -> float:
    """The value at ``x``, on straight lines between the points; the first or the last beyond."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x < x1:
            return y0 + (x - x0) / (x1 - x0) * (y1 - y0)
    return points[-1][1]
