"""The chapters of a text: where they begin, and what they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.narration.blocks import Block, Kind
from pipelines.speaking.markup import plain, tidy

_LONGEST_TITLE: Final = 100
_LONGEST_HEADING: Final = 400
"""Characters, marks and all: to take the marks off takes as long as the square of them."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """``title`` is empty where a text begins without a heading."""

    title: str
    blocks: tuple[Block, ...]


def chapters(blocks: Iterable[Block]) -> list[Chapter]:
    """The chapters, one at least unless there are no blocks.

    They begin at the headings of the highest level that has several, which leaves the title of a
    book aside; lines such as "Chapter One" count where there are no marked headings. Headings
    alone in front of the first chapter belong to it; any other text there is one by itself.
    """
    every = list(blocks)
    level = _level(every)
    parts: list[list[Block]] = [[]]
    front = True  # there is nothing yet but headings above the first chapter's
    for block in every:
        if block.kind is Kind.HEADING and block.level == level and not front:
            parts.append([])
        parts[-1].append(block)
        front = front and block.kind in (Kind.HEADING, Kind.RULE)
    return [Chapter(_title(part, level), tuple(part)) for part in parts if part]


def _level(blocks: Sequence[Block]) -> int:
    """The level of the headings that begin chapters; -1 where there are none."""
    counts = Counter(block.level for block in blocks if block.kind is Kind.HEADING)
    levels = sorted(counts.keys() - {0}) or sorted(counts)
    return next((level for level in levels if counts[level] > 1), levels[0] if levels else -1)


def _title(part: Sequence[Block], level: int) -> str:
    headings = [block for block in part if block.kind is Kind.HEADING]
    own = [block for block in headings if block.level == level]
    first = (own or headings)[:1]
    if not first or part[0].kind not in (Kind.HEADING, Kind.RULE):
        return ""
    text = " ".join(first[0].text.split())[:_LONGEST_HEADING]
    words = tidy(plain(text, starts_line=True, code=str)).rstrip(".")
    return words[:_LONGEST_TITLE].rstrip()
