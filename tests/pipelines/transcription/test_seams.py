"""Words that were heard in two chunks are told once."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from engines.ports import Segment, Word
from pipelines.transcription.captions import Utterance, words_of
from pipelines.transcription.seams import part


def said(*texts: str, timed: bool = False) -> Utterance:
    segments, at_ms = [], 0
    for text in texts:
        words = tuple(
            Word(word, at_ms + 100 * n, at_ms + 100 * n + 90) for n, word in enumerate(text.split())
        )
        end_ms = at_ms + 100 * len(words)
        segments.append(Segment(text, at_ms, end_ms, words=words if timed else ()))
        at_ms = end_ms
    return Utterance(" ".join(texts), tuple(segments), "en", "")


def moved(utterance: Utterance, by_ms: int) -> Utterance:
    def later(each: Any) -> Any:
        return replace(each, start_ms=each.start_ms + by_ms, end_ms=each.end_ms + by_ms)

    segments = (
        replace(later(segment), words=tuple(map(later, segment.words)))
        for segment in utterance.segments
    )
    return replace(utterance, segments=tuple(segments))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("we went to the", "To the river.", "we went to the | river."),
        ("we went to the ri", "the river ran", "we went to the | river ran"),
        ("we went to the", "it's the river", "we went to the | river"),
        ("we went", "to the river", "we went | to the river"),
        ("the old man and I", "sat on the shore", "the old man and I | sat on the shore"),
        ("so so so", "so so so", "so so so | "),
        ("", "to the river", " | to the river"),
        ("we went", "", "we went | "),
    ],
)
def test_what_both_have_is_told_by_the_first(before: str, after: str, expected: str) -> None:
    first, second = part(said(before), said(after))
    assert f"{first.text} | {second.text}" == expected


def test_segments_lose_the_words_too_and_empty_ones_go() -> None:
    first, second = part(said("one two", "three four"), said("three four", "five six"))
    assert [each.text for each in first.segments] == ["one two", "three four"]
    assert [each.text for each in second.segments] == ["five six"]
    first, _ = part(said("one two", "three four."), said("two three", "four x"))
    assert first.text == "one two three four."


def test_what_is_left_of_a_segment_begins_with_its_first_word() -> None:
    after = moved(said("two three four five", timed=True), 100)
    _, second = part(said("one two three", timed=True), after)
    [segment] = second.segments
    assert (segment.text, segment.start_ms, segment.end_ms) == ("four five", 300, 490)
    assert [word.text for word in segment.words] == ["four", "five"]
    after = moved(said("two three four", timed=True), 100)
    first, _ = part(said("one two thr", timed=True), after)
    assert (first.segments[0].text, first.segments[0].end_ms) == ("one two", 190)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("after", ["d e f", "x y z", "u v w x y z"])
def test_what_is_left_of_both_does_not_overlap(after: str, *, timed: bool) -> None:
    at_ms = 550 - 100 * len(after.split())
    first, second = part(said("a b c d", timed=timed), moved(said(after, timed=timed), at_ms))
    spoken = [*first.spoken, *second.spoken]
    assert all(each.start_ms < each.end_ms for each in spoken)
    for some in (spoken, [word for each in spoken for word in words_of(each)]):
        assert all(each.start_ms <= each.end_ms for each in some)
        assert all(one.end_ms <= other.start_ms for one, other in pairwise(some))
    assert spoken[0].start_ms == 0
    assert spoken[-1].end_ms in (540, 550)
