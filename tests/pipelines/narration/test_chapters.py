"""Where chapters begin, and what they are called."""

import time

from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters


def titles(text: str) -> list[str]:
    return [chapter.title for chapter in chapters(blocks(text))]


def test_the_highest_level_that_has_several_headings() -> None:
    text = "# Book\n\n## One\n\na\n\n### Part\n\n## Two\n\nb"
    found = chapters(blocks(text))
    assert [chapter.title for chapter in found] == ["One", "Two"]
    assert [block.text for block in found[0].blocks] == ["# Book", "## One", "a", "### Part"]


def test_words_before_the_first_chapter_are_one() -> None:
    assert titles("# Book\n\nBy me.\n\n## One\n\na\n\n## Two\n\nb") == ["Book", "One", "Two"]
    assert titles("For you.\n\n# One\n\na\n\n# Two\n\nb") == ["", "One", "Two"]


def test_a_single_heading_begins_one_as_well() -> None:
    assert titles("# Only\n\na") == ["Only"]
    assert titles("a\n\n## Later\n\nb") == ["", "Later"]


def test_lines_of_plain_text_count_where_nothing_is_marked() -> None:
    assert titles("Chapter One\n\na\n\nChapter Two: *On*\n\nb") == [
        "Chapter One",
        "Chapter Two: On",
    ]
    assert titles("# A\n\nChapter One\n\na\n\n# B\n\nb") == ["A", "B"]


def test_none_of_it_is_one_chapter_and_nothing_is_none() -> None:
    assert titles("a\n\nb") == [""]
    assert chapters(blocks(" \n")) == []


def test_titles_are_plain_and_bounded() -> None:
    assert titles("# [Link](http://x.y) **bold**.\n\na") == ["Link bold"]
    assert len(titles(f"# {'long ' * 60}\n\na")[0]) <= 100


def test_a_heading_of_blanks_without_end_takes_no_time() -> None:
    began = time.process_time()
    assert titles(f"chapter {' ' * 20_000}x") == ["chapter x"]
    assert time.process_time() - began < 2.0  # it took a minute
