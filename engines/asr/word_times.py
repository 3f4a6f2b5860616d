"""Words and their times, from what a decoder of the Whisper kind looked at for each token.

A path through its cross-attention (dynamic time warping, as in openai/whisper's ``timing.py``)
goes from the first token at the first frame to the end token at the last one; a token begins where
the path comes to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from engines.asr.guard import UNSPACED
from engines.ports import Word

FRAME_MS: Final = 20
"""Of the encoder's states."""

_BEGINS: Final = re.compile(rf"\s|[{UNSPACED}]")


def words_of(
    texts: Sequence[str], path: Iterable[tuple[int, int]], probabilities: Sequence[float]
) -> tuple[Word, ...]:
    """The words of some tokens, whose ``texts`` (n,) are what each adds to the text and whose
    ``probabilities`` (n,) the decoder gave them. ``path``: (token, frame) in rising order, the end
    token n among them. A word is as sure as its tokens are on average."""
    begin: dict[int, int] = {}
    for token, frame in path:
        begin.setdefault(token, frame)
    end = max(begin.values(), default=0)
    words = []
    for first, last in _runs(texts):
        text = "".join(texts[first:last]).strip()
        start_ms, end_ms = (FRAME_MS * begin.get(at, end) for at in (first, last))
        if text:
            sure = sum(probabilities[first:last]) / (last - first)
            words.append(Word(text, start_ms, max(end_ms, start_ms), round(sure, 3)))
    return tuple(words)


def _runs(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From where to where the tokens of one word go: it begins with a blank, or with a letter of a
    script that has none."""
    starts = [place for place, text in enumerate(texts) if not place or _BEGINS.match(text)]
    return pairwise([*starts, len(texts)])
