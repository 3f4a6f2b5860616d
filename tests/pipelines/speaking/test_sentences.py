"""Marks that end a sentence, and those that do not."""

import pytest

from pipelines.speaking.sentences import ends_sentence


@pytest.mark.parametrize(
    ("text", "following", "evidence"),
    [
        ("It ends.", " N", 0),
        ("It ends!", " n", 0),
        ("Ask Mr.", " The ", None),
        ("\n1.", " The ", None),
        ("\n- **b.", " The ", None),
        ("It is No.", " 5", None),
        ("It is no.", " N", 1),
        ("It is no.", " ", None),
        ("It is no.", "\n", 0),
        ("At 3 p.m.", " Then ", 5),
        ("At 3 p.m.", " Then", None),
        ("At 3 p.m.", " Theo ", None),
        ("At 3 p.m.", " \"It's", 4),
        ("In the U.S.", " A.", None),
        ("We sat.", " t", 0),
        ("“So!”", " N", 1),
        ("“So!”", " s", None),
        ("So…", " s", None),
        ("So...", " S", 1),
    ],
)
def test_the_end_of_a_sentence_is_known_by(text: str, following: str, evidence: int | None) -> None:
    shown = ends_sentence(text + following, len(text), at_once=False)
    assert shown == (None if evidence is None else len(text) + evidence)


def test_a_quotation_ends_at_once_where_speed_counts() -> None:
    assert ends_sentence("“So!” s", 5, at_once=True) == 5


def test_a_mark_far_behind_is_not_looked_at() -> None:
    text = "a" * 30 + "mr."
    assert ends_sentence(text + " x", len(text), at_once=False) == len(text)
