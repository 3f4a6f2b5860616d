"""Numbers in languages other than English, by num2words where it is installed and knows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

try:
    import num2words as _words
except ImportError:  # the extra "languages", which is LGPL, is not installed
    _words = None

_POINTED: Final = frozenset({"he", "ja", "ko", "th", "zh"})
"""Languages that put a point before the decimals; the others here put a comma."""

_COMMA_NUMBER: Final = r"[0-9]{1,3}(?:[.\u00a0\u202f ][0-9]{3})+(?![0-9])|[0-9]+"
_POINT_NUMBER: Final = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+"
_LETTER: Final = "A-Za-z\u00c0-\u024f_"
_ALONE: Final = (
    rf"(?<![{_LETTER}0-9.,:/+@#$€£%°-])(?<![0-9$€£] )(-?)({{number}})(?:{{point}}([0-9]+))?"
    rf"(?![{_LETTER}0-9:/@]|[.,-][{_LETTER}0-9]| [0-9$€£]|[$€£])"
)
_COMMA: Final = re.compile(_ALONE.format(number=_COMMA_NUMBER, point=","))
_POINT: Final = re.compile(_ALONE.format(number=_POINT_NUMBER, point=r"\."))
_MONEY: Final = re.compile(
    rf"(?<![\w.,$])(?:([€$£]) ?({_COMMA_NUMBER})[.,]([0-9]{{2}})"
    rf"|({_COMMA_NUMBER}),([0-9]{{2}})\s?([€$£]))(?![\w]|[.,][0-9])"
)
"""With cents: without them it is left to the voice, for num2words says that there are none."""

_CODES: Final = {"€": "EUR", "$": "USD", "£": "GBP"}
_MARKS: Final = re.compile(r"[_(){}\[\]`;]+")
_MOST_DIGITS: Final = 6
"""Longer ones without groups name something, and are left to the voice."""


def spoken(text: str, language: str) -> str:
    """``text`` with its sums of money and the numbers that stand alone in words. Dates, times and
    telephone numbers stay as they are written, for the voice to read."""
    convert = _converter(language)
    if convert is None or not any(mark.isdigit() for mark in text):
        return text
    number = _POINT if language in _POINTED else _COMMA
    text = _MONEY.sub(lambda found: _money(found, convert), text)
    return number.sub(lambda found: _number(found, convert), text)


def code(span: str) -> str:
    """Code within a sentence, without the marks that no voice reads."""
    return _MARKS.sub(" ", span)


@lru_cache(maxsize=64)
def _converter(language: str) -> Callable[..., str] | None:
    """What puts numbers into words, None where nothing does."""
    if _words is None or language not in _words.CONVERTER_CLASSES:
        return None

    def convert(number: Any, **wanted: str) -> str:
        return str(_words.num2words(number, lang=language, **wanted))

    return convert


def _number(found: re.Match[str], convert: Callable[..., str]) -> str:
    sign, whole, part = found.groups()
    plain = re.sub(r"[^0-9]", "", whole)
    if (plain == whole and len(plain) > _MOST_DIGITS) or (len(plain) > 1 and plain[0] == "0"):
        return found[0]
    try:
        if part:
            return convert(float(f"{sign}{plain}.{part}"))
        is_year = plain == whole and not sign and 1100 <= int(plain) < 2100
        return convert(int(sign + plain), **({"to": "year"} if is_year else {}))
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
        return found[0]  # this language has no word for it


def _money(found: re.Match[str], convert: Callable[..., str]) -> str:
    first, whole, cents, whole_first, cents_first, last = found.groups()
    plain = re.sub(r"[^0-9]", "", whole or whole_first)
    amount = float(f"{plain}.{cents or cents_first}")
    try:
        said = convert(amount, to="currency", currency=_CODES[first or last])
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
        return found[0]
    return said
