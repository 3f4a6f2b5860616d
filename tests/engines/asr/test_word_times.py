"""Tokens with their places become words with their times."""

import pytest

from engines.asr.word_times import words_of
from engines.ports import Word


def test_a_word_goes_from_its_first_token_to_the_next_words() -> None:
    texts = [" Go", " for", "ward", "."]
    path = [(0, 0), (0, 9), (1, 10), (2, 12), (2, 20), (3, 30), (4, 35), (4, 60)]
    assert words_of(texts, path, [0.5, 0.8, 0.6, 1.0]) == (
        Word("Go", 0, 200, 0.5),
        Word("forward.", 200, 700, 0.8),
    )


def test_scripts_without_blanks_have_a_word_for_each_letter() -> None:
    path = [(n, 10 * n) for n in range(4)]
    words = words_of(["日本", "", "語"], path, [1.0, 1.0, 1.0])
    assert [(word.text, word.start_ms, word.end_ms) for word in words] == [
        ("日本", 0, 400),
        ("語", 400, 600),
    ]


def test_blanks_alone_are_no_word_and_nothing_is_none() -> None:
    assert words_of([" ", " a"], [(0, 0), (1, 5), (2, 9)], [1.0, 0.5]) == (
        Word("a", 100, 180, 0.5),
    )
    assert words_of([], [], []) == ()


def test_a_path_that_skips_a_token_ends_it_with_the_clip() -> None:
    [word] = words_of([" a"], [(0, 4), (0, 9)], [0.25])
    assert (word.start_ms, word.end_ms) == (80, pytest.approx(80))
