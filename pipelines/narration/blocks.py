"""A text, Markdown or plain, as the blocks that it is made of: what a reader pauses between.

Lines that were only wrapped are joined again, since a voice would stop at each. A line that ends
before its paragraph's width does was ended on purpose, unless the next goes on in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Final


class Kind(Enum):
    """What a block is."""

    PARAGRAPH = auto()
    ITEM = auto()
    HEADING = auto()
    RULE = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Block:
    """``text`` with its marks, as far as the words need them; its line ends are meant. ``level``
    of a heading: 1 is the highest; of a line such as "Chapter One", which has no mark, 0."""

    kind: Kind
    text: str
    level: int = -1


_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_LINE_END: Final = re.compile(r"\r\n?|[\u0085\u2028\u2029]")
_PAGE_END: Final = re.compile(r"[\f\v]")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_FRONT_MATTER: Final = re.compile(
    r"\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t]+.*\n|-[ \t].*\n){1,200}---[ \t]*\n"
)

_FENCE: Final = re.compile(r"\s*(?:>\s*)*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING: Final = re.compile(r"\s{0,3}(#{1,6})[ \t]+\S")
_UNDERLINE: Final = re.compile(r"\s{0,3}(={2,}|-{2,})\s*")
_RULE: Final = re.compile(r"\s*(?:([-*_])(?:[ \t]*\1){2,}|[⁂#]|={3,})\s*")
_ITEM: Final = re.compile(r"\s*(?:[-*+•‣◦▪●·–][ \t]+\S|(\d{1,3})[.)][ \t]+\S|\|)")
_QUOTE: Final = re.compile(r"\s{0,3}(?:>[ \t]?)+")
_CHAPTER: Final = re.compile(
    r"\s*(?:(?:chapter|part|book|kapitel|teil|chapitre|partie|capítulo|capitolo|parte|hoofdstuk)"
    r"\s+(?:\d{1,4}|[ivxlcdm]{1,9}|[^\W\d_]{2,12}(?:-[^\W\d_]{2,8})?)(?:\s*[.:,—–-].{0,80})?"
    r"|(?:prologue|epilogue|foreword|preface|introduction|afterword|prolog|epilog)\s*[.:]?"
    r"|第\s*[0-9一二三四五六七八九十百零〇]{1,6}\s*[章回].{0,40})\s*",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(r"[.!?…:;,。！？：；，][\"'”’»)\]*_]*\s*$")
_HARD: Final = re.compile(r"(?: {2,}|\\)$")
_CJK: Final = "[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60]"
_NO_BLANK: Final = re.compile(rf"{_CJK}\n{_CJK}|[^\W\d_]-\n[^\W\d_]")

_LEAST_WIDTH: Final = 40
"""Of a paragraph that was wrapped; what is narrower has its lines on purpose."""


def blocks(text: str) -> Iterator[Block]:
    """All of ``text``, in order; nothing for blank lines."""
    lines = _Lines(clean(text).split("\n"))
    while (line := lines.peek()) is not None:
        if not line.strip():
            lines.skip()
        elif fence := _FENCE.match(line):
            yield Block(Kind.CODE, lines.take_code(fence[1]))
        elif heading := _HEADING.match(line):
            yield Block(Kind.HEADING, lines.take(), len(heading[1]))
        elif _RULE.fullmatch(line):
            yield Block(Kind.RULE, lines.take())
        elif _ITEM.match(line):
            yield Block(Kind.ITEM, joined(lines.take_paragraph(of_item=True)))
        else:
            yield _paragraph(lines)


def clean(text: str) -> str:
    """``text`` with one kind of line end, without what controls terminals and printers."""
    text = _LINE_END.sub("\n", _ESCAPES.sub("", text.removeprefix("\ufeff")))
    text = _CONTROLS.sub("", _PAGE_END.sub("\n\n", text))
    return _FRONT_MATTER.sub("", text, count=1) if _FRONT_MATTER.match(text) else text


def joined(lines: list[str]) -> str:
    """The lines of a paragraph, those joined that were only wrapped."""
    if len(lines) == 1:
        return lines[0]
    width = max(map(len, lines))
    text = lines[0]
    for before, line in pairwise(lines):
        meant = _HARD.search(before) or not _wrapped(before, line, width)
        text = text.rstrip(" \\")
        both = f"{text[-2:]}\n{line.lstrip()[:1]}"
        glue = "\n" if meant else "" if _NO_BLANK.search(both) else " "
        text += glue + line.lstrip()
    return text


def _wrapped(line: str, following: str, width: int) -> bool:
    """Whether ``line`` ends only since the next word did not fit in."""
    words = following.split(None, 1)
    if width >= _LEAST_WIDTH and len(line.rstrip()) + 1 + len(words[0]) > width:
        return True
    return words[0][:1].islower() and not _ENDED.search(line)


def _paragraph(lines: _Lines) -> Block:
    taken = lines.take_paragraph(of_item=False)
    underline = lines.peek() or ""
    if len(taken) == 1:
        [line] = taken
        if mark := _UNDERLINE.fullmatch(underline):
            lines.skip()
            return Block(Kind.HEADING, f"# {line.strip()}", 1 if mark[1][0] == "=" else 2)
        if not underline.strip() and _CHAPTER.fullmatch(line):
            return Block(Kind.HEADING, f"# {line.strip()}", 0)
    return Block(Kind.PARAGRAPH, joined(taken))


class _Lines:
    """Lines that are still to be read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def peek(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def skip(self) -> None:
        self._at += 1

    def take(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def take_code(self, fence: str) -> str:
        """To the line that closes it, or the end."""
        taken = [self.take()]
        while (line := self.peek()) is not None:
            taken.append(self.take())
            bare = line.strip().lstrip("> ")
            if len(bare) >= len(fence) and not bare.strip(fence[0]):
                break
        return "\n".join(taken)

    def take_paragraph(self, *, of_item: bool) -> list[str]:
        """To the line before one that begins something else; quoted ones without their marks. A
        row of a table is an item by itself."""
        first = self.take()
        taken = [_unquoted(first)]
        if of_item and first.lstrip().startswith("|"):
            return taken
        while (line := self.peek()) is not None and not _begins(line, of_item):
            taken.append(_unquoted(line))
            self.skip()
        return taken


def _unquoted(line: str) -> str:
    mark = _QUOTE.match(line)
    return line[mark.end() :] if mark else line


def _begins(line: str, of_item: bool) -> bool:
    """Whether a paragraph, or an item of a list, ends before ``line``. A number may begin a line
    of prose by chance: only a 1 begins a list in the middle of it."""
    bare = _unquoted(line)
    if not bare.strip() or _FENCE.match(line) or _HEADING.match(line):
        return True
    if _RULE.fullmatch(bare) or _UNDERLINE.fullmatch(bare):
        return True
    item = _ITEM.match(bare)
    return item is not None and (of_item or item[1] in (None, "1"))
