"""English numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.speaking.numbers import (
    cardinal,
    decimal,
    digits,
    fraction,
    ordinal,
    plural,
    year,
)

WORDS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
SCALES = ["thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]


def value(words: str) -> int:
    """What a listener understands."""
    total = group = 0
    for word in words.replace("-", " ").split():
        if word == "hundred":
            group *= 100
        elif word in SCALES:
            total += group * 1000 ** (SCALES.index(word) + 1)
            group = 0
        else:
            group += WORDS[word]
    return total + group


@given(st.integers(0, 10**21 - 1) | st.integers(0, 10_000))
def test_a_listener_understands_the_number(number: int) -> None:
    assert value(cardinal(number)) == number


def test_numbers_beyond_words_are_said_by_their_digits() -> None:
    assert cardinal(10**36) == " ".join(["one", *["zero"] * 36])
    assert cardinal(10**33) == "one decillion"
    assert cardinal(-21) == "minus twenty-one"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "first"),
        (3, "third"),
        (12, "twelfth"),
        (20, "twentieth"),
        (21, "twenty-first"),
        (100, "one hundredth"),
        (1_009, "one thousand ninth"),
    ],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1066, "ten sixty-six"),
        (1900, "nineteen hundred"),
        (1905, "nineteen oh five"),
        (1999, "nineteen ninety-nine"),
        (2000, "two thousand"),
        (2009, "two thousand nine"),
        (2026, "twenty twenty-six"),
        (476, "four hundred seventy-six"),
    ],
)
def test_years(number: int, words: str) -> None:
    assert year(number) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3.05", "three point zero five"),
        ("-1,234.5", "minus one thousand two hundred thirty-four point five"),
        ("−2", "minus two"),
        ("007", "zero zero seven"),
        (".5", "zero point five"),
    ],
)
def test_decimals(text: str, words: str) -> None:
    assert decimal(text) == words


@pytest.mark.parametrize(
    ("over", "under", "words"),
    [
        (1, 2, "one half"),
        (3, 2, "three halves"),
        (1, 4, "one quarter"),
        (3, 4, "three quarters"),
        (1, 3, "one third"),
        (5, 100, "five one hundredths"),
        (3, 1, "three over one"),
        (2, 37, "two over thirty-seven"),
    ],
)
def test_fractions(over: int, under: int, words: str) -> None:
    assert fraction(over, under) == words


def test_digits_and_plurals() -> None:
    assert digits("4-2") == "four two"
    assert [plural(word) for word in ("ninety", "six", "ten")] == ["nineties", "sixes", "tens"]
