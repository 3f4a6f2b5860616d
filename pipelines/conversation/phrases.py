"""Text deltas in, speakable phrases out.

The first phrase is short, since the caller waits for it: it ends at the first clause, or after
a few words where no clause ends. Later ones are whole sentences, since they are synthesised
while the earlier ones play and a voice phrases a whole sentence better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CLOSERS = re.escape("\"'”’)]}»*_")
_CJK_CLOSERS = re.escape("。！？」』”’）")
# The lookbehind and the {0,8} keep a long run of such marks linear: models do get stuck on them,
# and each mark would start a match of its own that reads to the end.
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[{_CLOSERS}]*(?=\s)|[。！？][{_CJK_CLOSERS}]{{0,8}}(?=[^{_CJK_CLOSERS}])|\n"
)
_CLAUSE_END = re.compile(r"[,;:](?=\s)|\s[-–—](?=\s)|—|[，；：、]")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|fig|approx|dept|inc|ltd"
    r"|col|gen|sen|rep|rev|mt|ave|blvd|[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\d{1,3}\.$")
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
    """Sizes in words. The first phrase ends at a clause of at least ``first_clause`` words, else
    before a joining word after ``first_joint``, else within ``first_most``. A later phrase is a
    sentence; one above ``most`` is cut at the last clause within them, or hard. So is any above
    ``most_characters``, at a blank if it has one: models do write without end, and some languages
    without blanks."""

    first_clause: int = 2
    first_joint: int = 3
    first_most: int = 6
    most: int = 40
    most_characters: int = 400


class PhraseSplitter:
    """Cuts one reply's text into phrases. Nothing is lost but blanks at the very end, and the
    phrases are the same however the text is chopped into deltas: each ends where the first
    evidence of an end lies in the text."""

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
        """No more is looked at than a phrase may hold, so that every delta costs as little."""
        blanks = len(self._text) - len(self._text.lstrip())
        head = self._text[blanks : blanks + self._settings.most_characters]
        end = self._end_in(head)
        if end is None and len(head) == self._settings.most_characters:
            end = len(head.rsplit(None, 1)[0]) if len(head.split(None, 1)) > 1 else len(head)
        return None if end is None else blanks + end

    def _end_in(self, head: str) -> int | None:
        sentence_end = _sentence_end(head)
        words = list(re.finditer(r"\S+", head[:sentence_end]))
        if self._first:
            return self._first_phrase_end(head, sentence_end, words)
        if len(words) > self._settings.most:
            return self._overlong_end(head, words)
        return sentence_end

    def _first_phrase_end(
        self, head: str, sentence_end: int | None, words: list[re.Match[str]]
    ) -> int | None:
        """Of all that may end it, what shows first in the text."""
        ends = [*self._clause_ends(head[:sentence_end]), *self._word_ends(head, words)]
        if sentence_end is not None:
            ends.append((sentence_end, sentence_end))
        return min(ends)[1] if ends else None

    def _clause_ends(self, sentence: str) -> Iterator[tuple[int, int]]:
        for match in _CLAUSE_END.finditer(sentence):
            if len(sentence[: match.end()].split()) >= self._settings.first_clause:
                yield match.end(), match.end()

    def _word_ends(self, head: str, words: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
        """Where to cut a phrase that has no clause yet, after the place that shows it: before a
        joining word, or where it has become long. The last word may still be growing."""
        whole = [word for word in words if word.end() < len(head)]
        names = [word.group().lower() for word in whole]
        for position in range(self._settings.first_joint, len(whole)):
            if names[position] in _JOINTS and names[position - 1] not in _NO_LAST_WORD:
                yield whole[position].end(), whole[position - 1].end()
        most = self._settings.first_most
        if len(whole) >= most:
            fits = (size for size in range(most, 1, -1) if names[size - 1] not in _NO_LAST_WORD)
            yield whole[most - 1].end(), whole[next(fits, most) - 1].end()

    def _overlong_end(self, head: str, words: list[re.Match[str]]) -> int:
        """The last clause that ends within the allowed words, else all of them."""
        allowed = head[: words[self._settings.most].start()]
        clauses = [match.end() for match in _CLAUSE_END.finditer(allowed)]
        return clauses[-1] if clauses else words[self._settings.most - 1].end()


def _sentence_end(text: str) -> int | None:
    for match in _SENTENCE_END.finditer(text):
        if not _ends_in_a_dot_that_ends_nothing(text[: match.end()]):
            return match.end()
    return None


def _ends_in_a_dot_that_ends_nothing(head: str) -> bool:
    return head.endswith(".") and bool(_ABBREVIATION.search(head) or _LIST_NUMBER.search(head))
