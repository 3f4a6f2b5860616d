"""Keys become what was typed, once it is all there, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.doors.phone_keypad import MOST_DIGITS, Keypad, typed_words


def test_a_hash_ends_what_is_typed() -> None:
    keypad = Keypad(2_000)
    for digit in "123":
        keypad.press(digit, 0.0)
        assert keypad.take(0.0) == ""
    keypad.press("#", 100.0)
    assert keypad.take(100.0) == "123#"
    assert (keypad.deadline, keypad.take(9_999.0)) == (None, "")


def test_two_seconds_without_a_key_end_it_too() -> None:
    keypad = Keypad(2_000)
    keypad.press("4", 1_000.0)
    keypad.press("2", 2_500.0)
    assert keypad.deadline == 4_500.0
    assert keypad.take(4_000.0) == ""
    assert keypad.take(4_500.0) == "42"


def test_what_is_no_key_is_nothing() -> None:
    keypad = Keypad(2_000)
    for digit in ("", "E", "12", "\n", "٣"):
        keypad.press(digit, 0.0)
    assert keypad.deadline is None


def test_a_key_that_is_stuck_comes_to_an_end() -> None:
    keypad = Keypad(2_000)
    for _ in range(MOST_DIGITS):
        keypad.press("0", 0.0)
    assert keypad.take(0.0) == "0" * MOST_DIGITS


@pytest.mark.parametrize(("digits", "words"), [("12#", "[keypad: 1 2 #]"), ("*", "[keypad: *]")])
def test_a_model_reads_digit_by_digit(digits: str, words: str) -> None:
    assert typed_words(digits) == words


@given(st.lists(st.tuples(st.sampled_from("0123456789*#ABCD"), st.floats(0, 3_000)), max_size=80))
def test_no_key_is_lost_and_none_comes_twice(keys: list[tuple[str, float]]) -> None:
    keypad, now, typed = Keypad(2_000), 0.0, ""
    for digit, wait_ms in keys:
        now += wait_ms
        typed += keypad.take(now)
        keypad.press(digit, now)
        typed += keypad.take(now)
    typed += keypad.take(now + 2_000)
    assert typed == "".join(digit for digit, _ in keys)
    assert keypad.deadline is None
