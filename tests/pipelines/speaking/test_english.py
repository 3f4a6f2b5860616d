"""Symbols and code in English."""

import pytest

from pipelines.speaking.normalise import speakable

CODE = [
    ("Use `<div>`, `a->b` and `.env`.", "Use div, a to b and dot env."),
    ("Use `git commit -m` now.", "Use git commit dash m now."),
    ("Call `get_user_name()` or `userName`.", "Call get user name or user Name."),
    ("Set `x = 5` and `--verbose`.", "Set x equals five and dash dash verbose."),
    (
        "Edit `/etc/hosts` or `config.json`.",
        "Edit slash et cetera slash hosts or config dot json.",
    ),
    ("`a != b && c <= d`", "a is not b and c at most d"),
]


@pytest.mark.parametrize(("text", "spoken"), CODE)
def test_code_in_a_sentence_is_said_by_its_words(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken


SYMBOLS = [
    (
        "Solve \\(x \\times \\frac{1}{2} \\leq \\alpha\\).",
        "Solve (x times one over two at most alpha).",
    ),
    ("The @ sign, 100 % sure", "The at sign, one hundred percent sure"),
    ("C++ and C#", "C plus plus and C sharp"),
    ("§ 5 ©2024 Acme™", "section five copyright twenty twenty-four Acme"),
    ("A → B -> C", "A, B, C"),
    ("Wait… what?! No...", "Wait… what?! No..."),
    ("“Hello,” she said—‘fine’.", "“Hello,” she said—‘fine’."),
    ("Don't, can't, it's, o'clock", "Don't, can't, it's, o'clock"),
    ("café, naïve, Zoë", "café, naïve, Zoë"),
    ("你好，世界。", "你好，世界。"),
]


@pytest.mark.parametrize(("text", "spoken"), SYMBOLS)
def test_symbols_are_named_or_left_out(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
