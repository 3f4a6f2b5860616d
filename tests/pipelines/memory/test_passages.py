"""Passages are short enough to be told, and nothing of a document is lost or doubled."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pipelines.memory.parts import Part
from pipelines.memory.passages import MOST_WORDS, Passage, passages, words


def test_short_paragraphs_of_one_heading_are_one_passage_with_the_place_of_the_first() -> None:
    parts = [
        Part("Breakfast is from seven to ten.", "line 3", "Meals"),
        Part("Dinner is at eight.", "line 5", "Meals"),
        Part("Park behind the house.", "line 9", "Cars"),
        Part("No heading here.", "line 12"),
    ]
    assert list(passages(parts)) == [
        Passage("Meals\nBreakfast is from seven to ten.\nDinner is at eight.", "Meals, line 3"),
        Passage("Cars\nPark behind the house.", "Cars, line 9"),
        Passage("No heading here.", "line 12"),
    ]


def test_what_is_whole_stays_by_itself() -> None:
    rows = [Part(f"room: {n}; price: {n}0", f"line {n}", whole=True) for n in (2, 3)]
    assert [passage.place for passage in passages(rows)] == ["line 2", "line 3"]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"Sentence number {n} has exactly seven words here." for n in range(30)]
    cut = list(passages([Part(" ".join(sentences), "line 1")]))
    assert len(cut) == 5
    assert all(passage.text.endswith("here.") for passage in cut)
    assert " ".join(passage.text for passage in cut) == " ".join(sentences)


def test_what_does_not_end_is_cut_by_words_and_what_has_no_words_by_length() -> None:
    endless = " ".join(f"word{n}" for n in range(200))
    cut = [passage.text for passage in passages([Part(endless, "line 1")])]
    assert [words(text) for text in cut] == [60, 60, 60, 20]
    assert " ".join(cut) == endless
    solid = "x" * 5_000
    cut = [passage.text for passage in passages([Part(solid, "line 1")])]
    assert [len(text) for text in cut] == [800] * 6 + [200]
    assert "".join(cut) == solid


def test_characters_of_scripts_without_spaces_count_each() -> None:
    assert words("时间表 is 3") == 5
    cut = list(passages([Part("早餐七点到十点供应。" * 30, "line 1")]))
    assert all(words(passage.text) <= MOST_WORDS for passage in cut)
    assert "".join(passage.text.replace(" ", "") for passage in cut) == "早餐七点到十点供应。" * 30


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=3_000), max_size=5))
def test_nothing_is_lost_and_nothing_is_long(texts: list[str]) -> None:
    parts = [Part(text, f"line {n}") for n, text in enumerate(texts)]
    cut = list(passages(parts))
    for passage in cut:
        assert len(passage.text) <= 800
        assert words(passage.text) <= MOST_WORDS
    told = re.sub(r"\s", "", "".join(passage.text for passage in cut))
    assert told == re.sub(r"\s", "", "".join(texts))


def test_a_heading_that_does_not_end_is_cut() -> None:
    [passage] = passages([Part("At seven.", "line 2", "h" * 100_000)])
    assert passage == Passage(f"{'h' * 200}\nAt seven.", f"{'h' * 200}, line 2")
