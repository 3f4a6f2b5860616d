"""English amounts: money, measures, percentages, fractions, ranges, and numbers by themselves."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pipelines.speaking.addresses import grouped
from pipelines.speaking.measures import CURRENCIES, SYMBOLS, UNITS, Currency
from pipelines.speaking.numbers import cardinal, decimal, digits, fraction, ordinal, year
from pipelines.speaking.rules import applied, rule

NUMBER: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<![\w.])\.[0-9]+"
_NUM: Final = rf"({NUMBER})"
_SIGN: Final = r"((?<![\w)%°.,])[-−])?"
_TO: Final = r"\s?[–-]\s?"
_SCALES: Final = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "bn": "billion",
    "B": "billion",
    "b": "billion",
    "T": "trillion",
    "tn": "trillion",
}
_SCALE: Final = r"(?:\s?(thousand|million|billion|trillion|mn|bn|tn|[kKmMbBT])\b)?"

_SYMBOL: Final = "|".join(sorted(map(re.escape, SYMBOLS), key=len, reverse=True))
_CODES: Final = "|".join(CURRENCIES)
_CURRENCY_FIRST: Final = re.compile(
    rf"(?:((?<![\w)])[-−])\s?)?(?<![A-Za-z])({_SYMBOL}|(?:{_CODES}) ?(?=[0-9]))\s?{_SIGN}{_NUM}"
    rf"(?:{_TO}(?:{_SYMBOL})?{_NUM})?{_SCALE}(?=([ -](?:bills?|notes?|gift|vouchers?|coins?)\b)?)"
)
_CURRENCY_LAST: Final = re.compile(
    rf"(?<![\w.,]){_SIGN}(?:{_NUM}{_TO})?([0-9]+,[0-9]{{2}}(?![0-9])|{NUMBER}){_SCALE}\s?"
    rf"({_SYMBOL}|(?:{_CODES})(?!\w))"
)

_UNIT: Final = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_MEASURE: Final = re.compile(
    rf"(?<![\w.]){_SIGN}(?:{_NUM}{_TO})?{_NUM}(\s?|-)(?:({_UNIT})(?![\w²³°]))(\.(?= [a-z0-9]))?"
)
_FEET: Final = re.compile(
    r"(?<![\w.])([0-9]+)\s?(?:ft|feet|foot|['’′])\s?([0-9]+)\s?(?:in\b\.?|inch(?:es)?|[\"”″]|'')"
)
_PER: Final = re.compile(
    r"(?<=[\w%°])\s?/\s?(month|mo|year|yr|day|week|wk|hour|hr|night|person|user|minute|min|second"
    r"|sec|kg|lb|unit|item|piece|square|km|mi|mile|call|seat)\b"
)
_PER_IN_FULL: Final = {
    "mo": "month",
    "yr": "year",
    "wk": "week",
    "hr": "hour",
    "min": "minute",
    "sec": "second",
    "kg": "kilogram",
    "lb": "pound",
    "km": "kilometer",
    "mi": "mile",
}

_PERCENT: Final = re.compile(rf"{_SIGN}(?:{_NUM}{_TO})?{_NUM}\s?(%|‰)")
_ORDINAL: Final = re.compile(r"(?<![\w.,])([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:st|nd|rd|th)\b", re.I)
_PART: Final = re.compile(
    r"(?<![\w/.,])(?:([0-9]+)[ -])?([0-9]{1,3})/([0-9]{1,4})(?![\w/]|[.,][0-9])"
)
_SAID_SO: Final = {"24/7": "twenty-four seven", "50/50": "fifty fifty", "9/11": "nine eleven"}
_SCORE: Final = re.compile(r"(?<![\w/.,])([0-9]+(?:\.[0-9]+)?)/(5|10|100)(?![\w/]|[.,][0-9])")
_LINES: Final = re.compile(r"(?<![\w.,])([0-9]{1,2})([0-9]{2})p\b")
_SMALL_PART: Final = re.compile(r"(?:([0-9]+)\s?)?([¼-¾⅐-⅞])")
_TIMES: Final = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)[x×](?!\w)")
_BY: Final = re.compile(r"(?<=[0-9])[x×](?=[0-9])")
_SCALED: Final = re.compile(rf"(?<![\w.,]){_NUM}(k|mn|bn|tn|M|B)\b")
_RATIO: Final = re.compile(r"(?<![\w:.])([0-9]{1,3}):([0-9]{1,3})(?![\w:]|\.[0-9])")
_VERSION: Final = re.compile(r"(?<![\w.])(v\.?\s?)?([0-9]+(?:\.[0-9]+)+)(?![\w]|\.[0-9])", re.I)
_VERSIONED: Final = re.compile(
    r"(?:version|release|python|ios|i\.O\.S|mac O\.S|android|ubuntu|debian|java|php|node|ruby|rust"
    r"|go|kernel|firmware|cuda|http|tls|bluetooth|usb)\s$",
    re.IGNORECASE,
)
_V: Final = re.compile(r"\b[vV]\.?(?=[0-9]+\b)")
_RANGE: Final = re.compile(rf"(?<![\w.,–-]){_NUM}(?:\s?–\s?|-){_NUM}(?![\w–-])")
_YEAR: Final = re.compile(r"(?<![\w.,$–-])(1[0-9]{3}|20[0-9]{2})(?![\w,]*[0-9]|[\w%°]|\.[0-9])")
_YEAR_BEFORE: Final = re.compile(
    r"(?:\b(?:in|since|from|to|until|till|by|of|year|before|after|around|circa|c\.|and|between)|[(©,])"
    r"\s?$",
    re.IGNORECASE,
)
_PLAIN: Final = re.compile(rf"{_SIGN}{_NUM}")
_LETTER_NUMBER: Final = re.compile(r"(?<=[^\W\d_])[-–]?(?=[0-9])|(?<=[0-9])(?=[^\W\d_])")
_CODE: Final = re.compile(
    r"(?<![\w.-])(?:(?=[A-Z]*[0-9]+[A-Z]+[0-9]|[0-9]*[A-Z]+[0-9]+[A-Z])[A-Z0-9]{4,}"
    r"|[A-Z]{1,3}[0-9]{4,})\b"
)


def spoken(text: str) -> str:
    """``text`` with every number in it in words."""
    return applied(_RULES, text)


def _signed(sign: str | None, words: str) -> str:
    return f"minus {words}" if sign else words


def _span(first: str | None, last: str) -> str:
    return f"{decimal(first)} to {decimal(last)}" if first else decimal(last)


def _money_first(found: re.Match[str]) -> str:
    sign, symbol, inner_sign, first, last, scale, attribute = found.groups()
    currency = SYMBOLS.get(symbol.strip()) or CURRENCIES[symbol.strip()]
    low, amount = (first, last) if last else (None, first)
    return _signed(sign or inner_sign, _money(currency, low, amount, scale, bool(attribute)))


def _money_last(found: re.Match[str]) -> str:
    sign, first, amount, scale, symbol = found.groups()
    if re.fullmatch(r"[0-9]+,[0-9]{2}", amount):
        amount = amount.replace(",", ".")
    currency = SYMBOLS.get(symbol) or CURRENCIES[symbol]
    return _signed(sign, _money(currency, first, amount, scale, False))


def _money(
    currency: Currency, low: str | None, amount: str, scale: str | None, attribute: bool
) -> str:
    if scale:
        return f"{_span(low, amount)} {_SCALES.get(scale, scale)} {currency.several}"
    whole, _, part = amount.replace(",", "").partition(".")
    if low or len(part) > 2 or (part and not currency.part):
        return f"{_span(low, amount)} {currency.several}"
    cents = int(part.ljust(2, "0")) if part else 0
    units = int(whole or "0")
    words = [f"{cardinal(units)} {currency.one if units == 1 or attribute else currency.several}"]
    if cents:
        small = currency.part if cents == 1 else currency.parts
        words = [*(words if units else []), f"{cardinal(cents)} {small}"]
    return " and ".join(words)


def _measure(found: re.Match[str]) -> str:
    sign, first, number, gap, unit, _ = found.groups()
    one, several = UNITS[unit]
    words = _signed(sign, _span(first, number))
    if gap == "-":
        return f"{words} {one}"
    return f"{words} {one if number == '1' and not first else several}"


def _feet(found: re.Match[str]) -> str:
    feet, inches = int(found[1]), int(found[2])
    return (
        f"{cardinal(feet)} {'foot' if feet == 1 else 'feet'} "
        f"{cardinal(inches)} {'inch' if inches == 1 else 'inches'}"
    )


def _percent(found: re.Match[str]) -> str:
    unit = "percent" if found[4] == "%" else "per mille"
    return f"{_signed(found[1], _span(found[2], found[3]))} {unit}"


def _score(found: re.Match[str]) -> str:
    """So many of five, ten or a hundred, unless it is a part of something."""
    got, most = found[1], int(found[2])
    if "." in got or int(got) == most or (most >= 10 and 1 < int(got) < most):
        return f"{decimal(got)} out of {cardinal(most)}"
    return found[0]


def _plain_pair(found: re.Match[str]) -> str:
    return f"{cardinal(int(found[1]))} {cardinal(int(found[2]))}"


def _part(found: re.Match[str]) -> str:
    whole, over, under = found[1], int(found[2]), int(found[3])
    if found[0] in _SAID_SO:
        return _SAID_SO[found[0]]
    if not under or (whole and over >= under):
        return f"{whole + ' ' if whole else ''}{cardinal(over)} over {cardinal(under)}"
    if whole:
        words = fraction(over, under)
        return (
            f"{cardinal(int(whole))} and {words.replace('one ', 'a ', 1) if over == 1 else words}"
        )
    return fraction(over, under)


def _small_part(found: re.Match[str]) -> str:
    written = unicodedata.normalize("NFKC", found[2]).replace("⁄", "/")
    return f"{found[1]} {written}" if found[1] else written


def _version(found: re.Match[str]) -> str:
    parts = found[2].split(".")
    named = found[1] or _VERSIONED.search(found.string, 0, found.start())
    if len(parts) < 3 and not named:
        return found[0]
    number = " point ".join(
        digits(part) if part[0] == "0" else cardinal(int(part)) for part in parts
    )
    return f"version {number}" if found[1] else number


def _code(found: re.Match[str]) -> str:
    """A code of letters and digits, one by one."""
    return " ".join(digits(mark) if mark.isdigit() else mark for mark in found[0])


def _range(found: re.Match[str]) -> str:
    first, last = found[1], found[2]
    if len(first) == 4 and re.fullmatch(r"(?:1[0-9]|20)[0-9]{2}", first) and last.isdigit():
        if len(last) == 4:
            return f"{year(int(first))} to {year(int(last))}"
        if len(last) == 2:
            return f"{year(int(first))} to {cardinal(int(last))}"
    return f"{_single(first)} to {_single(last)}"


def _year(found: re.Match[str]) -> str:
    number = int(found[1])
    told = _YEAR_BEFORE.search(found.string[max(0, found.start() - 10) : found.start()])
    return year(number) if number >= 1900 or told else found[1]


def _plain(found: re.Match[str]) -> str:
    return _signed(found[1], _single(found[2]))


def _single(number: str) -> str:
    """A number by itself: a long one that is not round names something, and counts nothing."""
    if len(number) >= 7 and number.isdigit() and not number.endswith("000"):
        return grouped(number)
    return decimal(number)


_MARKS: Final = "".join({symbol[-1] for symbol in SYMBOLS})
_RULES: Final = (
    rule("[¼-¾⅐-⅞]", _SMALL_PART, _small_part),
    rule(f"[{_MARKS}]|[A-Z]{{3}} ?[0-9]", _CURRENCY_FIRST, _money_first),
    rule(f"[{_MARKS}]|[A-Z]{{3}}", _CURRENCY_LAST, _money_last),
    rule(r"[0-9]\s?(?:f|['’′])", _FEET, _feet),
    rule(r"[0-9][\s-]?[^\W\d]|[0-9]\s?[°º℃℉]", _MEASURE, _measure),
    rule("/", _PER, lambda found: f" per {_PER_IN_FULL.get(found[1], found[1])}"),
    rule("[%‰]", _PERCENT, _percent),
    rule("[0-9][SsNnRrTt]", _ORDINAL, lambda found: ordinal(int(found[1].replace(",", "")))),
    rule("[0-9]/[0-9]", _SCORE, _score),
    rule("[0-9]/[0-9]", _PART, _part),
    rule("[0-9]p", _LINES, lambda found: f"{_plain_pair(found)} p"),
    rule("[0-9][x×]", _TIMES, lambda found: f"{decimal(found[1])} times"),
    rule("[0-9][x×]", _BY, " by "),
    rule("[0-9][kmbtMB]", _SCALED, lambda found: f"{decimal(found[1])} {_SCALES[found[2]]}"),
    rule("[0-9]:[0-9]", _RATIO, lambda found: f"{decimal(found[1])} to {decimal(found[2])}"),
    rule(r"[0-9]\.[0-9]", _VERSION, _version),
    rule(r"[vV]\.?[0-9]", _V, "version "),
    rule("[0-9][A-Z]|[A-Z][0-9]", _CODE, _code),
    rule(r"[^\W\d_][-–]?[0-9]|[0-9][^\W\d_]", _LETTER_NUMBER, " "),
    rule(r"[0-9]\s?[–-]", _RANGE, _range),
    rule("[12][0-9]{3}", _YEAR, _year),
    rule("[0-9]", _PLAIN, _plain),
)
