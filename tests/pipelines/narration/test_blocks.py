"""Texts as the blocks that they are made of."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.narration.blocks import Block, Kind, blocks, clean, joined

P, I, H, R, C = Kind.PARAGRAPH, Kind.ITEM, Kind.HEADING, Kind.RULE, Kind.CODE  # noqa: E741


def kinds(text: str) -> list[tuple[Kind, str]]:
    return [(block.kind, block.text) for block in blocks(text)]


def test_lines_that_were_only_wrapped_are_one_paragraph() -> None:
    text = "It was a dark and stormy night, and the rain\nfell in torrents. The wind, which\nrose."
    assert kinds(text) == [(P, text.replace("\n", " "))]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["Milk", "Eggs", "Bread"], "Milk\nEggs\nBread"),
        (["A line that ends.", "Another one."], "A line that ends.\nAnother one."),
        (["one line goes", "on in the next"], "one line goes on in the next"),
        (["a hard break  ", "follows"], "a hard break\nfollows"),
        (["a hard break\\", "follows"], "a hard break\nfollows"),
        (["it is a well-", "known thing"], "it is a well-known thing"),
        (["今天天气", "很好"], "今天天气\n很好"),
        (["今" * 50, "很好"], "今" * 50 + "很好"),
        (["x" * 50, "   indented"], "x" * 50 + " indented"),
    ],
)
def test_what_ends_a_line_on_purpose(lines: list[str], text: str) -> None:
    assert joined(lines) == text


def test_headings_of_both_kinds() -> None:
    text = "# One\n\nTwo\n===\ntext\n\nThree\n---\n### Four ###"
    assert list(blocks(text)) == [
        Block(H, "# One", 1),
        Block(H, "# Two", 1),
        Block(P, "text"),
        Block(H, "# Three", 2),
        Block(H, "### Four ###", 3),
    ]


@pytest.mark.parametrize(
    "line",
    ["Chapter One", "CHAPTER XIV.", "chapter 12: A Night", "Part II", "Prologue", "第三章 夜"],
)
def test_lines_that_are_headings_by_their_words(line: str) -> None:
    assert list(blocks(f"before\n\n{line}\n\nafter"))[1] == Block(H, f"# {line}", 0)


@pytest.mark.parametrize(
    "text", ["Chapter One was long.", "Part of it\nis here", "#hashtag", "Chapter One\ngoes on"]
)
def test_lines_that_are_none(text: str) -> None:
    assert [block.kind for block in blocks(text)] == [P]


def test_lists_and_tables_have_an_item_a_line() -> None:
    text = "- one\n- two\n  goes on\n1. three\n12) four\n| a | b |\n|---|---|\n| c | d |"
    assert kinds(text) == [
        (I, "- one"),
        (I, "- two goes on"),
        (I, "1. three"),
        (I, "12) four"),
        (I, "| a | b |"),
        (I, "|---|---|"),
        (I, "| c | d |"),
    ]


def test_a_number_at_the_beginning_of_a_line_of_prose_is_no_list() -> None:
    assert [kind for kind, _ in kinds("It was in the year\n1984. then\n- a list")] == [P, I]
    assert [kind for kind, _ in kinds("These are the steps\n1. first")] == [P, I]


def test_rules_divide() -> None:
    text = "one\n\n***\n\ntwo\n\n* * *\n\n#\n\n⁂\n\n_____\n\n=====\n\nthree\nfour\n***"
    assert [kind for kind, _ in kinds(text)] == [P, R, P, R, R, R, R, R, P, R]


def test_quotes_lose_their_marks() -> None:
    assert kinds("> quoted words\n> go on\nlazily\n\n> > # deep") == [
        (P, "quoted words go on lazily"),
        (P, "# deep"),
    ]


def test_code_is_one_block_to_its_fence_or_the_end() -> None:
    text = "a\n```python\n# no heading\n\n~~~\n```\nb\n~~~~\n```\n~~~\nend"
    assert kinds(text) == [
        (P, "a"),
        (C, "```python\n# no heading\n\n~~~\n```"),
        (P, "b"),
        (C, "~~~~\n```\n~~~\nend"),
    ]


def test_what_controls_terminals_and_printers_goes() -> None:
    assert clean("\ufeffa\r\nb\rc\x1b[31md\x1b[0m\x00\x07e\u2028f\fg\x1bMh") == "a\nb\ncde\nf\n\ngh"


def test_front_matter_goes_and_a_rule_at_the_top_stays() -> None:
    assert clean("---\ntitle: x\ntags:\n  - y\n- z\n---\nHello.") == "Hello."
    assert [kind for kind, _ in kinds("---\nHello.\n\n---\n")] == [R, P, R]


@given(st.text(alphabet='ab #-*>`~|1.\n\r\t"(:=_', max_size=60))
def test_no_word_is_lost_or_doubled(text: str) -> None:
    letters = [letter for letter in text if letter in "ab"]
    given_back = "".join(block.text for block in blocks(text))
    if "---" not in text:
        assert [letter for letter in given_back if letter in "ab"] == letters


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "- " * 300_000,
        "> " * 300_000,
        "a\n" * 200_000,
        "#" * 500_000,
        "`" * 500_000,
    ],
)
def test_much_of_anything_takes_no_longer_than_its_length(text: str) -> None:
    began = time.process_time()
    assert sum(len(block.text) for block in blocks(text)) >= 0
    assert time.process_time() - began < 5
