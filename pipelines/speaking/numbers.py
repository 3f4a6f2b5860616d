"""English numbers in words, as an American says them."""

from __future__ import annotations

import re
from typing import Final

_ONES: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS: Final = (
    *("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
)
_SCALES: Final = (
    *("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion"),
    *("sextillion", "septillion", "octillion", "nonillion", "decillion"),
)
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_LAST_WORD: Final = re.compile(r"[a-z]+$")
_MOST_DIGITS: Final = 3 * len(_SCALES)


def cardinal(number: int) -> str:
    """Any whole number; one beyond the decillions by its digits."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < 1000:
        return _below_thousand(number)
    if number >= 10**_MOST_DIGITS:
        return digits(str(number))
    parts, scale = [], 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            parts.append(f"{_below_thousand(group)} {_SCALES[scale]}".strip())
        scale += 1
    return " ".join(reversed(parts))


def ordinal(number: int) -> str:
    """Its place in a row: 22 is "twenty-second"."""
    words = cardinal(number)
    last = _LAST_WORD.search(words)
    assert last is not None
    return words[: last.start()] + _nth(last[0])


def plural(words: str) -> str:
    """Several of them: the "sixes" of a dice, the "nineties"."""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def digits(text: str) -> str:
    """Each digit by itself; what is no digit is left out."""
    return " ".join(_ONES[int(mark)] for mark in text if mark in "0123456789")


def decimal(text: str) -> str:
    """A number as written, with or without sign, thousands and a fraction: "-1,234.05"."""
    sign = "minus " if text[0] in "-−" else ""
    whole, point, fraction = text.lstrip("+-−").replace(",", "").partition(".")
    words = digits(whole) if len(whole) > 1 and whole[0] == "0" else cardinal(int(whole or "0"))
    return f"{sign}{words}" + (f" point {digits(fraction)}" if point else "")


def year(number: int) -> str:
    """As years are said: "nineteen oh five", "two thousand one", "twenty twenty-six"."""
    century, rest = divmod(number, 100)
    if not 10 <= century <= 99 or (century % 10 == 0 and rest < 10):
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def fraction(over: int, under: int) -> str:
    """A half, two thirds, five over a thousand."""
    if under == 2:
        return f"{cardinal(over)} {'half' if over == 1 else 'halves'}"
    if under == 4:
        return f"{cardinal(over)} {'quarter' if over == 1 else 'quarters'}"
    if 2 < under <= 20 or under in {32, 50, 64, 100, 1000}:
        return f"{cardinal(over)} {ordinal(under)}{'' if over == 1 else 's'}"
    return f"{cardinal(over)} over {cardinal(under)}"


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    parts = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest or not hundreds:
        tens, ones = divmod(rest, 10)
        parts.append(
            _ONES[rest] if rest < 20 else _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
        )
    return " ".join(parts)


def _nth(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"
