"""Numbers in other languages."""

import importlib
import sys

import pytest

from pipelines.speaking import foreign
from pipelines.speaking.normalise import speakable

NUMBERS = [
    (
        "de",
        "Es sind 42 Tage und 3.000 Leute.",
        "Es sind zweiundvierzig Tage und dreitausend Leute.",
    ),
    (
        "de",
        "Seit 1999, -3,5 Grad",
        "Seit neunzehnhundertneunundneunzig, minus drei Komma fünf Grad",
    ),
    ("de", "Das macht 5,20 €.", "Das macht fünf Euro und zwanzig Cent."),
    ("fr", "J'ai 12 500 amis.", "J'ai douze mille cinq cents amis."),
    ("es-MX", "Son 16 libros.", "Son dieciséis libros."),
    ("ja", "3個と12.5", "三個と十二点五"),
]
AS_WRITTEN = [
    ("de", "Um 15:30 am 30.11.2026, Tel. 030 1234567, 0049 123"),
    ("de", "Version 2.1.3, A4, 5-6, 12/3, 123456789, a1, 007"),
    ("es", "Son $5 y 7 €."),
    ("xx", "5 apples"),
]


@pytest.mark.parametrize(("language", "text", "spoken"), NUMBERS)
def test_numbers_that_stand_alone_are_put_into_words(language: str, text: str, spoken: str) -> None:
    pytest.importorskip("num2words")
    assert speakable(text, language) == spoken
    assert speakable(spoken, language) == spoken


@pytest.mark.parametrize(("language", "text"), AS_WRITTEN)
def test_what_needs_more_than_words_for_numbers_is_left_to_the_voice(
    language: str, text: str
) -> None:
    assert speakable(text, language) == text


def test_without_num2words_numbers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "num2words", None)
    importlib.reload(foreign)
    try:
        assert speakable("**Es sind** 42 Tage, 5,20 €.", "de") == "Es sind 42 Tage, 5,20 €."
    finally:
        monkeypatch.undo()
        importlib.reload(foreign)


@pytest.mark.parametrize("text", ["42", "5,20 €"])
def test_what_num2words_cannot_say_stays(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def refuse(*args: object, **wanted: str) -> str:
        raise NotImplementedError

    monkeypatch.setattr(foreign, "_converter", lambda language: refuse)
    assert foreign.spoken(text, "de") == text


def test_code_keeps_its_words() -> None:
    assert speakable("Nimm `foo_bar()` bitte", "de") == "Nimm foo bar bitte"
