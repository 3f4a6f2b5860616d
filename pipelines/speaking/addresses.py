"""Where to find somebody: addresses of the web and of mail, telephone numbers, handles."""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking.numbers import cardinal, digits
from pipelines.speaking.rules import applied, rule

_COUNTRIES: Final = (
    "io|ai|co|me|tv|us|uk|eu|ca|au|nz|de|at|ch|fr|es|it|pt|nl|be|ie|dk|se|no|fi|pl|cz|jp|cn|in|br"
    "|mx|za"
)
_DOMAINS: Final = (
    "com|org|net|info|biz|gov|edu|mil|int|dev|app|tech|online|shop|store|blog|cloud|" + _COUNTRIES
)
_URL: Final = re.compile(
    r"\b(?:(?:https?|ftp)://|www\.)[^\s<>\"“”]+"
    rf"|(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:{_DOMAINS})\b(?![\w@-]|\.[a-z])(?::[0-9]+)?(?:/[^\s<>\"“”]*)?",
    re.IGNORECASE,
)
_MAIL: Final = re.compile(r"(?:mailto:)?\b([\w.+-]+)@((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})\b")
_HANDLE: Final = re.compile(r"(?<!\w)@(?=\w)")
_AFTER_ADDRESS: Final = re.compile(r"[.,;:!?)\]}'’*_]+$")
_SCHEME: Final = re.compile(r"^(?:(?:https?|ftp)://)?(?:www\.)?", re.IGNORECASE)
_FILE: Final = re.compile(r"(?<=[a-z0-9_])\.(?=[a-z][a-z0-9]{1,5}\b)(?=[a-z0-9]*[a-z])")
_DOT_NUMBER: Final = re.compile(r"(?<=[^\W\d_])\.(?=[0-9])")
_PART: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\W\d_]+|.")
_MARKS: Final = {
    ".": "dot",
    "/": "slash",
    "-": "dash",
    "_": "underscore",
    "@": "at",
    ":": "colon",
    "~": "tilde",
    "%": "percent",
    "+": "plus",
    "=": "equals",
    "&": "and",
}
_SPELLED_ENDS: Final = frozenset(_COUNTRIES.split("|")) - {"co", "me", "it", "be", "no", "at", "in"}

_IP: Final = re.compile(
    r"(?<![\w.])([0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::([0-9]{1,5}))?(?![\w:]|\.[0-9])"
)
_EXTENSION: Final = r"(?:,?\s?(?:ext\.?|extension|x)\s?([0-9]{1,6}))?"
_PHONE: Final = re.compile(
    r"(?<![\w.,:/+-])("
    r"\+[0-9]{1,3}(?:[ .-]?\(?[0-9]{1,5}\)?){2,6}"  # international
    r"|(?:1[ .-]?)?\([0-9]{2,5}\)[ .-]?[0-9]{2,5}(?:[ .-][0-9]{2,5}){0,3}"  # its area in brackets
    r"|(?:1[ .-])?[0-9]{3}([ .-])[0-9]{3}\2[0-9]{4}"  # of North America
    r"|[0-9]{3}-[0-9]{4}"
    r"|0[0-9]{1,4}(?:[ /-][0-9]{2,8}){1,4}"  # with a trunk prefix
    r"|[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{3}-[0-9]{2}-[0-9]{4}"  # cards
    rf"){_EXTENSION}(?![\w:-]|[.,][0-9])"
)
_LETTERED: Final = re.compile(r"(?<![\w-])(1-)?([0-9]{3})-([A-Z]{4,8})\b")
_LEAST_PHONE: Final = 7
_GROUP: Final = re.compile(r"[0-9]+")
_DIALLED: Final = re.compile(
    r"(?i)\b(call|dial|text|ring)(?:ing|ed)? ([0-9]{3})(?![\w-]|[ .][0-9])"
)
_SECRET: Final = re.compile(
    r"(?i)\b((?:pin|code|passcode|password|zip|account|confirmation|reference|tracking|serial|card)"
    r"(?: (?:number|code|is|no\.?)|:)*:? )#?([0-9]{3,})(?![\w-]|[ .,][0-9])"
)


def spoken(text: str) -> str:
    """``text`` with its addresses in words."""
    return applied(_RULES, text)


def grouped(number: str) -> str:
    """The digits of a long number, in breaths of three or four."""
    size = 4 if len(number) % 4 == 0 else 3
    return ", ".join(digits(number[at : at + size]) for at in range(0, len(number), size))


def _mail(found: re.Match[str]) -> str:
    return f"{_parts(found[1])} at {_parts(found[2])}"


def _url(found: re.Match[str]) -> str:
    """Host and path. What stands behind ``?`` or ``#`` is for machines, and is not read."""
    written = found[0]
    trailing = _AFTER_ADDRESS.search(written)
    end = trailing.start() if trailing else len(written)
    if written[end:].startswith(")") and written.count("(", 0, end) > written.count(")", 0, end):
        end += 1
    address = re.split(r"[?#]", _SCHEME.sub("", written[:end], count=1), maxsplit=1)[0]
    return _parts(address.rstrip("/")) + written[end:]


def _parts(address: str) -> str:
    words = [_MARKS.get(part, part if part.isalnum() else "") for part in _PART.findall(address)]
    host_ends = [at for at, word in enumerate(words) if word == "dot"]
    if host_ends and words[-1] in _SPELLED_ENDS and host_ends[-1] == len(words) - 2:
        words[-1] = ".".join(words[-1].upper())
    return " ".join(filter(None, words))


def _ip(found: re.Match[str]) -> str:
    address = " dot ".join(map(cardinal, map(int, found[1].split("."))))
    return f"{address} port {digits(found[2])}" if found[2] else address


def _phone(found: re.Match[str]) -> str:
    groups = _GROUP.findall(found[1])
    if sum(map(len, groups)) < _LEAST_PHONE:
        return found[0]
    number = ", ".join(map(digits, groups))
    extension = f", extension {digits(found[3])}" if found[3] else ""
    return f"{'plus ' if found[1].startswith('+') else ''}{number}{extension}"


def _lettered(found: re.Match[str]) -> str:
    return ", ".join(
        filter(None, (digits(found[1] or ""), digits(found[2]), found[3].capitalize()))
    )


_RULES: Final = (
    rule("@", _MAIL, _mail),
    rule(r"[:\w][./][\w/]", _URL, _url),
    rule(r"[a-z0-9_]\.[a-z]", _FILE, " dot "),
    rule(r"[^\W\d_]\.[0-9]", _DOT_NUMBER, " dot "),
    rule("@", _HANDLE, "at "),
    rule(r"[0-9]\.[0-9]+\.[0-9]", _IP, _ip),
    rule("[0-9]-[A-Z]", _LETTERED, _lettered),
    rule("[0-9]{3}", _DIALLED, lambda found: found[0].removesuffix(found[2]) + digits(found[2])),
    rule("[0-9]{3}", _SECRET, lambda found: found[1] + grouped(found[2])),
    rule(r"[0-9][0-9 ().+/-]{5,}[0-9]", _PHONE, _phone),
)
