"""Text for Orpheus, in pieces that it can hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tts.orpheus_text import TAGS, pieces, seconds_of, speakable

CLAUSE = "and this part of it goes on for a while, "


def squeezed(text):
    return "".join(text.split())


def test_each_sentence_is_a_piece_of_its_own():
    text = "The sun has come up over there. Why is it late today? I do not know!"
    assert pieces(text) == [
        "The sun has come up over there.",
        "Why is it late today?",
        "I do not know!",
    ]


def test_a_very_short_sentence_goes_along_with_the_next():
    assert pieces("Hi. How are you doing today?") == ["Hi. How are you doing today?"]
    assert pieces("How are you doing today? Hi.") == ["How are you doing today?", "Hi."]


def test_a_long_sentence_is_cut_between_its_clauses():
    text = f"Well, {CLAUSE * 10}that is all."
    parts = pieces(text)
    assert len(parts) > 1
    assert all(part.endswith(",") for part in parts[:-1])
    assert squeezed("".join(parts)) == squeezed(text)


def test_without_clauses_it_is_cut_between_words():
    words = [f"word{'s' * (n % 5)}" for n in range(100)]
    parts = pieces(" ".join(words))
    assert len(parts) > 1
    assert " ".join(parts).split() == words


def test_a_word_without_end_is_cut_too():
    parts = pieces("x" * 2000)
    assert "".join(parts) == "x" * 2000
    assert max(map(seconds_of, parts)) <= 12.0 + 1e-6
    assert len(parts) < 15


def test_a_tag_stays_with_the_words_before_it():
    assert pieces("That is so funny. <laugh> But do go on with it.") == [
        "That is so funny. <laugh>",
        "But do go on with it.",
    ]
    assert pieces("<sigh> I am tired of it.") == ["<sigh> I am tired of it."]


def test_a_tag_alone_can_be_spoken():
    assert pieces("<laugh>") == ["<laugh>"]


@pytest.mark.parametrize("text", ["", "   ", "...", "!? —", "*"])
def test_what_has_no_words_is_no_piece(text):
    assert pieces(text) == []


def test_languages_without_blanks_are_cut_at_their_own_stops():
    parts = pieces("今日は良い天気です。" * 12, most_s=6.0)
    assert all(part.endswith("。") for part in parts)
    assert "".join(parts) == "今日は良い天気です。" * 12


def test_digits_take_longer_than_letters():
    assert seconds_of("1234") > 3 * seconds_of("abcd")
    assert seconds_of("<laugh>") == pytest.approx(1.0)


words = st.one_of(
    st.sampled_from([*(f"<{tag}>" for tag in TAGS), "well,", "no.", "1,250", "…", "—"]),
    st.text("abc,.!?;: \"'()é日。", min_size=1, max_size=300),
)


@given(st.lists(words, max_size=40).map(" ".join), st.floats(2.0, 20.0))
def test_no_piece_is_longer_than_allowed_and_no_word_is_lost(text, most_s):
    parts = pieces(text, most_s)
    assert all(seconds_of(part) <= most_s + 1e-6 for part in parts)
    heard = [c for part in parts for c in part if c.isalnum()]
    assert heard == [c for c in text if c.isalnum()]
    for tag in TAGS:
        assert sum(part.count(f"<{tag}>") for part in parts) == text.count(f"<{tag}>")


def test_known_tags_are_all_the_markup_that_is_let_through():
    text = "a <b>bold</b> word <laugh> and <smile> <|eot_id|>\n<custom_token_5> end"
    assert speakable(text, TAGS) == "a bold word <laugh> and end"
    assert speakable("a <smile> here", ("smile",)) == "a <smile> here"


def test_what_is_taken_out_cannot_leave_a_control_token_behind():
    assert "<custom_token_2>" not in speakable("<custom_<b>token_2>", TAGS)
    assert "<|eot_id|>" not in speakable("<|eot<x>_id|>", TAGS)


def test_a_less_than_sign_is_no_markup():
    assert speakable("3 < 4 and 5 > 2", TAGS) == "3 < 4 and 5 > 2"


def test_control_characters_and_halves_of_characters_are_not_spoken():
    assert speakable("a\x00b\ud800c\x85d\x1b\x7fe", TAGS) == "a b c d e"


@pytest.mark.parametrize("between", ["\x00", "\x1f", "\ud800", "\u200b", " ", "<laugh>"])
def test_nothing_that_is_taken_out_makes_a_control_token_of_what_is_left(between):
    for token in ("<|eot_id|>", "<custom_token_5>"):
        for place in range(len(token) + 1):
            assert token not in speakable(token[:place] + between + token[place:], TAGS)
