"""Whose words are whose."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.diarization.turns import SpeakerTurn
from pipelines.speakers import NEAREST_MS, by_speaker, named, speakers_of
from pipelines.transcription.captions import Spoken


def words(*said: tuple[str, int, int]) -> list[Spoken]:
    return [Spoken(*each) for each in said]


def evenly(text: str, each_ms: int = 300) -> list[Spoken]:
    """Words without pauses."""
    return [Spoken(w, i * each_ms, (i + 1) * each_ms) for i, w in enumerate(text.split())]


def said(text: str, *turns: SpeakerTurn) -> str:
    return "".join(speaker or "-" for speaker in speakers_of(evenly(text), turns))


# --- names ----------------------------------------------------------------------------------


def test_speakers_are_called_in_order_of_appearance():
    turns = [SpeakerTurn("x", 500, 900), SpeakerTurn("y", 0, 400), SpeakerTurn("x", 1000, 1100)]
    assert [turn.speaker for turn in named(turns)] == ["Speaker 1", "Speaker 2", "Speaker 2"]
    assert [turn.start_ms for turn in named(turns)] == [0, 500, 1000]


def test_nobody_has_no_name():
    assert named([]) == ()


# --- words ----------------------------------------------------------------------------------


def test_a_word_is_said_by_whoever_speaks_longest_in_it():
    turns = [SpeakerTurn("A", 0, 1000), SpeakerTurn("B", 1000, 2000)]
    assert speakers_of(words(("no.", 600, 1200), ("Yes.", 900, 1500)), turns) == ["A", "B"]


def test_pieces_of_one_speakers_turns_count_together():
    turns = [SpeakerTurn("A", 0, 100), SpeakerTurn("B", 100, 250), SpeakerTurn("A", 250, 360)]
    assert speakers_of(words(("Yes.", 0, 360)), turns) == ["A"]


def test_a_word_in_a_gap_goes_to_the_nearest_turn():
    turns = [SpeakerTurn("A", 0, 1000), SpeakerTurn("B", 2000, 3000)]
    assert speakers_of(words(("one.", 1100, 1200), ("Two.", 1800, 1900)), turns) == ["A", "B"]


def test_a_word_far_from_all_turns_is_nobodys():
    turns = [SpeakerTurn("A", 0, 1000)]
    at = 1000 + NEAREST_MS
    assert speakers_of(words(("one", at, at + 9), ("two", at + 1, at + 9)), turns) == ["A", ""]
    assert speakers_of(words(("one", 0, 9)), []) == [""]


def test_without_words_there_are_no_speakers():
    assert speakers_of([], [SpeakerTurn("A", 0, 10)]) == []


def test_where_two_speak_whoever_spoke_before_goes_on():
    turns = [SpeakerTurn("A", 0, 1500), SpeakerTurn("B", 900, 3000)]
    assert said("one two three four five six", *turns) == "AAAAAB"


def test_a_long_turn_far_before_is_found():
    turns = [SpeakerTurn("A", 0, 60_000), *(SpeakerTurn("B", t, t + 50) for t in (100, 900))]
    assert speakers_of(words(("late", 59_000, 59_300)), turns) == ["A"]


# --- smoothing ------------------------------------------------------------------------------


def test_a_single_word_within_anothers_sentence_is_given_back():
    turns = [SpeakerTurn("A", 0, 600), SpeakerTurn("B", 600, 900), SpeakerTurn("A", 900, 2000)]
    assert said("what he said to me", *turns) == "AAAAA"


def test_a_sentence_of_one_word_stays():
    turns = [SpeakerTurn("A", 0, 600), SpeakerTurn("B", 600, 900), SpeakerTurn("A", 900, 2000)]
    assert said("did you? Yes. And then", *turns) == "AABAA"


def test_a_single_word_stays_where_the_other_is_far_away():
    turns = [SpeakerTurn("A", 0, 100), SpeakerTurn("B", 450, 1000), SpeakerTurn("A", 1400, 2000)]
    spoken = words(("one", 0, 100), ("two", 450, 1000), ("three", 1400, 1900))
    assert speakers_of(spoken, turns) == ["A", "B", "A"]


def test_the_last_word_of_a_sentence_stays_with_it():
    turns = [SpeakerTurn("A", 0, 850), SpeakerTurn("B", 850, 3000)]
    assert said("how are you now? Fine thank you", *turns) == "AAAABBB"


def test_the_first_word_of_a_sentence_stays_with_it():
    turns = [SpeakerTurn("A", 0, 1250), SpeakerTurn("B", 1250, 3000)]
    assert said("how are you? Fine thank you", *turns) == "AAABBB"


def test_a_border_within_a_sentence_is_let_be():
    turns = [SpeakerTurn("A", 0, 900), SpeakerTurn("B", 900, 3000)]
    assert said("how are you fine thank you", *turns) == "AAABBB"


def test_words_at_both_ends_have_neighbours_on_one_side_only():
    turns = [SpeakerTurn("A", 0, 300), SpeakerTurn("B", 300, 2000)]
    assert said("No. I do", *turns) == "ABB"
    assert said("Oh that is", *turns) == "BBB"
    turns = [SpeakerTurn("A", 0, 600), SpeakerTurn("B", 600, 2000)]
    assert said("I do not", *turns) == "AAB"
    assert said("I do so.", *turns) == "AAA"


# --- stretches ------------------------------------------------------------------------------


def test_a_stretch_is_cut_where_the_speaker_changes():
    turns = [SpeakerTurn("A", 0, 900), SpeakerTurn("B", 900, 2000)]
    timed = tuple(evenly("how are you? Fine thanks."))
    whole = Spoken("how are you? Fine thanks.", 0, 1500, timed)
    assert by_speaker([whole], turns) == [
        Spoken("how are you?", 0, 900, timed[:3], "A"),
        Spoken("Fine thanks.", 900, 1500, timed[3:], "B"),
    ]


def test_a_stretch_of_one_speaker_is_left_whole():
    stretch = Spoken("how are  you?", 0, 900)
    [piece] = by_speaker([stretch, Spoken(" ", 900, 950)], [SpeakerTurn("A", 0, 900)])
    assert piece == Spoken("how are  you?", 0, 900, speaker="A")


def test_words_without_times_of_their_own_get_none_by_it():
    turns = [SpeakerTurn("A", 0, 500), SpeakerTurn("B", 500, 1000)]
    pieces = by_speaker([Spoken("Yes. No.", 0, 1000)], turns)
    assert [(piece.text, piece.words, piece.speaker) for piece in pieces] == [
        ("Yes.", (), "A"),
        ("No.", (), "B"),
    ]


turns_of_any_kind = st.lists(
    st.builds(
        lambda who, start, lasts: SpeakerTurn(who, start, start + lasts),
        st.sampled_from("ABC"),
        st.integers(0, 5_000),
        st.integers(1, 3_000),
    ),
    max_size=8,
)


@given(turns_of_any_kind, st.lists(st.sampled_from(["so", "yes.", "And"]), max_size=20))
def test_no_word_is_lost_or_given_to_somebody_who_is_not_there(turns, said):
    spoken = evenly(" ".join(said)) if said else []
    speakers = speakers_of(spoken, turns)
    assert len(speakers) == len(spoken)
    assert set(speakers) <= {turn.speaker for turn in turns} | {""}
    whole = [Spoken(" ".join(said), 0, 300 * len(said))] if said else []
    pieces = by_speaker(whole, turns)
    assert " ".join(piece.text for piece in pieces) == " ".join(said)
    assert all(a.speaker != b.speaker for a, b in pairwise(pieces))


@pytest.mark.parametrize("order", [1, -1])
def test_turns_may_come_in_any_order(order):
    turns = [SpeakerTurn("A", 0, 900), SpeakerTurn("B", 900, 2000)]
    assert said("how are you? Fine thanks.", *turns[::order]) == "AAABB"
