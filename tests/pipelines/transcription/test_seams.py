"""Words that were heard in two chunks are told once."""

import pytest

from engines.ports import Segment, Word
from pipelines.transcription.captions import Utterance
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
    _, second = part(said("one two three", timed=True), said("two three four five", timed=True))
    [segment] = second.segments
    assert (segment.text, segment.start_ms, segment.end_ms) == ("four five", 200, 390)
    assert [word.text for word in segment.words] == ["four", "five"]
    first, _ = part(said("one two thr", timed=True), said("two three four", timed=True))
    assert (first.segments[0].text, first.segments[0].end_ms) == ("one two", 190)
