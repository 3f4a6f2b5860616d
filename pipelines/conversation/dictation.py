"""Numbers, dates and addresses that are dictated: whether one is asked for, and is it whole."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipelines.conversation.number_words import (
    CHECKS,
    KINDS,
    NUMBER_WORDS,
    REQUEST,
    SEVENTIES,
    Kind,
    NumberWords,
)

SHORT: Final = -1.0
PERHAPS_SHORT: Final = -0.4
THOUSAND: Final = 3

# How far a number of so many digits sounds whole; fewer than the fewest is short, and a length
# between two is a group of the next.
_LENGTHS: Final[Mapping[Kind | None, Mapping[int, float]]] = {
    "phone": {7: -0.3, 8: -0.3, 9: -0.2, 10: 0.6, 11: 0.8, 12: 0.8, 13: 0.8},
    "card": {14: -0.3, 15: 0.5, 16: 0.9, 19: 0.9},
    "pin": {3: -0.3, 4: 0.8, 5: -0.3, 6: 0.8},
    "date": {4: -0.5, 5: -0.2, 6: 0.5, 7: 0.6, 8: 0.9},
    "postcode": {4: 0.2, 5: 0.8, 9: 0.8},
    "code": {4: -0.4, 5: -0.2, 6: 0.2, 7: 0.2, 8: 0.4, 9: 0.4, 10: 0.5, 11: 0.5, 12: 0.5},
    None: {4: -0.4, 5: -0.3, 6: -0.3, 7: -0.3, 8: -0.3, 9: -0.3, 10: 0.6, 11: 0.7, 16: 0.9},
}
_LONGER: Final = 0.5

_TOKEN: Final = re.compile(r"\d+(?:st|nd|rd|th)?|[^\W\d_]+(?:'[^\W\d_]+)*'?")
_DIGITS: Final = re.compile(r"(\d+)(?:st|nd|rd|th)?")
_ADDRESS: Final = re.compile(
    r"[\w.+-]+@[\w-]+\.\w{2,}|\b(?:dot|punkt|point|punto|ponto|punt|\.) ?"
    r"(?:com|org|net|de|fr|es|it|pt|nl|uk|eu|io)\W*$"
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_EXACT: Final = re.compile(r"(\w+)[- ]digit|last (\w+)\b")
_EXACTLY: Final = {
    "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
}  # fmt: skip


def expects_digits(reply_text: str, language: str | None) -> bool:
    """Whether the agent's last request is for something to be dictated: a number, a date, a
    postcode, the spelling of a name or an address."""
    return _asked_kind(_plain(reply_text), (language or "").lower().partition("-")[0]) is not None


def dictated(text: str, code: str, asked: str = "") -> float | None:
    """How far the number at the end of ``text`` is whole, from -1 to 1; None where there is none.

    ``code`` is the language without its region, ``asked`` what the agent has said last. Digits
    are counted in any language, number words in those of ``NUMBER_WORDS``.
    """
    text, asked = _plain(text), _plain(asked)
    kind = _asked_kind(asked, code)
    if _ADDRESS.search(text):
        return 0.9
    if kind == "email":
        return PERHAPS_SHORT
    run = _last_run(text, NUMBER_WORDS.get(code, NUMBER_WORDS["en"]))
    if run is None or kind == "spelling":
        return None
    if run.open:
        return SHORT
    if run.dated:
        return _whole(run.digits, "date")
    exact = _exact_length(asked) if code == "en" else None
    if exact is not None:
        return SHORT if run.digits < exact else 0.9
    return _whole(run.digits, kind)


@dataclass(slots=True)
class _Run:
    """The digits said in a row. ``open`` where its last word announces more; ``room`` is how many
    digits of the next word belong to the last one ("forty two" has two, not three)."""

    digits: int = 0
    dated: bool = False
    open: bool = False
    room: int = 0
    repeat: int = 1

    def add(self, digits: int, room: int = 0) -> None:
        """A word that stands for so many digits."""
        self.digits += self.repeat * digits if digits > self.room else 0
        self.room, self.repeat, self.open = room, 1, False


def _last_run(text: str, numbers: NumberWords) -> _Run | None:
    """The run of digits that the text ends with; None if it does not end with one."""
    run = _Run()
    for word in _TOKEN.findall(text):
        if word in numbers.months:
            run.add(2)
            run.dated = True
        elif word in numbers.repeats:
            run.repeat, run.open = numbers.repeats[word], True
        elif word in numbers.zeros and run.digits:
            zeros = numbers.zeros[word]
            run.add(zeros, room=zeros if zeros == THOUSAND else 0)  # "two thousand five", a year
        elif digits := _digits_of(word, numbers):
            run.add(digits, _room_after(word, numbers))
        elif word in numbers.between and run.digits:
            run.open = True
            run.room = run.room if len(word) == 1 else 0  # "treinta y dos"
        else:
            run = _Run()
    return run if run.digits or run.open else None


def _room_after(word: str, numbers: NumberWords) -> int:
    if word in SEVENTIES:
        return 2
    return 1 if numbers.tens.fullmatch(word) else 0


def _digits_of(word: str, numbers: NumberWords) -> int:
    """How many digits a word stands for; 0 where it is no number."""
    if match := _DIGITS.fullmatch(word):
        return len(match[1])
    if word in numbers.ones:
        return 1
    return 2 if numbers.tens.fullmatch(word) or numbers.twos.fullmatch(word) else 0


def _whole(digits: int, kind: Kind | None) -> float:
    lengths = _LENGTHS.get(kind, _LENGTHS[None])
    if digits in lengths:
        return lengths[digits]
    if digits > max(lengths):
        return _LONGER
    return SHORT if digits < min(lengths) else PERHAPS_SHORT


def _asked_kind(asked: str, code: str) -> Kind | None:
    """What the last sentence that asks for something to be dictated asks for."""
    kinds = KINDS.get(code)
    if kinds is None:
        return None
    for sentence in reversed(_SENTENCE.split(asked)):
        kind = next((kind for kind, named in kinds.items() if named.search(sentence)), None)
        if sentence.endswith("?"):
            return None if CHECKS[code].search(sentence) else kind
        if kind is not None and REQUEST[code].search(sentence):
            return kind
    return None


def _exact_length(asked: str) -> int | None:
    """The length that an English question names: "your four-digit code"."""
    for match in _EXACT.finditer(asked):
        named = match[1] or match[2]
        if named.isdigit() or named in _EXACTLY:
            return _EXACTLY.get(named) or int(named)
    return None


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).replace("’", "'").lower().strip()
    return text.replace("quatre-vingt", "quatrevingt")
