"""From a moment in a phrase's audio to the words that had been heard by then."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark
from pipelines.conversation.heard import LETTERS_PER_PAUSE, MS_PER_CHARACTER, Span

END_MS = 1_000.0


def heard(text: str, at_ms: float, *, spoken: str = "", marks: tuple[Mark, ...] = ()) -> str:
    return Span(text, 0.0, END_MS, spoken, list(marks)).heard_text(at_ms, END_MS)


def marks_at(spoken: str, *ends_ms: float) -> tuple[Mark, ...]:
    """The ends of its words at these times."""
    words = list(re.finditer(r"\S*\w", spoken))
    return tuple(Mark(word.end(), at) for word, at in zip(words, ends_ms, strict=True))


def test_a_phrase_is_cut_off_behind_the_words_that_were_heard() -> None:
    marks = (Mark(3, 200.0), Mark(7, 500.0), Mark(13, 900.0))
    span = Span(" 1 or more", 500.0, 1_500.0, "one, or rather more", [*marks])
    cut = span.until(1_050.0, 1_500.0)
    assert cut == Span(" 1 or", 500.0, 1_050.0, "one, or", [marks[0], marks[1]])
    assert span.until(300.0, 1_500.0) == Span("", 500.0, 500.0)
    assert span.until(9_000.0, 1_500.0) == Span(
        " 1 or more", 500.0, 1_500.0, "one, or rather more", [*marks]
    )


@given(st.text("ab .,1", max_size=30), st.floats(0, 1_200))
def test_what_was_heard_of_a_phrase_that_was_cut_off_is_heard_of_its_part(
    text: str, at_ms: float
) -> None:
    whole = Span(text, 0.0, END_MS)
    part = whole.until(at_ms, END_MS)
    assert part.text == whole.heard_text(at_ms, END_MS)
    assert part.heard_text(part.end_ms, part.end_ms) == part.text


def test_a_phrase_that_may_go_on_lasts_as_long_as_somebody_lively_would_take() -> None:
    assert Span("four", 500.0, 600.0).likely_end_ms == 500 + 4 * MS_PER_CHARACTER
    assert Span("4", 500.0, 600.0, "four").likely_end_ms == 500 + 4 * MS_PER_CHARACTER
    assert Span("four", 500.0, 1_600.0).likely_end_ms == 1_600


def test_a_span_is_heard_from_its_start_to_its_end() -> None:
    span = Span(" four five", 500.0, 1_500.0)
    assert [span.heard_text(at, 1_500.0) for at in (0, 500, 1_499, 1_500, 9_000)] == [
        *("", "", " four"),
        *(" four five", " four five"),
    ]


# --- time is shared out by letters, where the voice tells no better ---------------------------


def test_letters_take_time_alike() -> None:
    text = "aaaa bbbb cccc dddd"  # 19 letters
    at = [heard(text, letters / 19 * END_MS + 0.01) for letters in (3, 4, 8, 9, 14, 18)]
    assert at == ["", "aaaa", "aaaa", "aaaa bbbb", "aaaa bbbb cccc", "aaaa bbbb cccc"]


@pytest.mark.parametrize("pause", [",", ".", ";", "…", "?"])
def test_a_pause_takes_time_too(pause: str) -> None:
    text = f"aaaa{pause} bbbb"
    letters = 4 + LETTERS_PER_PAUSE + 5
    assert heard(text, (4 + LETTERS_PER_PAUSE) / letters * END_MS) == f"aaaa{pause}"
    assert heard(text, 4.01 / letters * END_MS) == f"aaaa{pause}", "heard with its last letter"
    assert heard(text, 3.99 / letters * END_MS) == ""


def test_a_point_inside_a_number_is_no_pause() -> None:
    assert heard("a 3.5 b", 5 / 7 * END_MS + 0.01) == "a 3.5"


def test_words_need_no_spaces_where_a_script_has_none() -> None:
    text = "今日は。晴れ"
    letters = 3 + LETTERS_PER_PAUSE + 2
    assert heard(text, 2 / letters * END_MS) == "今日"
    assert heard(text, 3 / letters * END_MS) == "今日は。"


def test_what_has_no_words_is_heard_with_its_end() -> None:
    assert [heard("…", at) for at in (0, 999, 1_000)] == ["", "", "…"]
    assert [heard("", at) for at in (0, 999, 1_000)] == ["", "", ""]


# --- the voice marks the ends of its words ---------------------------------------------------


def test_a_marked_word_is_heard_at_its_mark() -> None:
    text = "One, two three."
    marks = marks_at(text, 100, 800, 900)
    at = [heard(text, ms, marks=marks) for ms in (99, 100, 799, 800, 899, 900, 1_000)]
    assert at == ["", "One,", "One,", "One, two", "One, two", text, text]


def test_marks_are_counted_from_the_sound_of_the_phrase_though_it_comes_in_pieces() -> None:
    span = Span("one two", 2_000.0, 2_000.0)
    span.sound(400, [Mark(3, 300)])
    span.sound(400, [Mark(7, 200)])
    assert (span.end_ms, span.marks) == (2_800, [Mark(3, 300), Mark(7, 600)])
    assert [span.heard_text(at, 2_800) for at in (2_299, 2_300, 2_599, 2_600)] == [
        *("", "one"),
        *("one", "one two"),
    ]


def test_between_marks_letters_count() -> None:
    text = "a bb cc dd"
    marks = (Mark(1, 100), Mark(10, 910))
    assert heard(text, 360, marks=marks) == "a"
    assert heard(text, 375, marks=marks) == "a bb"


# --- what is read aloud, and what was written --------------------------------------------------


SPOKEN = "It costs five dollars and twenty cents, which is fifty percent more, and only in May."
WRITTEN = " It costs **$5.20**, which is 50% more, and only in May."


@pytest.mark.parametrize(
    ("last_word", "written"),
    [
        ("It", " It"),
        ("costs", " It costs"),
        ("five", " It costs"),
        ("twenty", " It costs"),
        ("cents", " It costs **$5.20**,"),
        ("which", " It costs **$5.20**, which"),
        ("percent", " It costs **$5.20**, which is 50%"),
        ("more", " It costs **$5.20**, which is 50% more,"),
        ("May", WRITTEN),
    ],
)
def test_what_was_heard_of_the_reading_is_told_as_it_was_written(
    last_word: str, written: str
) -> None:
    ends = [10.0 * number for number in range(1, len(SPOKEN.split()) + 1)]
    words = SPOKEN.replace(",", "").replace(".", "").split()
    at_ms = ends[len(words) - 1 - words[::-1].index(last_word)]
    assert heard(WRITTEN, at_ms, spoken=SPOKEN, marks=marks_at(SPOKEN, *ends)) == written


def test_what_is_written_and_not_said_goes_with_the_words_around_it() -> None:
    text, spoken = "Look 😀 `here` now", "Look here now"
    marks = marks_at(spoken, 100, 200, 300)
    at = [heard(text, ms, spoken=spoken, marks=marks) for ms in (100, 199, 200, 300)]
    assert at == ["Look", "Look", "Look 😀 `here`", text]


def test_how_much_of_the_reading_was_heard_can_be_asked() -> None:
    span = Span("$5.20 more", 0.0, END_MS, "five dollars twenty more")
    assert span.heard_spoken(600, END_MS) == len("five dollars")
    assert Span("one two", 0.0, END_MS).heard_spoken(600, END_MS) == len("one")


texts = st.text("ab5 .,\n_今😀", max_size=20)


@given(texts, texts, st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1_200)), max_size=5))
def test_whatever_is_written_and_marked_more_time_is_more_words(
    text: str, spoken: str, marked: list[tuple[int, float]]
) -> None:
    offsets, times = sorted(offset for offset, _ in marked), sorted(at for _, at in marked)
    marks = [Mark(min(offset, len(spoken)), at) for offset, at in zip(offsets, times, strict=True)]
    span = Span(text, 0.0, END_MS, spoken, marks if spoken else [])
    before = ""
    for at_ms in range(-100, 1_200, 50):
        now = span.heard_text(at_ms, END_MS)
        assert now.startswith(before)
        assert text.startswith(now)
        before = now
    assert before == text
