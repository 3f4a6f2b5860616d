"""Words that two chunks have in common, told once.

Where speech has no pause to cut it at, the end of one chunk is the beginning of the next, so that
each word is heard whole in one of them at least.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from typing import Final, TypeVar

from engines.ports import Segment, Word
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import held

T = TypeVar("T", Segment, Word)

_MOST_SHARED: Final = 6
"""Words on either side of a seam that may be the same: as many as fit into what is shared."""

_MOST_CUT: Final = 2
"""Words around one that both have which may be what is left of words cut in two."""

_EVER: Final = 1 << 62

_PUNCTUATION: Final = "\"'.,;:!?…-–—()[]¿¡。、！？"


def part(before: Utterance, after: Utterance) -> tuple[Utterance, Utterance]:
    """The same without what both have: they were heard in chunks of which the end of one is the
    beginning of the other. Words at the very cut, which either heard the half of, go too. What is
    left of one is over before the other begins."""
    ends, begins = before.text.split(), after.text.split()
    tail, head = ends[-_MOST_SHARED:], begins[:_MOST_SHARED]
    matcher = SequenceMatcher(
        None, [_plain(word) for word in tail], [_plain(word) for word in head]
    )
    match = matcher.find_longest_match()
    if match.size and len(tail) - match.a - match.size + match.b <= _MOST_CUT:
        kept = len(ends) - len(tail) + match.a + match.size
        dropped = match.b + match.size
        before, after = _cut(before, 0, kept), _cut(after, dropped, len(begins))
    return _apart(before, after)


def _apart(before: Utterance, after: Utterance) -> tuple[Utterance, Utterance]:
    """Where both claim the same time, each has its half of it."""
    if not before.segments or not after.segments:
        return before, after
    end_ms, start_ms = before.segments[-1].end_ms, after.segments[0].start_ms
    if start_ms >= end_ms:
        return before, after
    border_ms = (start_ms + end_ms) // 2
    return _within(before, 0, border_ms), _within(after, border_ms, _EVER)


def _within(utterance: Utterance, first_ms: int, last_ms: int) -> Utterance:
    """All of it held between two times."""

    def within(spoken: T, least_ms: int) -> T:
        span = held(spoken.start_ms, spoken.end_ms, first_ms, last_ms, least_ms)
        return replace(spoken, start_ms=span[0], end_ms=span[1])

    segments = (
        replace(within(segment, 1), words=tuple(within(word, 0) for word in segment.words))
        for segment in utterance.segments
    )
    return replace(utterance, segments=tuple(segments))


def _plain(word: str) -> str:
    return word.strip(_PUNCTUATION).casefold()


def _cut(utterance: Utterance, first: int, last: int) -> Utterance:
    """Its words from one to another, in their segments."""
    segments, place = [], 0
    for segment in utterance.segments:
        words = segment.text.split()
        kept = slice(max(0, first - place), max(0, min(len(words), last - place)))
        place += len(words)
        if words[kept]:
            segments.append(_part_of(segment, words, kept))
    text = " ".join(utterance.text.split()[first:last])
    return replace(utterance, text=text, segments=tuple(segments))


def _part_of(segment: Segment, words: list[str], kept: slice) -> Segment:
    timed = segment.words[kept] if len(segment.words) == len(words) else ()
    start_ms = timed[0].start_ms if timed else segment.start_ms
    end_ms = timed[-1].end_ms if timed else segment.end_ms
    text = " ".join(words[kept])
    return replace(segment, text=text, start_ms=start_ms, end_ms=end_ms, words=timed)
