"""What a turn amounts to, and when its words are read again."""

import pytest

from pipelines.conversation.events import Kind, TranscriptArrived
from pipelines.conversation.patience import wait_ms
from pipelines.conversation.turns import TENTATIVE_MS, Partial, Turn


@pytest.mark.parametrize(
    ("kind", "over_reply", "answers", "says"),
    [
        ("words", True, False, True),
        ("words", False, True, True),
        ("backchannel", True, False, False),
        ("backchannel", True, True, True),
        ("backchannel", False, False, True),
        ("echo", True, True, False),
        ("echo", False, True, True),
        ("nothing", True, True, False),
        ("nothing", False, True, False),
    ],
)
def test_whether_a_turn_says_something(
    kind: Kind, over_reply: bool, answers: bool, says: bool
) -> None:
    turn = Turn(1, answers=answers, confirmed=True, over_reply=over_reply)
    turn.understand(TranscriptArrived(1, "yeah", kind))
    assert turn.says_something == says


def test_a_turn_without_words_says_nothing() -> None:
    turn = Turn(1, confirmed=True)
    assert not turn.says_something
    turn.understand(TranscriptArrived(1, ""))
    assert not turn.says_something


def test_what_goes_on_forgets_its_words_and_what_was_thought_of_them() -> None:
    turn = Turn(1, take=1)
    turn.understand(TranscriptArrived(1, "so", completeness=-0.5))
    turn.by_sound = 0.5
    assert turn.opinions == (-0.5, 0.5)
    turn.forget()
    assert (turn.take, turn.text, turn.opinions) == (None, None, (0, 0))


@pytest.mark.parametrize(
    ("every_ms", "took_ms", "due_ms"),
    [(200, 10, 200), (200, 150, 300), (200, 5_000, 600), (600, 10, 600), (600, 5_000, 1_800)],
)
def test_the_next_reading_follows_what_the_last_took(
    every_ms: int, took_ms: int, due_ms: int
) -> None:
    partial = Partial()
    partial.ask(1, 1_000, every_ms)
    partial.read("words", 1_000 + took_ms)
    assert (partial.take, partial.due_at) == (None, 1_000 + due_ms)
    assert partial.readings_with_words == 1
    partial.ask(2, 9_000, every_ms)
    partial.fail()
    assert partial.due_at == 9_000 + 3 * every_ms


def test_a_sound_over_a_reply_is_waited_for_until_its_words_are_known() -> None:
    turn = Turn(1)
    assert turn.wait_ms(None, silence_ms=500) == TENTATIVE_MS
    turn.confirmed = True
    assert turn.wait_ms(None, silence_ms=500) == 500


def test_with_a_profile_a_turn_is_waited_for_by_what_is_thought_of_it() -> None:
    turn = Turn(1, confirmed=True, by_words=0.5, by_sound=0.5)
    assert turn.wait_ms("normal", silence_ms=9) == wait_ms("normal", (0.5, 0.5))


def test_only_a_turn_that_is_one_is_read_and_one_reading_after_the_other() -> None:
    turn = Turn(1)
    assert not turn.is_to_be_read(1_000)
    turn.confirmed = True
    assert turn.is_to_be_read(1_000)
    turn.partial.ask(1, 1_000, 200)
    assert not turn.is_to_be_read(9_000)
    turn.partial.read("words", 1_010)
    assert [turn.is_to_be_read(now) for now in (1_199, 1_200)] == [False, True]


def test_readings_without_words_in_a_row_are_noise() -> None:
    turn = Turn(1, confirmed=True)
    for reading, kind in enumerate(["nothing", "words", "nothing"], 1):
        turn.partial.ask(reading, 0, 200)
        turn.partial.read(kind, 0)
        assert not turn.is_noise
    turn.partial.read("nothing", 0)
    assert turn.is_noise
