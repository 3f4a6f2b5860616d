"""Subtitles and times of words."""

import re

from hypothesis import given
from hypothesis import strategies as st

from engines.ports import Segment, Word
from pipelines.transcription.captions import (
    LINE,
    MOST_MS,
    Spoken,
    Utterance,
    captions_of,
    said_by,
    spoken_of,
    srt,
    vtt,
    words_of,
)

HELLO = Spoken("Hello there.", 1_500, 2_750)
LONG = Spoken(" ".join(["seven letters,"] * 40), 3_600_000, 3_620_000)


def test_srt() -> None:
    assert srt([HELLO, Spoken("Good bye.", 61_000, 62_000)]) == (
        "1\n00:00:01,500 --> 00:00:02,750\nHello there.\n"
        "\n2\n00:01:01,000 --> 00:01:02,000\nGood bye.\n"
    )


def test_vtt() -> None:
    assert vtt([HELLO]) == "WEBVTT\n\n00:00:01.500 --> 00:00:02.750\nHello there.\n"


def test_vtt_of_words_that_look_like_markup() -> None:
    assert "a &lt;b&gt; &amp; c --&gt; d" in vtt([Spoken("a <b> & c --> d", 0, 1_000)])


def test_nothing_said_is_a_file_without_captions() -> None:
    assert (srt([]), vtt([])) == ("", "WEBVTT\n")


def test_hours_are_written_out() -> None:
    assert srt([LONG]).startswith("1\n01:00:00,000 --> 01:00:0")


def test_a_caption_of_one_line_stays_one() -> None:
    assert srt([HELLO]).split("\n")[2:] == ["Hello there.", ""]


def test_a_long_caption_has_two_lines() -> None:
    first = next(captions_of([LONG])).text
    lines = srt([LONG]).split("\n\n")[0].split("\n")[2:]
    assert " ".join(lines) == first
    assert len(lines) == 2
    assert max(map(len, lines)) <= LINE


def lines_of(spoken: Spoken) -> list[list[str]]:
    return [caption.split("\n")[2:] for caption in srt([spoken]).strip().split("\n\n")]


def test_no_line_is_longer_with_the_name_of_who_speaks() -> None:
    text = "it is a long way from here to there and back again, they say, whoever goes by himself"
    captions = lines_of(Spoken(text, 0, 6_000, speaker="Speaker 10"))
    assert len(captions) == 2
    for caption in captions:
        assert len(caption) <= 2
        assert max(map(len, caption)) <= LINE


def test_a_stretch_that_fits_is_not_cut_at_its_clauses() -> None:
    text = "The ticket for the two of us costs $3.50 on December 5th, 2026."
    assert [each.text for each in captions_of([Spoken(text, 0, 6_000)])] == [text]


def test_no_single_word_is_left_for_a_caption_of_its_own() -> None:
    text = "He says that he has been living here for most of his life and is in Jersey now, though."
    *_, last = captions_of([Spoken(text, 0, 6_500)])
    assert last.text.endswith(" though.")
    assert len(last.text) > 16


def test_a_caption_ends_with_a_sentence_rather_than_a_clause() -> None:
    text = "This is the first of a few sentences in all. Then there is another, with clauses, too."
    first = next(captions_of([Spoken(text, 0, 6_500)]))
    assert first.text.endswith("in all.")


def test_scripts_without_blanks_are_cut_between_characters() -> None:
    text = "今日はとても良い天気ですね。明日も晴れるといいのですが、" * 3
    captions = list(captions_of([Spoken(text, 0, 15_000)]))
    assert "".join(caption.text for caption in captions) == text
    assert len(captions) > 2
    assert all(caption.text[-1] in "。、" for caption in captions)
    assert all(
        len(line) <= LINE // 2 for each in lines_of(Spoken(text, 0, 15_000)) for line in each
    )


def test_characters_with_their_own_times_have_no_blanks_between_them() -> None:
    words = tuple(Word(each, 100 * n, 100 * n + 90, 0.9) for n, each in enumerate("你好吗"))
    spoken = spoken_of(Segment("你好吗", 0, 300, words=words))
    assert [each.text for each in captions_of([spoken])] == ["你好吗"]


def test_a_word_without_end_stays_whole() -> None:
    endless = "x" * 300
    assert endless in srt([Spoken(endless, 0, 1_000)])


def test_words_share_the_time_by_their_length() -> None:
    assert words_of(Spoken("a bbb", 1_000, 1_600)) == [
        Spoken("a", 1_000, 1_200),
        Spoken("bbb", 1_200, 1_600),
    ]
    assert words_of(Spoken("", 0, 10)) == []


def test_an_utterance_knows_where_its_text_was_said() -> None:
    segment = Segment("yes", 5, 9)
    assert Utterance("yes", (segment,), "en", "").spoken == [Spoken("yes", 5, 9)]


def timed(*words: tuple[str, int, int]) -> Spoken:
    text = " ".join(word for word, _, _ in words)
    own = tuple(Word(f" {word}", start, end, 0.9) for word, start, end in words)
    return spoken_of(Segment(text, words[0][1], words[-1][2], words=own))


def test_words_that_have_their_own_times_keep_them() -> None:
    spoken = timed(("so", 100, 180), ("slow", 900, 1_400))
    assert words_of(spoken) == [Spoken("so", 100, 180), Spoken("slow", 900, 1_400)]
    assert list(captions_of([spoken])) == [Spoken("so slow", 100, 1_400)]


def test_no_caption_stays_over_a_pause_that_is_known() -> None:
    spoken = timed(("one,", 0, 300), ("two", 400, 700), ("three", 2_200, 2_500))
    assert list(captions_of([spoken])) == [
        Spoken("one, two", 0, 700),
        Spoken("three", 2_200, 2_500),
    ]


texts = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=30),
    max_size=60,
).map(" ".join)


@given(texts, st.integers(0, 10**7), st.integers(1, 60_000))
def test_captions_keep_every_word_in_order_and_time(text: str, start: int, lasts: int) -> None:
    spoken = Spoken(text, start, start + lasts)
    captions = list(captions_of([spoken]))
    assert "".join(caption.text for caption in captions).replace(" ", "") == text.replace(" ", "")
    for caption in captions:
        assert start <= caption.start_ms < caption.end_ms <= start + lasts + len(captions)
        assert " " not in caption.text or len(caption.text) <= 2 * LINE
        assert " " not in caption.text or caption.end_ms - caption.start_ms <= MOST_MS
    starts = [caption.start_ms for caption in captions]
    assert starts == sorted(starts)
    assert len(re.findall(r"^\d+$", srt([spoken]), re.MULTILINE)) >= len(captions)


# --- who speaks -----------------------------------------------------------------------------


def test_subtitles_tell_who_speaks() -> None:
    said = [Spoken("Hello <you>.", 0, 1_000, speaker="Speaker 1"), Spoken("Oh.", 1_000, 2_000)]
    assert "\nSpeaker 1: Hello <you>.\n" in srt(said)
    assert "\n<v Speaker 1>Hello &lt;you&gt;.\n" in vtt(said)
    assert "\nOh.\n" in srt(said)
    assert "\nOh.\n" in vtt(said)


def test_each_caption_of_a_stretch_tells_its_speaker() -> None:
    long = Spoken("and so on " * 30, 0, 20_000, speaker="Speaker 2")
    captions = list(captions_of([long]))
    assert len(captions) > 2
    assert {caption.speaker for caption in captions} == {"Speaker 2"}
    assert said_by(captions[0]).startswith("Speaker 2: and so on")
