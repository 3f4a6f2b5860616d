"""What holds for all that is spoken."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tts.orpheus_text import TAGS
from pipelines.speaking.normalise import speakable

PLAIN = "yes of course the parcel should arrive tomorrow morning and we can look into your bill"
WRITTEN = (
    "$5.20 €3bn 2026-11-30 11/30/2026 3pm 15:30 5 km 20°C 60mph 1/2 10–15 1st #1 @bob & **b** "
    "__c__ `x.y` [a](b.c) <b> <laugh> FBI NASA U.S. e.g. Henry VIII 😀 -5 50% x@y.org "
    "http://z.io/q 1,234 v2.1 5'2\" Nov. 30 w/ and/or <!-- ~ | * _ > # {} "
    "\\ ^2 → ½ “so” (ok) ... — hello, World"
)
words = st.sampled_from(PLAIN.split())
texts = st.text(max_size=60) | st.lists(st.sampled_from(WRITTEN.split(" ")), max_size=12).map(
    " ".join
)


@given(st.lists(words, min_size=1, max_size=20), st.sampled_from(["", ".", "!", "?"]))
def test_plain_words_stay_as_they_are(chosen: list[str], mark: str) -> None:
    text = " ".join(chosen) + mark
    assert speakable(text) == text
    assert speakable(text.capitalize(), "de") == text.capitalize()


@given(st.lists(words | st.sampled_from(["**", "*", "_", "~~", "#", "😀"]), max_size=20))
def test_markup_takes_no_word_with_it(pieces: list[str]) -> None:
    text = " ".join(pieces)
    wanted = [piece for piece in pieces if piece.isalpha()]
    assert re.findall(r"[a-z]+", speakable(text)) == wanted


@given(texts, st.sampled_from([None, "en", "de", "zh"]))
def test_no_markup_is_ever_spoken(text: str, language: str | None) -> None:
    spoken = speakable(text, language)
    for tag in TAGS:
        spoken = spoken.replace(f"<{tag}>", "")
    assert not set(spoken) & set("*_`#~|\\{}[]^<>\n\ufe0f😀")


@given(texts)
def test_no_digit_is_left_in_english(text: str) -> None:
    assert not re.search("[0-9]", speakable(text, "en"))


@given(st.lists(st.sampled_from(WRITTEN.split(" ")), max_size=1).map(" ".join))
def test_what_is_spoken_is_spoken_alike_when_it_is_written(text: str) -> None:
    once = speakable(f"So {text} it is.")
    assert speakable(once) == once


@pytest.mark.parametrize("tag", TAGS)
def test_the_tags_of_the_voice_are_kept(tag: str) -> None:
    assert speakable(f"Well <{tag}> that is <b>5</b>.") == f"Well <{tag}> that is five."
    assert speakable(f"<{tag}>", "de") == f"<{tag}>"


@pytest.mark.parametrize("text", ["", " \n", "***", "---", "😀", "...", "<div>", "|---|---|", "()"])
def test_what_has_no_words_is_not_spoken(text: str) -> None:
    assert speakable(text) == ""


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("Am 3.4. um 5 %", "de", None),
        ("on 3/4/2026", "en-GB", "on April third, twenty twenty-six"),
        ("on 3/4/2026", "en-US", "on March fourth, twenty twenty-six"),
        ("**你好**，我有25个苹果", None, "你好，我有25个苹果"),
        ("π is 3", None, "pi is three"),
    ],
)
def test_the_language_decides(text: str, language: str | None, spoken: str | None) -> None:
    assert speakable(text, language).replace("fünf", "5") == (spoken or text)


def test_several_lines_are_read_as_one() -> None:
    text = (
        "# Plan\n\nWe need:\n- salt\n- 2 eggs\n\n```\ncode\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    assert speakable(text) == "Plan. We need: salt. two eggs. A block of code. a, b. one, two."


@pytest.mark.parametrize(
    "mark",
    ["*", "`", "[", "](", "<", "&", "1", "1-", "1/", ".", "a.", "A", "_", "|", "\\", "$1", "1,"],
)
def test_a_model_that_is_stuck_does_not_stall_the_loop(mark: str) -> None:
    started = time.thread_time()
    speakable(mark * (400 // len(mark)))
    assert time.thread_time() - started < 0.25, "a pattern has become exponential"


def test_a_phrase_of_twenty_words_takes_well_under_a_millisecond() -> None:
    text = (
        "Your order of 3 items, at **$5.20** each, will arrive on Nov. 30 and the rest will follow "
        "in about a week from the store."
    )
    speakable(text)
    best = min(_seconds(text) for _ in range(50))
    assert best < 0.001


def _seconds(text: str) -> float:
    started = time.thread_time()
    speakable(text)
    return time.thread_time() - started
