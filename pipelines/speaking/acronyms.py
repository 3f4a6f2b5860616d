"""Words in capitals: said as words where they can be, else spelled.

A spelled one is written "A.P.I", with no dot behind: a voice takes a letter by itself for a word
("A" for the article) and "API" for a word it does not know, and a dot at the end would end the
sentence.
"""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking.abbreviations import ends_here

_CONSONANTS: Final = (
    "B|BL|BR|C|CH|CL|CR|D|DR|F|FL|FR|G|GL|GR|H|J|K|KL|KR|L|M|N|P|PH|PL|PR|QU|R|S|SC|SCR|SH|SK|SL"
    "|SM|SN|SP|SPL|SPR|SQU|ST|STR|SW|T|TH|THR|TR|TW|V|W|WH|X|Y|Z"
)
_ENDINGS: Final = (
    "[BCDFGKLMNPRSTVXZ]|CK|CT|CH|SH|TH|NG|NK|ND|NT|NC|NS|MP|LT|LD|LK|LF|LM|LP|LL|RT|RD|RK|RM|RN|RP"
    "|RS|SS|ST|SK|SP|TS|PT|FT|FF|PS|KS|DS|GS|GHT|TCH"
)
_SAYABLE: Final = re.compile(
    rf"(?:{_CONSONANTS})?[AEIOUY]{{1,2}}(?:(?:{_ENDINGS})?(?:{_CONSONANTS})[AEIOUY]{{1,2}})*(?:{_ENDINGS})?S?"
)
_LEAST_WORD: Final = 4
_SHORT: Final = """
A I NO YES NOT AND BUT THE ALL ANY CAN NEW NOW ONE TWO YOU FOR OUR OUT OFF TOO WAY DAY GET GOT HAS
HAD HER HIM HIS HOW ITS LET MAY PUT RUN SAY SEE SHE TOP TRY USE WAS WHY END ASK BAD BIG BUY EAT FAR
FEW FUN HOT JOB KEY LOT LOW MAN MEN MET NOR OLD OWN PAY RED SIX TEN WIN WON GO DO SO TO OF OR ON IN
IF IS BE BY HE ME MY UP WE AS AT AN ARE DID BOX CAR CUT HEY HI OH SET SIT
PIN SIM RAM ROM LAN WAN GIF ZIP DOS APP BOT JSON YAML
"""
_SHORT_WORDS: Final = frozenset(_SHORT.split())
_SHOUTED: Final = frozenset({"IT", "US", "AM", "WHO"})
"""Words among words in capitals, else names."""

_SPELLED: Final = frozenset(["UCLA", "USDA", "AARP", "IMHO", "IEEE", "ISO", "AKA", "DIY", "FAQ"])
_SAID_SO: Final = {"OK": "okay", "JPEG": "J peg", "WIFI": "Wi-Fi"}

_DOTTED: Final = re.compile(r"(?<![\w.])((?:[A-Za-z]\.){2,}[A-Za-z]?)(?![\w])")
_JOINED: Final = re.compile(r"(?<![\w.])([A-Z]{1,3})\s?&\s?([A-Z]{1,3})(?![\w.])")
_CAPITALS: Final = re.compile(r"(?<![\w.'’])[A-Z]{2,}(?:(['’]?)s)?(?!\w|['’][A-Z])")


def spoken(text: str) -> str:
    """``text`` with what cannot be said as words spelled."""
    if "&" in text:
        text = _JOINED.sub(lambda found: f"{_dots(found[1])} and {_dots(found[2])}", text)
    if "." in text:
        text = _DOTTED.sub(_without_last_dot, text)
    return _CAPITALS.sub(_said, text)


def _dots(letters: str) -> str:
    return ".".join(letters)


def _without_last_dot(found: re.Match[str]) -> str:
    written = found[1]
    if not written.endswith("."):
        return written
    return written if ends_here(found.string, found.end()) else written[:-1]


def _said(found: re.Match[str]) -> str:
    written = found[0]
    ending = "s" if written.endswith("s") else ""
    letters = written.rstrip("s'’") if ending else written
    if letters in _SAID_SO:
        return _SAID_SO[letters] + ending
    if _is_word(letters) or (letters in _SHOUTED and not ending and _is_shouted(found)):
        return written
    return _dots(letters) + ("'s" if ending else "")


def _is_word(letters: str) -> bool:
    if letters in _SPELLED:
        return False
    if letters in _SHORT_WORDS:
        return True
    return len(letters) >= _LEAST_WORD and _SAYABLE.fullmatch(letters) is not None


def _is_shouted(found: re.Match[str]) -> bool:
    """Whether a neighbour is a word in capitals."""
    before = found.string[: found.start()].rstrip(" \"'“‘").rpartition(" ")[2]
    after = found.string[found.end() :].lstrip(" \"'”’").partition(" ")[0]
    return any(len(word) > 1 and _is_word(word.strip(".,;:!?")) for word in (before, after))
