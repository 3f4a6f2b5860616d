"""Documents cut into passages: pieces that are short enough to be told in a call, and long enough
to be understood alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pipelines.memory.parts import Part

VERSION: Final = 1
"""Of how documents are cut: what was cut otherwise is cut anew."""

MOST_WORDS: Final = 60
"""Three of these are some 250 tokens, which a model has to read before it answers."""

_MOST_CHARACTERS: Final = 800
"""For what has no words."""

_MOST_HEADING: Final = 200
"""Characters: all passages below it begin with it."""

_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])\w)+")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class Passage:
    """``text`` as it is embedded and told, its heading included, and its ``place``."""

    text: str
    place: str


def passages(parts: Iterable[Part]) -> Iterator[Passage]:
    """Parts of one heading joined as long as they are short, and cut where they are not."""
    for whole, under in groupby(parts, key=lambda part: part.heading):
        heading = whole[:_MOST_HEADING].rstrip()
        for text, place in _joined(under):
            where = f"{heading}, {place}" if heading else place
            yield Passage(f"{heading}\n{text}" if heading else text, where)


def words(text: str) -> int:
    """How many there are; each character of a script that has no spaces."""
    return len(_WORD.findall(text))


def _joined(parts: Iterable[Part]) -> Iterator[tuple[str, str]]:
    """Texts with the place where each begins."""
    gathered = place = ""
    for part in parts:
        for piece in _pieces(part.text):
            both = f"{gathered}\n{piece}" if gathered else piece
            if gathered and (part.whole or not _fits(both)):
                yield gathered, place
                gathered, both = "", piece
            if not gathered:
                place = part.place
            gathered = both
    if gathered:
        yield gathered, place


def _pieces(text: str) -> Iterator[str]:
    """None longer than a passage, cut between sentences where there are any."""
    if _fits(text):
        yield text
        return
    gathered = ""
    for sentence in _SENTENCE.split(text):
        for piece in [sentence] if _fits(sentence) else _cut(sentence):
            both = f"{gathered} {piece}".strip()
            if gathered and not _fits(both):
                yield gathered
                both = piece
            gathered = both
    if gathered:
        yield gathered


def _cut(sentence: str) -> Iterator[str]:
    """A sentence that does not end, by its words or else by its length."""
    start, count = 0, 0
    for word in _WORD.finditer(sentence):
        count += 1
        if count > MOST_WORDS or word.end() - start > _MOST_CHARACTERS:
            if word.start() > start:
                yield from _lengths(sentence[start : word.start()])
            start, count = word.start(), 1
    yield from _lengths(sentence[start:])


def _lengths(text: str) -> Iterator[str]:
    for at in range(0, len(text), _MOST_CHARACTERS):
        if piece := text[at : at + _MOST_CHARACTERS].strip():
            yield piece


def _fits(text: str) -> bool:
    return len(text) <= _MOST_CHARACTERS and words(text) <= MOST_WORDS
