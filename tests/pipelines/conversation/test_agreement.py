"""LocalAgreement-2: what two readings in a row agree on is shown, and never taken back."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.agreement import Agreement


def shown(*readings: str) -> list[str | None]:
    agreement = Agreement()
    return [agreement.add(reading) for reading in readings]


def test_the_common_beginning_of_two_readings_is_shown() -> None:
    assert shown("I", "I want a", "I want tea", "I want tea please") == [
        *(None, "I", "I want", "I want tea"),
    ]


def test_case_and_marks_make_no_difference_and_the_newer_spelling_counts() -> None:
    assert shown("hello. There", "Hello there, you") == [None, "Hello there,"]


def test_a_reading_that_begins_otherwise_shows_nothing_and_takes_nothing_back() -> None:
    assert shown("so what", "so what is", "no", "no", "so what is it", "so what is it") == [
        *(None, "so what", None, None, None, "so what is it"),
    ]


def test_silence_shows_nothing() -> None:
    assert shown("", "", "a", "") == [None, None, None, None]


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6).map(" ".join), max_size=12))
def test_what_is_shown_only_grows(readings: list[str]) -> None:
    lengths = [len(text.split()) for text in shown(*readings) if text is not None]
    assert lengths == sorted(set(lengths))
