"""Text for Orpheus: what may be said to it, and in pieces of how many seconds.

Its quality decays from some fifteen seconds on, so no piece is longer than it can hold. A piece
is a sentence where that fits, else a clause, else some words, else some letters. A tag such as
``<laugh>`` is never cut, and stays with the words before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final

VOICES: Final = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
FOREIGN_VOICES: Final = frozenset(
    [
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
        *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
    ]
)
"""OpenAI's, which its clients ask for unless they are told otherwise."""

TAGS: Final = ("laugh", "chuckle", "sigh", "cough", "sniffle", "groan", "yawn", "gasp")

_CHARACTERS_PER_S: Final = 13.0
"""English speech has 12 to 20; a slow reckoning keeps a piece short."""

_TAG_S: Final = 1.0
_SHORT_S: Final = 1.0
"""A sentence of one word by itself comes out unsteady: it goes along with the next one."""

_TAG: Final = re.compile(r"<[a-z]+>")
_MARKUP: Final = re.compile(r"<[^<>\s][^<>]{0,63}>")
_UNSPEAKABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UNIT: Final = re.compile(r"<[a-z]+>|.", re.DOTALL)

# A cut is made behind the blank, but never before a tag, which belongs to what precedes it.
_CLOSING: Final = r"[\"'”’)\]]*(?:\s*<[a-z]+>)*\s+(?!<)"
_SENTENCE_END: Final = re.compile(rf"[.!?…]{_CLOSING}|[。！？]")
_CLAUSE_END: Final = re.compile(rf"[,;:—–]{_CLOSING}|[、，；：]")
_WORD_END: Final = re.compile(r"\s+(?!<)")


def seconds_of(text: str) -> float:
    """How long ``text`` will take to say, by its characters: an estimate."""
    tags = _TAG.findall(text)
    letters = sum(map(_weight, _TAG.sub("", text)))
    return letters / _CHARACTERS_PER_S + _TAG_S * len(tags)


def speakable(text: str, tags: Collection[str]) -> str:
    """``text`` on one line, with no markup but these ``tags``.

    What else stands between angle brackets goes: to the tokenizer it may be a control token, and
    then whoever writes the text would write the prompt. Control characters go too, and halves of
    characters, at which the tokenizer fails.
    """
    text = _UNSPEAKABLE.sub(" ", text)
    kept = _MARKUP.sub(lambda found: found[0] if found[0][1:-1] in tags else " ", text)
    return " ".join(kept.split())


def pieces(text: str, most_s: float = 12.0) -> list[str]:
    """``text`` in pieces of at most ``most_s`` by estimate; none where nothing is to be said."""
    fitting = [piece for unit in _cut(text, _SENTENCE_END) for piece in _fitted(unit, most_s)]
    return [piece.strip() for piece in _joined(fitting, most_s) if _has_words(piece)]


def _weight(character: str) -> float:
    if character.isdigit():
        return 4.0  # it is spoken as a word
    return 2.5 if character >= "\u2e80" else 1.0  # an ideograph or kana is a syllable


def _has_words(text: str) -> bool:
    return _TAG.search(text) is not None or any(map(str.isalnum, text))


def _cut(text: str, end: re.Pattern[str]) -> list[str]:
    """``text`` after each ``end``; joined, the parts are the text again."""
    cuts = [0, *(found.end() for found in end.finditer(text)), len(text)]
    return [text[start:stop] for start, stop in pairwise(cuts) if start < stop]


def _fitted(unit: str, most_s: float) -> Iterator[str]:
    """One sentence, in parts as large as fit."""
    if seconds_of(unit) <= most_s:
        yield unit
        return
    for end in (_CLAUSE_END, _WORD_END):
        parts = _cut(unit, end)
        if len(parts) > 1:
            yield from _packed((p for part in parts for p in _fitted(part, most_s)), most_s)
            return
    yield from _packed(_UNIT.findall(unit), most_s)


def _packed(parts: Iterable[str], most_s: float) -> Iterator[str]:
    """Neighbours together, as many as fit."""
    gathered, length = "", 0.0
    for part in parts:
        adds = seconds_of(part)
        if gathered and length + adds > most_s:
            yield gathered
            gathered, length = "", 0.0
        gathered += part
        length += adds
    if gathered:
        yield gathered


def _joined(sentences: Iterable[str], most_s: float) -> Iterator[str]:
    """Short sentences with the one that follows, and what has no words with the one before."""
    waiting = ""
    for sentence in sentences:
        short = seconds_of(waiting) < _SHORT_S or not _has_words(sentence)
        if waiting and (not short or seconds_of(waiting + sentence) > most_s):
            yield waiting
            waiting = ""
        waiting += sentence
    if waiting:
        yield waiting
