"""What is left of a reply behind a place in its audio: every sample and every word once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark, Pcm
from engines.ports import Usage
from pipelines.conversation.events import Output, ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.heard import Span
from pipelines.conversation.unheard import Unheard

RATE = 1_000
"""A sample a millisecond."""

FADED = 5
"""Samples that a fade at a cut may change."""


def ramp(start: int, count: int) -> Pcm:
    return Pcm(np.arange(start, start + count, dtype=np.int16), RATE)


def said(*phrases: tuple[str, list[int]]) -> Unheard:
    """Phrases with the sizes of their pieces; each sample is its place in the reply."""
    unheard, place = Unheard(), 1_000
    for text, sizes in phrases:
        unheard.note(ReplyText(1, text))
        for size in sizes:
            unheard.note(ReplyAudio(1, ramp(place, size)))
            place += size
    return unheard


def finished(unheard: Unheard) -> Unheard:
    unheard.note(ReplyFinished(1, Usage()))
    return unheard


def samples(outputs: list[Output]) -> list[int]:
    return [
        int(sample)
        for output in outputs
        if isinstance(output, ReplyAudio)
        for sample in output.pcm.samples
    ]


def texts(outputs: list[Output]) -> list[str]:
    return [output.text for output in outputs if isinstance(output, ReplyText)]


TWO = (("one two three four", [100, 100]), (" five six", [100]))


def test_nothing_heard_leaves_everything() -> None:
    rest = said(*TWO).rest(1, 0)
    assert texts(rest) == ["one two three four", " five six"]
    assert samples(rest) == list(range(1_000, 1_300))


def test_a_phrase_that_was_cut_goes_on_with_its_next_word() -> None:
    rest = said(*TWO).rest(1, 110)
    assert texts(rest) == ["three four", " five six"]
    assert samples(rest)[FADED:] == list(range(1_110 + FADED, 1_300))


def test_all_heard_leaves_nothing() -> None:
    unheard = finished(said(*TWO))
    assert unheard.rest(1, 300) == []
    assert unheard.cut(300) is None
    assert finished(Unheard()).rest(1, 0) == []


def test_a_phrase_that_has_no_audio_yet_is_left_to_come() -> None:
    unheard = said(("one", [100]), (" two", []))
    assert texts(unheard.rest(1, 100)) == ["two"]
    assert unheard.cut(100) == (1, Span("", 100, 100))


def test_a_phrase_whose_audio_is_still_being_made_lasts_as_long_as_one_speaks() -> None:
    unheard = said(("one two three four five", [300]))
    assert texts(unheard.rest(1, 300)) == ["two three four five"]
    assert unheard.cut(300) == (0, Span("one", 0, 300))
    unheard.note(ReplyAudio(1, ramp(1_300, 1_700)))
    assert texts(unheard.rest(1, 1_000)) == ["three four five"]
    assert texts(finished(unheard).rest(1, 1_999)) == ["five"]


def test_what_is_forgotten_is_over() -> None:
    unheard = said(*TWO)
    unheard.forget(200)
    assert texts(unheard.rest(1, 0)) == ["five six"]
    unheard.forget(9_000)
    assert texts(unheard.rest(1, 0)) == ["five six"], "the last may still be cut by the client"


def test_what_is_made_while_the_reply_is_silent_is_kept_with_the_phrases() -> None:
    unheard = said(("one two", [100]))
    assert unheard.keep(ReplyAudio(1, ramp(1_100, 100)))
    assert unheard.keep(ReplyText(1, " three"))
    assert not unheard.keep(ReplyFinished(1, Usage())), "it comes last"
    assert unheard.cut(150) == (0, Span("one", 0, 150))
    assert samples(unheard.rest(1, 150))[FADED:] == list(range(1_150 + FADED, 1_200))
    unheard.forget(250)
    assert unheard.cut(250) is None
    assert finished(said(*TWO)).cut(270) == (1, Span(" five", 200, 270))
    unheard.note(ReplyText(1, " four"))
    assert unheard.cut(250) == (2, Span("", 200, 200))


def test_mere_text_is_never_cut() -> None:
    unheard = Unheard()
    unheard.note(ReplyText(1, "Just"))
    assert not unheard.keep(ReplyText(1, " text."))
    assert unheard.rest(1, 0) == []
    assert unheard.cut(0) is None


def test_what_is_no_sound_and_no_words_leaves_nothing() -> None:
    unheard = Unheard()
    unheard.note(ReplyFinished(1, Usage()))
    assert unheard.rest(1, 0) == []


def test_audio_without_words_is_kept_too() -> None:
    unheard = Unheard()
    unheard.note(ReplyAudio(1, ramp(0, 50)))
    assert samples(unheard.rest(1, 0)) == list(range(50))


def test_what_is_left_of_a_reading_goes_with_what_is_left_of_the_text() -> None:
    unheard = Unheard()
    unheard.note(ReplyText(1, "It is $5.20 today.", "It is five twenty today."))
    marks = (Mark(2, 10), Mark(5, 20), Mark(10, 40), Mark(17, 60))
    unheard.note(ReplyAudio(1, Pcm(ramp(0, 80).samples, RATE, marks)))
    unheard.note(ReplyAudio(1, Pcm(ramp(80, 20).samples, RATE, (Mark(23, 10),))))
    text, first, second = unheard.rest(1, 45)
    assert text == ReplyText(1, "$5.20 today.", " twenty today.")
    assert isinstance(first, ReplyAudio)
    assert isinstance(second, ReplyAudio)
    assert first.pcm.marks == (Mark(7, 15),)
    assert second.pcm.marks == (Mark(13, 10),)


def test_a_pause_that_is_left_of_a_phrase_has_no_words() -> None:
    unheard = Unheard()
    unheard.note(ReplyText(1, "One."))
    unheard.note(ReplyAudio(1, Pcm(ramp(0, 100).samples, RATE, (Mark(3, 60),))))
    (rest,) = unheard.rest(1, 70)
    assert isinstance(rest, ReplyAudio)
    assert len(rest.pcm) == 30


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), min_size=1, max_size=5),
    st.floats(0, 1_200),
)
def test_what_is_left_is_all_that_was_not_heard(sizes: list[list[int]], heard_ms: float) -> None:
    phrases = [(f" w{index} x y", pieces) for index, pieces in enumerate(sizes)]
    total = sum(map(sum, sizes))
    unheard = said(*phrases)
    unheard.forget(heard_ms)
    rest = samples(unheard.rest(1, heard_ms))
    left = total - min(total, round(heard_ms))
    assert abs(len(rest) - left) <= 1
    assert rest[FADED:] == list(range(1_000 + total - len(rest) + FADED, 1_000 + total))
