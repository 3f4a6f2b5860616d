"""What a turn amounts to, and when its words are read again."""

import pytest

from pipelines.conversation.events import Kind, TranscriptArrived
from pipelines.conversation.turns import PARTIAL_MS, Partial, Turn


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


@pytest.mark.parametrize(("took_ms", "due_ms"), [(10, 200), (150, 300), (5_000, 600)])
def test_the_next_reading_follows_what_the_last_took(took_ms: int, due_ms: int) -> None:
    partial = Partial()
    partial.ask(1, now=1_000)
    partial.read("words", 1_000 + took_ms)
    assert (partial.take, partial.due_at) == (None, 1_000 + due_ms)
    assert partial.readings_with_words == 1
    partial.ask(2, now=9_000)
    partial.fail()
    assert partial.due_at == 9_000 + PARTIAL_MS[1]
