"""Abbreviations in full, and Roman numerals."""

import pytest

from pipelines.speaking.normalise import speakable

ABBREVIATIONS = [
    ("Ask Dr. Jones on Elm Dr. today.", "Ask Doctor Jones on Elm Drive today."),
    ("The gov. of it, est. 1999.", "The gov. of it, estimated nineteen ninety-nine."),
    ("Henry IIX and Louis IC", "Henry I.I.X and Louis I.C"),
    ("w/ milk, w/o sugar, b/c", "with milk, without sugar, because"),
    (
        "Cats vs. dogs, e.g. mine, i.e. both, etc.",
        "Cats versus dogs, for example mine, that is both, et cetera.",
    ),
    ("Apples, pears, etc. are fruit.", "Apples, pears, et cetera are fruit."),
    ("Mr. and Mrs. Smith, Dr. Who, Prof. X", "Mister and Missus Smith, Doctor Who, Professor X"),
    ("On 5th Ave. near Main St. by St. Paul", "On fifth Avenue near Main Street by Saint Paul"),
    ("Acme Inc. and Co. Ltd.", "Acme Incorporated and Company Limited."),
    ("J. R. R. Tolkien and George W. Bush", "J R R Tolkien and George W Bush"),
    ("Vitamin C. It helps.", "Vitamin C. It helps."),
    (
        "Henry VIII, Louis XIV and Elizabeth II",
        "Henry the Eighth, Louis the Fourteenth and Elizabeth the Second",
    ),
    ("Elizabeth I, Queen of England", "Elizabeth the First, Queen of England"),
    ("Chapter IV, Act II, World War II", "Chapter four, Act two, World War two"),
    ("Rocky III, but I am an IV drip", "Rocky three, but I am an I.V drip"),
]


@pytest.mark.parametrize(("text", "spoken"), ABBREVIATIONS)
def test_abbreviations_are_said_in_full(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
