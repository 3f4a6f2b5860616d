"""Text deltas in, speakable phrases out.

The first phrase is short, since the caller waits for it: it ends at the first clause, or after
a few words where no clause ends. Later ones are whole sentences, since they are synthesised
while the earlier ones play and a voice phrases a whole sentence better.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CLOSERS = "\"'”’)]}»"
_SENTENCE_END = re.compile(rf"(?:[.!?…]+[{re.escape(_CLOSERS)}]*(?=\s)|[。！？]+|\n+)")
_CLAUSE_END = re.compile(r"[,;:](?=\s)|\s[-–—](?=\s)|—|[，；：、]")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|no|fig|approx|dept|inc|ltd"
    r"|col|gen|sen|rep|rev|mt|ave|blvd|[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\d{1,3}\.$")
_JOINTS = frozenset(
    [
        "and",
        "but",
        "or",
        "so",
        "because",
        "that",
        "which",
        "who",
        "when",
        "where",
        "while",
        "if",
        "as",
        "since",
        "to",
        "for",
        "with",
        "in",
        "on",
        "at",
        "from",
        "about",
        "into",
        "of",
    ]
)


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    """Sizes in words. The first phrase ends at a clause of at least ``first_clause`` words, else
    before a joining word after ``first_joint``, else after ``first_most``. A later phrase is a
    sentence; one above ``most`` is cut at its last clause, or hard."""

    first_clause: int = 2
    first_joint: int = 4
    first_most: int = 7
    most: int = 40


class PhraseSplitter:
    """Cuts one reply's text into phrases. Nothing is lost: the phrases join to the text."""

    def __init__(self, settings: PhraseSettings | None = None) -> None:
        self._settings = settings or PhraseSettings()
        self._text = ""
        self._first = True

    def feed(self, delta: str) -> list[str]:
        """Take more text and give the phrases that it completes."""
        self._text += delta
        phrases = []
        while (end := self._phrase_end()) is not None:
            phrases.append(self._text[:end])
            self._text = self._text[end:]
            self._first = False
        return phrases

    def finish(self) -> list[str]:
        """Give what is left; the splitter is then as new."""
        rest, self._text, self._first = self._text, "", True
        return [rest] if rest.strip() else []

    def _phrase_end(self) -> int | None:
        end = self._sentence_end()
        if self._first:
            return self._first_phrase_end(end)
        if end is None and len(self._text.split()) > self._settings.most:
            return self._overlong_end()
        return end

    def _sentence_end(self) -> int | None:
        for match in _SENTENCE_END.finditer(self._text):
            head = self._text[: match.end()]
            if head.strip() and not _ends_in_a_dot_that_ends_nothing(head):
                return match.end()
        return None

    def _first_phrase_end(self, sentence_end: int | None) -> int | None:
        text = self._text[:sentence_end]
        for match in _CLAUSE_END.finditer(text):
            if len(text[: match.end()].split()) >= self._settings.first_clause:
                return match.end()
        words = list(re.finditer(r"\S+", text))
        if sentence_end is not None and len(words) <= self._settings.first_most:
            return sentence_end
        return self._joint_end(words) or sentence_end

    def _joint_end(self, words: list[re.Match[str]]) -> int | None:
        """Where to cut a first phrase that has no clause yet: before a joining word, or where
        it has become long. The last word may still be growing, so it joins nothing yet."""
        for position, word in enumerate(words):
            if position >= self._settings.first_most:
                return words[position - 1].end()
            joins = word is not words[-1] and word.group().lower() in _JOINTS
            if joins and position >= self._settings.first_joint:
                return words[position - 1].end()
        return None

    def _overlong_end(self) -> int:
        clauses = [match.end() for match in _CLAUSE_END.finditer(self._text)]
        if clauses:
            return clauses[-1]
        return list(re.finditer(r"\S+", self._text))[self._settings.most - 1].end()


def _ends_in_a_dot_that_ends_nothing(head: str) -> bool:
    return head.endswith(".") and bool(_ABBREVIATION.search(head) or _LIST_NUMBER.search(head))
