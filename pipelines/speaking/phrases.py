"""Text deltas in, speakable phrases out.

The first phrase is short, since the caller waits for it: it ends at the first clause, or after
a few words where no clause ends. Later ones are whole sentences, since they are synthesised
while the earlier ones play and a voice phrases a whole sentence better.

A place where a phrase may end comes with its evidence: the last character that has to be seen
to know. The earliest evidence wins, so the phrases are the same however the text arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from pipelines.speaking.sentences import CLOSERS, ends_sentence

_CJK = r"\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60"
_CJK_CLOSERS = re.escape("。！？」』”’）")
# The lookbehind and the {0,8} keep a long run of such marks linear: models do get stuck on them,
# and each mark would start a match of its own that reads to the end.
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[{CLOSERS}]*(?=\s)|[。！？][{_CJK_CLOSERS}]{{0,8}}(?=[^{_CJK_CLOSERS}])|\n"
)
_CLAUSE_END = re.compile(r"[,;:](?=\s)|\s[-–](?=\s)|—|[，；：、]")
_KNOWN_AT_ONCE = frozenset("\n—，；：、")
"""Marks that end something whatever follows."""

_BLANKS = re.compile(r"\s*")
_WORD = re.compile(r"\S+")
_BEAT = re.compile(rf"[{_CJK}]{{1,2}}|[^\s{_CJK}]+")
"""A word, or two ideographs or kana, which take about as long to say."""

_JOINING = """
and but or nor so because that which who what when where why how while if as since though than to
for with without in on at from about into of by across through over under after before during
between near around like
"""
_LEANING = """
the a an my your his her its our their this these those some any every no not very is are was were
be been am will would can could should may might must do does did have has had i he she we they
"""
_JOINTS = frozenset(_JOINING.split())
"""Words before which a voice may pause."""

_NO_LAST_WORD = _JOINTS | frozenset(_LEANING.split())
"""Words after which it may not: they lean on the next."""


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    """Sizes in words, of which two ideographs are one. The first phrase ends at a clause of at
    least ``first_clause`` words, else before a joining word after ``first_joint``, else within
    ``first_most``. A later phrase is a sentence; one above ``most`` is cut at the last clause
    within them, or hard. So is any above ``most_characters``, at a blank if it has one: models do
    write without end, and some languages without blanks."""

    first_clause: int = 2
    first_joint: int = 3
    first_most: int = 6
    most: int = 40
    most_characters: int = 400


class _End(NamedTuple):
    """``evidence``: position of the last character that shows it; ``position``: of the cut."""

    evidence: int
    position: int


class PhraseSplitter:
    """Cuts one reply's text into phrases: the same ones however the text is chopped into deltas.
    Nothing is lost; what has no words, blanks at the very end above all, may be one of them."""

    def __init__(self, settings: PhraseSettings | None = None) -> None:
        self._settings = settings or PhraseSettings()
        self._text = ""
        self._blanks = 0
        self._first = True

    def feed(self, delta: str) -> list[str]:
        """Take more text and give the phrases that it completes."""
        self._text += delta
        phrases, start = [], 0
        while (end := self._phrase_end(start)) is not None:
            phrases.append(self._text[start:end])
            self._first = self._first and not any(map(str.isalnum, phrases[-1]))
            self._blanks, start = 0, end
        self._text = self._text[start:]
        return phrases

    def finish(self) -> list[str]:
        """Give what is left; the splitter is then as new."""
        rest, self._text, self._blanks, self._first = self._text, "", 0, True
        return [rest] if rest else []

    def _phrase_end(self, start: int) -> int | None:
        """Where the phrase from ``start`` on ends. No more is looked at than a phrase may hold,
        so that every delta costs as little."""
        begin = _BLANKS.match(self._text, start + self._blanks).end()  # type: ignore[union-attr]
        self._blanks = begin - start
        if self._blanks >= self._settings.most_characters:
            return start + self._settings.most_characters
        head = self._text[begin : begin + self._settings.most_characters]
        words = list(_BEAT.finditer(head))
        ends = list((self._first_ends if self._first else self._later_ends)(head, words))
        if ends:
            return begin + min(ends).position
        if len(head) < self._settings.most_characters:
            return None
        return begin + (len(head.rsplit(None, 1)[0]) if len(head.split(None, 1)) > 1 else len(head))

    def _later_ends(self, head: str, words: list[re.Match[str]]) -> Iterator[_End]:
        for match in _SENTENCE_END.finditer(head):
            if end := self._sentence_end(head, match):
                yield end
                break
        if len(words) > self._settings.most:
            yield _End(words[self._settings.most].start(), self._overlong_end(head, words))

    def _first_ends(self, head: str, words: list[re.Match[str]]) -> Iterator[_End]:
        yield from self._later_ends(head, words)
        if len(words) >= self._settings.first_clause:
            least = words[self._settings.first_clause - 1].start() + 1
            clauses = (_end_of(match) for match in _CLAUSE_END.finditer(head))
            fitting = (
                end
                for end in clauses
                if end.position >= least and not _is_enclosed(head, end.position)
            )
            yield from islice(fitting, 1)
        yield from self._joint_ends(head)

    def _sentence_end(self, head: str, match: re.Match[str]) -> _End | None:
        end = _end_of(match)
        if match[0] == "\n":
            return end
        if _is_enclosed(head, end.position):
            return None
        evidence = ends_sentence(head, end.position, at_once=self._first)
        return None if evidence is None else _End(evidence, end.position)

    def _joint_ends(self, head: str) -> Iterator[_End]:
        """Where to cut a phrase that has no clause yet, after the place that shows it: before a
        joining word, or where it has become long. The last word may still be growing."""
        whole = [word for word in _WORD.finditer(head) if word.end() < len(head)]
        names = [word.group().lower() for word in whole]
        for position in range(self._settings.first_joint, len(whole)):
            if names[position] in _JOINTS and names[position - 1] not in _NO_LAST_WORD:
                yield _End(whole[position].end(), whole[position - 1].end())
        most = self._settings.first_most
        if len(whole) >= most:
            fits = (size for size in range(most, 1, -1) if names[size - 1] not in _NO_LAST_WORD)
            yield _End(whole[most - 1].end(), whole[next(fits, most) - 1].end())

    def _overlong_end(self, head: str, words: list[re.Match[str]]) -> int:
        """The last clause that ends within the allowed words, else all of them."""
        allowed = head[: words[self._settings.most].start()]
        clauses = [match.end() for match in _CLAUSE_END.finditer(allowed)]
        return clauses[-1] if clauses else words[self._settings.most - 1].end()


def _end_of(match: re.Match[str]) -> _End:
    return _End(match.end() - (match[0] in _KNOWN_AT_ONCE), match.end())


def _is_enclosed(head: str, position: int) -> bool:
    """Whether ``position`` lies in code or in the text of a link, which a line's end closes."""
    line = head.rfind("\n", 0, position) + 1
    opened = head.rfind("[", line, position) > head.rfind("]", line, position)
    return opened or head.count("`", line, position) % 2 == 1
