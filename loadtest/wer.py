"""Word error rate, blind to how a recogniser happens to write a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

UP_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
ONES = UP_TO_NINETEEN.split()
BY_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
TENS = BY_TENS.split()
SCALES = ((1_000_000, "million"), (1000, "thousand"), (100, "hundred"))
READ_BY_DIGIT = 4  # digits in a row from which they are a telephone number, not a quantity
SPOKEN = {
    "mr": "mister",
    "mrs": "missus",
    "ms": "miss",
    "dr": "doctor",
    "st": "saint",
    "%": "percent",
    "&": "and",
    "metre": "meter",
    "metres": "meters",
}
TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?|[^\W\d_]+(?:'[^\W\d_]+)*|[%&]")


@dataclass(frozen=True, slots=True)
class Wer:
    """``errors`` (substitutions, insertions, deletions) against ``words`` of the reference;
    ``lost`` are the deletions among them."""

    errors: int
    words: int
    lost: int = 0

    @property
    def rate(self) -> float:
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: Wer) -> Wer:
        return Wer(self.errors + other.errors, self.words + other.words, self.lost + other.lost)


def wer(pairs: Iterable[tuple[str, str]]) -> Wer:
    """Over all (reference, hypothesis) pairs together, as the literature counts it."""
    total = Wer(0, 0)
    for reference, hypothesis in pairs:
        said, heard = spoken_words(reference), spoken_words(hypothesis)
        errors, lost = _distance(said, heard)
        total += Wer(errors, len(said), lost)
    return total


def spoken_words(text: str) -> list[str]:
    """The words as they are spoken: lower case, no punctuation, numbers and titles in words."""
    words: list[str] = []
    for token in TOKEN.findall(text.casefold().replace("’", "'")):
        words += _number(token) if token[0].isdigit() else [SPOKEN.get(token, token)]
    return words


def _number(token: str) -> list[str]:
    whole, _, fraction = token.partition(".")
    if fraction:
        return [*_number(whole), "point", *(ONES[int(digit)] for digit in fraction)]
    if len(whole) >= READ_BY_DIGIT and "," not in whole:
        return [ONES[int(digit)] for digit in whole]
    return _quantity(int(whole.replace(",", "")))


def _quantity(value: int) -> list[str]:
    if value < len(ONES):
        return [ONES[value]]
    for scale, name in SCALES:
        if value >= scale:
            rest = _quantity(value % scale) if value % scale else []
            return [*_quantity(value // scale), name, *rest]
    return [TENS[value // 10], *([ONES[value % 10]] if value % 10 else [])]


def _distance(said: list[str], heard: list[str]) -> tuple[int, int]:
    """Errors of the best alignment, and the deletions among them, as few as there may be."""
    row = [(j, 0) for j in range(len(heard) + 1)]
    for i, word in enumerate(said, 1):
        diagonal, row[0] = row[0], (i, i)
        for j, other in enumerate(heard, 1):
            above, left = row[j], row[j - 1]
            kept = (diagonal[0] + (word != other), diagonal[1])
            diagonal = above
            row[j] = min((above[0] + 1, above[1] + 1), (left[0] + 1, left[1]), kept)
    return row[-1]
