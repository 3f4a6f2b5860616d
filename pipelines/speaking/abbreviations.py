"""English abbreviations in full, and Roman numerals as numbers."""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking.numbers import cardinal, ordinal
from pipelines.speaking.sentences import ends_sentence

_DOTTED: Final = {
    "mr": "Mister",
    "mrs": "Missus",
    "ms": "Miz",
    "prof": "Professor",
    "gen": "General",
    "sen": "Senator",
    "rep": "Representative",
    "gov": "Governor",
    "capt": "Captain",
    "lt": "Lieutenant",
    "sgt": "Sergeant",
    "col": "Colonel",
    "rev": "Reverend",
    "hon": "Honorable",
    "pres": "President",
    "supt": "Superintendent",
    "jr": "Junior",
    "sr": "Senior",
    "ave": "Avenue",
    "blvd": "Boulevard",
    "rd": "Road",
    "hwy": "Highway",
    "mt": "Mount",
    "ft": "Fort",
    "inc": "Incorporated",
    "ltd": "Limited",
    "co": "Company",
    "corp": "Corporation",
    "dept": "department",
    "approx": "approximately",
    "est": "estimated",
    "etc": "et cetera",
    "vs": "versus",
    "fig": "figure",
    "figs": "figures",
    "vol": "volume",
    "ext": "extension",
    "tel": "telephone",
    "cf": "compare",
    "viz": "namely",
    "e.g": "for example",
    "i.e": "that is",
    "eg": "for example",
    "ie": "that is",
    "a.k.a": "also known as",
    "et al": "and others",
    "misc": "miscellaneous",
    "jan": "January",
    "feb": "February",
    "apr": "April",
    "aug": "August",
    "sept": "September",
    "sep": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
}
_SMALL: Final = frozenset(
    {"dept", "approx", "est", "etc", "vs", "fig", "figs", "vol", "ext", "tel", "cf", "viz", "misc"}
)
_ABBREVIATION: Final = re.compile(
    rf"(?<![\w.@/-])({'|'.join(sorted(map(re.escape, _DOTTED), key=len, reverse=True))})\.",
    re.IGNORECASE,
)
_BARE: Final = {
    "Mr": "Mister",
    "Mrs": "Missus",
    "Dr": "Doctor",
    "vs": "versus",
    "etc": "et cetera",
    "eg": "for example",
    "ie": "that is",
    "aka": "also known as",
    "approx": "approximately",
}
"""Without their dots."""

_MARKED: Final = {
    "w/o": "without",
    "w/": "with ",
    "b/c": "because",
    "c/o": "care of",
    "N/A": "not applicable",
    "n/a": "not applicable",
    "and/or": "and or",
    "he/she": "he or she",
    "s/he": "he or she",
    "his/her": "his or her",
    "him/her": "him or her",
    "yes/no": "yes or no",
    "C++": "C plus plus",
    "C#": "C sharp",
    "F#": "F sharp",
    "PhD": "P.H.D",
    "Ph.D": "P.H.D",
    "iOS": "i.O.S",
    "macOS": "mac O.S",
}
_WHOLE: Final = re.compile(
    rf"(?<![\w.@/])(?:({'|'.join(_BARE)})(?![\w.@/])"
    rf"|({'|'.join(sorted(map(re.escape, _MARKED), key=len, reverse=True))})"
    r"(?:(?<=/)|(?![\w/+#]|\.\w)))"
)
_DOCTOR: Final = re.compile(r"(?<!\w)Dr\.(?= ?[A-Z])")
_SAINT: Final = re.compile(r"(?<!\w)St\.(?= [A-Z])")
_ROAD: Final = re.compile(r"(\b[A-Z][a-z]+ |[0-9](?:st|nd|rd|th) )(St|Dr)\b(\.?)")
_NUMBER_SIGN: Final = re.compile(r"(?:\b([Nn])o(s?)\.|№)\s?(?=[0-9])")
_PAGES: Final = re.compile(r"\b(pp?)\.\s?(?=[0-9])")
_INITIAL: Final = re.compile(r"(?<![\w.'’])([A-Z])\.(?=\s+[A-Z])")

_NUMERAL: Final = r"(?=[MDCLXVI])(?:M{0,3})(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_RULERS: Final = (
    "Henry|Louis|Elizabeth|George|Edward|Richard|William|James|Charles|John|Paul|Benedict|Pius"
    "|Napoleon|Catherine|Peter|Alexander|Nicholas|Frederick|Philip|Francis|Leo|Gregory|Innocent"
    "|Clement|Urban|Rameses|Ramses|Ptolemy|Mary|Wilhelm|Ivan|Otto|Xerxes|Darius|Alfonso|Ferdinand"
    "|Carlos|Juan|Gustav|Christian|Haakon|Harald|Olaf|Margrethe|Margaret|Robert|David|Malcolm"
    "|Stephen|Sixtus|Boniface|Julius|Cleopatra|Amenhotep|Thutmose|Mehmed|Murad|Suleiman|Selim"
)
_RULER: Final = re.compile(
    rf"\b({_RULERS}) ((?=[XVI]{{2}}|V\b|I\b(?=[,.;:!?)'’]|$| of\b))(?!X\b)[XVI]+)\b(?!\.\w)"
)
_NUMBERED: Final = re.compile(
    r"\b((?i:chapter|part|act|scene|volume|book|section|article|phase|stage|type|level|appendix"
    rf"|episode|class|title|war|bowl|rule|amendment|vol|step|grade|tier)) ({_NUMERAL})\b(?!['’]\w)"
)
_SEQUEL: Final = re.compile(
    r"(?<=[a-z] )(?<!\bthe )([XVI]*(?:II|IV|VI|IX|XI)[XVI]*|[XV]{2,})\b(?!['’]\w)"
)
_CAPITALISED_BEFORE: Final = re.compile(r"\b[A-Z][\w'’-]* $")
_ROMAN: Final = {"M": 1000, "D": 500, "C": 100, "L": 50, "X": 10, "V": 5, "I": 1}
_VALID: Final = re.compile(_NUMERAL)


def ends_here(text: str, end: int) -> bool:
    """Whether the dot before ``end`` also ends a sentence."""
    return (
        not text[end:].strip(" \"'”’)") or ends_sentence(f"{text} ", end, at_once=True) is not None
    )


def spoken(text: str) -> str:
    """``text`` with abbreviations in full."""
    text = _WHOLE.sub(lambda found: _BARE.get(found[0]) or _MARKED[found[0]], text)
    text = _ROAD.sub(_road, text)
    if "." not in text and "№" not in text:
        return text
    text = _SAINT.sub("Saint", _DOCTOR.sub("Doctor", text))
    text = _NUMBER_SIGN.sub(_number_sign, text)
    text = _PAGES.sub(lambda found: "pages " if found[1] == "pp" else "page ", text)
    text = _ABBREVIATION.sub(_in_full, text)
    return _INITIAL.sub(_initial, text)


def numerals(text: str) -> str:
    """``text`` with its Roman numerals in words."""
    text = _RULER.sub(_ruler, text)
    text = _NUMBERED.sub(lambda found: f"{found[1]} {cardinal(_value(found[2]))}", text)
    return _SEQUEL.sub(_sequel, text)


def _in_full(found: re.Match[str]) -> str:
    written, key = found[1], found[1].lower()
    names_somebody = key not in _SMALL and "." not in key and key not in {"eg", "ie", "et al"}
    if names_somebody and not written[0].isupper():
        return found[0]
    last = key not in {"e.g", "i.e", "eg", "ie", "vs", "mr", "mrs", "ms"}
    return _DOTTED[key] + ("." if last and ends_here(found.string, found.end()) else "")


def _road(found: re.Match[str]) -> str:
    """Before a name it is a saint or a doctor."""
    ends = ends_here(found.string, found.end())
    if not ends and re.match(r" ?[A-Z]", found.string[found.end() :]):
        return found[0]
    return f"{found[1]}{'Street' if found[2] == 'St' else 'Drive'}{found[3] if ends else ''}"


def _number_sign(found: re.Match[str]) -> str:
    return f"{'N' if found[1] == 'N' else 'n'}umber{found[2] or ''} "


def _initial(found: re.Match[str]) -> str:
    return found[0] if ends_here(found.string, found.end()) else found[1]


def _ruler(found: re.Match[str]) -> str:
    if not _VALID.fullmatch(found[2]):
        return found[0]
    return f"{found[1]} the {ordinal(_value(found[2])).title()}"


def _sequel(found: re.Match[str]) -> str:
    named = _CAPITALISED_BEFORE.search(found.string, 0, found.start())
    if not named or not _VALID.fullmatch(found[1]):
        return found[0]
    return cardinal(_value(found[1]))


def _value(numeral: str) -> int:
    values = [_ROMAN[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
