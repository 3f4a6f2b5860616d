"""English, as it is to be read aloud: each kind of writing by its own module, in an order in
which none takes what belongs to another."""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking import abbreviations, acronyms, addresses, amounts, moments

_DIGIT: Final = re.compile(r"[0-9¼-¾⅐-⅞]")
_WORDS_ONLY: Final = re.compile(
    r"[a-z ,;:!?'’]*(?:(?:[A-Z][a-z]|[AI](?=['’ ][a-z]))[a-z ,;:!?'’]*)*\.?"
)
"""Little to be done: most phrases are so."""

_BEFORE_NUMBER: Final = re.compile(r"(±|\+/-|[~≈]|<=|>=|[<>≤≥])\s?(?=[$€£¥₹-]?\s?[0-9])")
_NAMES_BEFORE_NUMBER: Final = {
    "±": "plus or minus ",
    "+/-": "plus or minus ",
    "~": "about ",
    "≈": "about ",
    "<": "less than ",
    ">": "more than ",
    "≤": "at most ",
    "≥": "at least ",
    "<=": "at most ",
    ">=": "at least ",
}
_HASH: Final = re.compile(r"(?<![\w&])#\s?(?=[0-9])")
_MINUS: Final = re.compile(r"(?<=[0-9)]) [-−–] (?=[0-9(])")
_DIVIDED: Final = re.compile(r"(?<=[0-9)]) / (?=[0-9(])")
_MULTIPLIED: Final = re.compile(r"(?<=[\w)])(?: [*×x·⋅] (?=[0-9(])|[*×](?=[0-9])| [*×⋅] )")
_POWER: Final = re.compile(r"(?<=[\w)])\^\(?([0-9]+|[a-z])\)?")
_RAISED: Final = {"2": " squared", "3": " cubed"}
_OPERATORS: Final = {
    "≠": "is not equal to",
    "≤": "at most",
    "≥": "at least",
    "≈": "about",
    "±": "plus or minus",
    "×": "times",
    "÷": "divided by",
    "√": "the square root of",
    "∞": "infinity",
    "π": "pi",
    "²": "squared",
    "³": "cubed",
    "=": "equals",
    "+": "plus",
    "&": "and",
    "@": "at",
    "%": "percent",
    "§": "section",
    "¶": "paragraph",
    "©": "copyright",
    "°": "degrees",
    "$": "",
    "™": "",
    "®": "",
    "/": " ",
    "€": "euros",
    "£": "pounds",
    "¥": "yen",
    "*": "",
    "−": "minus",
    "⁄": "over",
}
_OPERATOR: Final = re.compile(f" ?([{re.escape(''.join(_OPERATORS))}]) ?")
_COMPARED: Final = re.compile(r"(?<=\w) ([<>]) (?=\w)")
_COMPARISONS: Final = {"<": " less than ", ">": " more than "}
_VOICE_TAG: Final = re.compile(r"(<[a-z]+>)")
_LATEX: Final = re.compile(r"\\(?:frac|dfrac|tfrac)\{([^{}]*)\}\{([^{}]*)\}")
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)")
_COMMANDS: Final = {
    "times": " times ",
    "cdot": " times ",
    "div": " divided by ",
    "pm": " plus or minus ",
    "le": " at most ",
    "leq": " at most ",
    "ge": " at least ",
    "geq": " at least ",
    "neq": " is not equal to ",
    "approx": " about ",
    "sqrt": " the square root of ",
    "infty": " infinity ",
    "to": " to ",
    "sum": " the sum of ",
    "int": " the integral of ",
    "text": "",
    "mathrm": "",
    "mathbf": "",
    "boxed": "",
    "left": "",
    "right": "",
    "quad": " ",
}

# --- code -------------------------------------------------------------------------------------

_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CODE_MARK: Final = re.compile(
    r"\(\)|&&|\|\||[!=]==?|<=|>=|[-=]>|(?<!\S)--?(?=\w)|</?[\w-]+/?>"
    r"|(?<=\w)\.(?=\w)|(?<!\S)\.(?=\w)|[#$%&*+/<=>@^|~\\_(){}\[\]`;]"
)
_CODE_NAMES: Final = {
    "&&": "and",
    "||": "or",
    "!=": "is not",
    "!==": "is not",
    "==": "equals",
    "===": "equals",
    "<=": "at most",
    ">=": "at least",
    "->": "to",
    "=>": "to",
    "--": "dash dash",
    "-": "dash",
    ".": "dot",
    "#": "hash",
    "$": "dollar",
    "%": "percent",
    "&": "and",
    "*": "star",
    "+": "plus",
    "/": "slash",
    "<": "less than",
    "=": "equals",
    ">": "more than",
    "@": "at",
    "^": "caret",
    "|": "pipe",
    "~": "tilde",
    "\\": "backslash",
}


def spoken(text: str, *, day_first: bool) -> str:
    """``text`` without markup, as words and the punctuation of speech."""
    if _WORDS_ONLY.fullmatch(text):
        return abbreviations.spoken(text)
    parts = _VOICE_TAG.split(text)
    return "".join(part if at % 2 else _in_words(part, day_first) for at, part in enumerate(parts))


def code(span: str) -> str:
    """Code within a sentence: its words, and the marks that tell it apart."""
    if "://" in span or not _CODE_MARK.search(_CAMEL.sub(" ", span)):
        return _CAMEL.sub(" ", span)
    named = _CODE_MARK.sub(_code_mark, _CAMEL.sub(" ", span))
    return named.replace('"', " ").replace("'", " ")


def _in_words(text: str, day_first: bool) -> str:
    if "\\" in text:
        text = _COMMAND.sub(_command, _LATEX.sub(r"\1 over \2", text))
    text = abbreviations.spoken(addresses.spoken(_HASH.sub("number ", text)))
    text = _POWER.sub(lambda found: _RAISED.get(found[1]) or f" to the power of {found[1]}", text)
    if _DIGIT.search(text):
        text = _BEFORE_NUMBER.sub(lambda found: _NAMES_BEFORE_NUMBER[found[1]], text)
        text = _MULTIPLIED.sub(" times ", _DIVIDED.sub(" divided by ", _MINUS.sub(" minus ", text)))
        text = amounts.spoken(moments.spoken(text, day_first=day_first))
    text = acronyms.spoken(abbreviations.numerals(text))
    text = _COMPARED.sub(lambda found: _COMPARISONS[found[1]], text)
    return _OPERATOR.sub(lambda found: f" {_OPERATORS[found[1]]} ", text)


def _command(found: re.Match[str]) -> str:
    return _COMMANDS.get(found[1], f" {found[1]} ")


def _code_mark(found: re.Match[str]) -> str:
    mark = found[0]
    if mark.startswith("<") and len(mark) > 2:
        return f" {mark.strip('</>')} "
    return f" {_CODE_NAMES.get(mark, '')} "
