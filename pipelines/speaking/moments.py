"""English dates and times of day."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from pipelines.speaking.abbreviations import ends_here
from pipelines.speaking.numbers import cardinal, ordinal, plural, year
from pipelines.speaking.rules import Rule, applied, rule

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thur": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
_MONTH: Final = (
    "(January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)"
)
_DOT: Final = r"(?:\.(?=,? [0-9a-z]))?"
_NUMBER_ENDS: Final = r"(?![0-9\w]|[.,:/-][0-9])"
_NTH: Final = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_ISO: Final = re.compile(r"(?<![\w-])([0-9]{4})-([0-9]{2})-([0-9]{2})(?:T(?=[0-9]{2}:)|(?![\w-]))")
_NUMERIC: Final = re.compile(
    r"(?<![\w/.-])([0-9]{1,2})(?:/([0-9]{1,2})/|-([0-9]{1,2})-|\.([0-9]{1,2})\.)([0-9]{4}|(?<=/)[0-9]{2})(?![\w/-])"
)
_MONTH_FIRST: Final = re.compile(
    rf"\b{_MONTH}{_DOT} ([0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s?[–-]\s?([0-9]{{1,2}})(?:st|nd|rd|th)?)?"
    rf"{_NUMBER_ENDS}(?:(?:, | )([12][0-9]{{3}}){_NUMBER_ENDS})?"
)
_DAY_FIRST: Final = re.compile(
    rf"(?<![\w.,/:-])([Tt]he )?(?:{_NTH}\s?[–-]\s?)?{_NTH}(?: of)? "
    rf"{_MONTH}\b{_DOT}(?:,? ([12][0-9]{{3}}){_NUMBER_ENDS})?"
)
_MONTH_YEAR: Final = re.compile(rf"\b{_MONTH}{_DOT},? ([12][0-9]{{3}}){_NUMBER_ENDS}")
_SHORT_DATE: Final = re.compile(
    r"(?i)\b(on|by|until|till|before|after|since|from|through|for) "
    r"([0-9]{1,2})/([0-9]{1,2})(?![\w/])"
)
_LONE_DATE: Final = re.compile(
    r"(?<![\w/.,-])(?<![0-9] )(0?[1-9]|1[0-2])/(1[3-57-9]|2[1-9]|3[01])(?![\w/]|[.,][0-9])"
)
_DAY: Final = "(Mon|Tues|Tue|Wed|Thurs|Thur|Thu|Fri|Sat|Sun)"
_DAY_OF_DATE: Final = re.compile(rf"\b{_DAY}\b\.?(?=,? (?:the |{_MONTH}\b|[0-9]))")
_DAY_RANGE: Final = re.compile(rf"\b{_DAY}\.?\s?[–-]\s?{_DAY}\b")
_DECADE: Final = re.compile(
    r"(?<![\w.,])(?:['’](?=[0-9]{2}['’]?s))?((?:1[0-9]|20)?)([0-9]0)['’]?s\b"
)

_CLOCK: Final = r"([0-9]{1,2})(?::([0-5][0-9]))?"
_HALF: Final = r"\s?([ap])(?:\.\s?m\.?|m\b)"
_TWELVE: Final = re.compile(
    rf"(?i)(?<![\w.,:])(?:{_CLOCK}(?:{_HALF})?\s?(?:[–-]|\bto\b)\s?)?{_CLOCK}{_HALF}(?![a-z0-9])"
)
_TIME_RANGE: Final = re.compile(r"(?<=:[0-5][0-9])\s?[–-]\s?(?=[0-9]{1,2}:[0-5][0-9])")
_TWENTY_FOUR: Final = re.compile(
    r"(?<![\w:.,])([01]?[0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]+)?)?Z?(?![\w:])"
)
_DURATION: Final = re.compile(r"\b([0-9]+)\s?h\s?([0-9]{1,2})\s?m(?:in)?\b")


def spoken(text: str, *, day_first: bool) -> str:
    """``text`` with its dates and times in words. ``day_first``: 3/4 is the third of April."""
    return applied(_RULES_DAY_FIRST if day_first else _RULES_MONTH_FIRST, text)


def _month(name: str) -> str:
    return next(month for month in _MONTHS if month.startswith(name[:3]))


def _date(month: int, day: int, number: int | None = None) -> str:
    said = f"{_MONTHS[month - 1]} {ordinal(day)}"
    return f"{said}, {year(number)}" if number is not None else said


def _iso(found: re.Match[str]) -> str:
    number, month, day = (int(found[group]) for group in (1, 2, 3))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return _date(month, day, number) + (" at " if found[0].endswith("T") else "")


def _numeric(found: re.Match[str], day_first: bool) -> str:
    first, second = int(found[1]), int(found[2] or found[3] or found[4])
    number = int(found[5]) + (2000 if len(found[5]) == 2 else 0)
    day_leads = day_first or found[2] is None
    months = (second, first) if first > 12 or (day_leads and second <= 12) else (first, second)
    if not (1 <= months[0] <= 12 and 1 <= months[1] <= 31):
        return found[0]
    return _date(*months, number)


def _short(found: re.Match[str], day_first: bool) -> str:
    first, second = int(found[2]), int(found[3])
    month, day = (second, first) if day_first or first > 12 else (first, second)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return f"{found[1]} {_date(month, day)}"


def _month_first(found: re.Match[str]) -> str:
    name, day, last = _month(found[1]), int(found[2]), found[3]
    if not 1 <= day <= 31:
        return found[0]
    said = f"{name} {ordinal(day)}" + (f" to {ordinal(int(last))}" if last else "")
    return f"{said}, {year(int(found[4]))}" if found[4] else said


def _day_first(found: re.Match[str]) -> str:
    if not 1 <= int(found[3]) <= 31:
        return found[0]
    said = f"{found[1] or 'the '}{ordinal(int(found[2])) + ' to ' if found[2] else ''}"
    said += f"{ordinal(int(found[3]))} of {_month(found[4])}"
    return f"{said}, {year(int(found[5]))}" if found[5] else said


def _decade(found: re.Match[str]) -> str:
    century, tens = found[1], found[2]
    if tens == "00":
        return f"{year(int((century or '20') + tens))}s"
    return f"{cardinal(int(century)) + ' ' if century else ''}{plural(cardinal(int(tens)))}"


def _twelve(found: re.Match[str]) -> str:
    first_hour, first_minute, first_half, hour, minute, half = found.groups()
    said = f"{_clock(int(hour), minute)} {half.upper()}.M"
    if first_hour:
        first = _clock(int(first_hour), first_minute)
        said = f"{first}{f' {first_half.upper()}.M' if first_half else ''} to {said}"
    ended = found[0].endswith(".") and ends_here(found.string, found.end())
    return said + ("." if ended else "")


def _clock(hour: int, minute: str | None) -> str:
    if minute is None or minute == "00":
        return cardinal(hour)
    return f"{cardinal(hour)} {'oh ' if minute[0] == '0' else ''}{cardinal(int(minute))}"


def _twenty_four(found: re.Match[str]) -> str:
    hour, minute, second = int(found[1]), found[2], found[3]
    if minute == "00":
        said = "midnight" if hour in {0, 24} else f"{cardinal(hour)} o'clock"
        said = said if hour <= 12 or hour == 24 else f"{cardinal(hour)} hundred"
    else:
        said = _clock(hour, minute) if hour else f"{_clock(12, minute)} A.M"
    return f"{said} and {cardinal(int(second))} seconds" if second and int(second) else said


def _duration(found: re.Match[str]) -> str:
    hours, minutes = int(found[1]), int(found[2])
    return (
        f"{cardinal(hours)} hour{'' if hours == 1 else 's'} "
        f"{cardinal(minutes)} minute{'' if minutes == 1 else 's'}"
    )


_DATED: Final = "[JFMASOND](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)"


def _rules(day_first: bool) -> tuple[Rule, ...]:
    lone = rule("[0-9]/[0-9]", _LONE_DATE, lambda found: _date(int(found[1]), int(found[2])))
    return (
        rule(
            r"[a-z]\.?\s?[–-]\s?[MTWFS]",
            _DAY_RANGE,
            lambda found: f"{_DAYS[found[1]]} to {_DAYS[found[2]]}",
        ),
        rule("[MTWFS](?:on|ue|ed|hu|ri|at|un)", _DAY_OF_DATE, lambda found: _DAYS[found[1]]),
        rule("[0-9]-[0-9]", _ISO, _iso),
        rule("[0-9][/.-][0-9]{1,2}[/.-][0-9]", _NUMERIC, partial(_numeric, day_first=day_first)),
        rule("[0-9]/[0-9]", _SHORT_DATE, partial(_short, day_first=day_first)),
        *(() if day_first else (lone,)),
        rule(_DATED, _MONTH_FIRST, _month_first),
        rule(_DATED, _DAY_FIRST, _day_first),
        rule(_DATED, _MONTH_YEAR, lambda found: f"{_month(found[1])} {year(int(found[2]))}"),
        rule("0['’]?s", _DECADE, _decade),
        rule(r"[0-9]\s?[aApP]\.?\s?[mM]", _TWELVE, _twelve),
        rule("[0-9]:[0-5]", _TIME_RANGE, " to "),
        rule("[0-9]:[0-5]", _TWENTY_FOUR, _twenty_four),
        rule(r"[0-9]\s?h\s?[0-9]", _DURATION, _duration),
    )


_RULES_DAY_FIRST: Final = _rules(day_first=True)
_RULES_MONTH_FIRST: Final = _rules(day_first=False)
