"""Whether the words so far sound finished.

A recogniser that hears half a sentence puts a full stop behind it, so the mark proves little;
its absence, or a comma, proves more. What a turn cannot end with proves most: words that lean on
the next one, fillers, lists that have not come to their "and", numbers that are still short.
Everything here is a rule of thumb that costs microseconds; ``patience`` makes of it a wait.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pipelines.conversation.dictation import dictated, expects_digits
from pipelines.conversation.leaning_words import LEANING, Leaning
from pipelines.conversation.patience import Profile

__all__ = ["completeness", "expects_digits"]

OPEN: Final = -1.0
FILLER: Final = -0.9
HOLD: Final = -0.8
LEAN: Final = -0.6
UNMARKED: Final = -0.7
COMMA: Final = -0.3
LIST: Final = -0.5
CLAUSE: Final = -0.3
SENTENCE: Final = 0.4
QUESTION: Final = 0.4  # a recogniser asks after "what is the difference" as well
CLOSED: Final = 0.5
ANSWER: Final = 0.7

SHORT = 3
"""Words; what is shorter and no known answer may be the beginning of anything."""

OPEN_MARKS: Final = ",;:-–—…"

_WORD: Final = re.compile(r"[^\W_]+(?:[-'/@.][^\W_]+)*'?")
_SENTENCE_END: Final = re.compile(r"[.!?…]+\s+")


def completeness(text: str, language: str | None, profile: Profile, asked: str = "") -> float:
    """From -1, surely unfinished, to 1, surely finished; 0 where nothing is known.

    ``language`` is a tag such as ``en`` or ``pt-BR``. Under ``digits`` the length of a number
    goes before the words around it; ``asked`` is what the agent has said last, which may tell
    how long it has to be.
    """
    text = unicodedata.normalize("NFC", text).replace("’", "'").strip()
    code = (language or "").lower().partition("-")[0]
    if profile == "digits":
        number = dictated(text, code, asked)
        if number is not None:
            return number
    leaning = LEANING.get(code)
    return _judge(text, leaning) if leaning is not None else 0.0


def _judge(text: str, leaning: Leaning) -> float:
    sentence = _SENTENCE_END.split(text)[-1]
    words = _WORD.findall(sentence.lower())
    if not words:
        return 0.0
    mark = text[-1]
    known = _by_phrase(" ".join(words), mark, leaning)
    if known is None:
        known = _by_last_word(words, mark, leaning)
    if known is None:
        known = _by_shape(sentence, words, mark, leaning)
    return known


def _by_phrase(said: str, mark: str, leaning: Leaning) -> float | None:
    if said in leaning.answers:
        return COMMA if mark in OPEN_MARKS else ANSWER
    if _ends(said, leaning.holds):
        return HOLD
    if _ends(said, leaning.closed):
        return CLOSED
    return OPEN if _ends(said, leaning.begun) else None


def _by_last_word(words: list[str], mark: str, leaning: Leaning) -> float | None:
    last = words[-1]
    if last in leaning.fillers:
        return FILLER
    asked = mark == "?" and words[0] in leaning.asks and len(words) >= SHORT
    if last in leaning.lean or last.endswith("'"):
        return QUESTION if asked else LEAN
    if last in leaning.open:
        return QUESTION if asked and last in leaning.strands else OPEN
    return None


def _by_shape(sentence: str, words: list[str], mark: str, leaning: Leaning) -> float:
    if mark in OPEN_MARKS or sentence.endswith("..."):
        return COMMA
    if mark not in ".!?。":
        # No mark means much where the recogniser sets marks: one that does writes capitals too.
        return UNMARKED if sentence[0].isupper() else 0.0
    if mark == "?":
        return QUESTION
    if _lists(sentence, words, leaning):
        return LIST
    if words[0] in leaning.clauses and "," not in sentence:
        return CLAUSE
    return SENTENCE if len(words) >= SHORT else 0.0


def _lists(sentence: str, words: list[str], leaning: Leaning) -> bool:
    """Short items between commas, and no "and" yet: "eggs, milk, bread."."""
    items = sentence.split(",")
    short = [item for item in items[1:] if len(item.split()) <= 2]
    return len(items) > SHORT - 1 and len(short) == len(items) - 1 and not leaning.last & {*words}


def _ends(said: str, phrases: tuple[str, ...]) -> bool:
    return any(said == phrase or said.endswith(f" {phrase}") for phrase in phrases)
