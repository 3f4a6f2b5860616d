"""Whether a mark ends a sentence, or belongs to an abbreviation, a number of a list or a quote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

CLOSERS: Final = re.escape("\"'”’)]}»*_")
"""Marks that belong to the sentence before them (inside of a character class)."""

_LONGEST: Final = 24
"""No abbreviation, and no number of a list with its marks, is longer."""

_BEFORE: Final = r"(?:^|[\s(\[\"'“‘*_/-])"
_NEVER_LAST: Final = re.compile(
    _BEFORE + r"(?:mr|mrs|ms|mx|dr|prof|messrs|mme|mlle|sra|srta|e\.g|i\.e|eg|ie|vs|cf|viz|ca|bzw"
    r"|fig|figs|approx|col|gen|sen|rep|rev|hon|mt|capt|cmdr|lt|sgt|gov|pres|resp|nr|nos)\.$",
    re.IGNORECASE,
)
_SELDOM_LAST: Final = re.compile(
    _BEFORE + r"(?:st|jr|sr|inc|ltd|co|corp|etc|usw|al|ave|blvd|rd|hwy|dept|est|tel|ext|vol"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|\d+\s?(?:min|mins|sec|secs|hr|hrs|oz|lbs?|ft|in|yd|mi)|[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
"""Before a word that begins sentences they end one, else not."""

_LIST_NUMBER: Final = re.compile(
    r"(?:^|\n)[\s>#*+_-]*(?:\d{1,3}|[a-z]|[ivx]{1,5})[*_]*\.$", re.IGNORECASE
)
_NUMBER_SIGN: Final = re.compile(_BEFORE + r"no\.$", re.IGNORECASE)
_HALTED: Final = re.compile(rf"(?:…|\.\.\.|[.!?…][{CLOSERS}]*[\"'”’»])[{CLOSERS}]*$")
"""Words trail off, or are quoted: the sentence may go on in small letters."""

_NEXT_MARK: Final = re.compile(r"[^\S\n]*(?=[\S\n])")
_NEXT_WORD: Final = re.compile(r"[^\S\n]+[\"'“‘(*_]*([A-Z][a-z]*)(?=[^\w.])")
_STARTING = """
The This That These Those It He She We They You I There Then Here And But So Or If When While What
Where Why Who Which How Is Are Was Were Do Does Did Can Could Would Will Should May Have Has Please
Yes No Not Thanks Thank Let In On At For From To By With As My Your Our His Her Their Its A An After
Before Until Since However Also Now Just Once Perhaps Maybe Most Some All Each Every Any Many
"""
_STARTERS: Final = frozenset(_STARTING.split())


def ends_sentence(text: str, end: int, *, at_once: bool) -> int | None:
    """The position of the character that shows that a sentence ends at ``end``, where a mark and
    its closers end; None if it ends none, or if that is not known yet.

    With ``at_once``, words that trail off or are quoted end it whatever follows.
    """
    start = max(0, end - _LONGEST)
    if text[end - 1] == ".":
        if _NEVER_LAST.search(text, start, end) or _LIST_NUMBER.search(text, start, end):
            return None
        if _NUMBER_SIGN.search(text, start, end):
            return _unless(str.isdigit, text, end)
        if _SELDOM_LAST.search(text, start, end):
            following = _NEXT_WORD.match(text, end)
            return following.end() if following and following[1] in _STARTERS else None
    if not at_once and _HALTED.search(text, start, end):
        return _unless(str.islower, text, end)
    return end


def _unless(kind: Callable[[str], bool], text: str, end: int) -> int | None:
    """Where the next mark stands, unless it is of this kind."""
    following = _NEXT_MARK.match(text, end)
    if following is None or kind(text[following.end()]):
        return None
    return following.end()
