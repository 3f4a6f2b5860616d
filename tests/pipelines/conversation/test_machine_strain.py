"""The turn machine under strain: what it leaves off at each step, what it never does, and back."""

import itertools
from dataclasses import replace

import pytest

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.events import (
    Command,
    ConfirmTurn,
    DropTake,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyRequested,
    ReplySounded,
    SettingsChanged,
    StartReply,
    StopReply,
    StrainChanged,
    Transcribe,
    TranscriptArrived,
)
from pipelines.conversation.settings import SLOW_PARTIAL_MS
from pipelines.strain import Strain
from tests.pipelines.conversation.talking import DEFAULT, NO_SPECULATION, Caller

LIVE = replace(DEFAULT, partials=True)


def asked(commands: list[Command], purpose: str) -> int:
    return sum(isinstance(c, Transcribe) and c.purpose == purpose for c in commands)


def readings(caller: Caller, windows: int) -> list[int]:
    """When the words were asked for in a turn in which the recogniser answers at once."""
    at: list[int] = []
    for _ in range(windows):
        commands = caller.speaks(1)
        if asked(commands, "partial"):
            at.append(caller.now)
            take = next(c.take for c in commands if isinstance(c, Transcribe))
            caller.happens(TranscriptArrived(take, "well"))
    return at


@pytest.mark.parametrize(
    ("strain", "every_ms"), [(Strain.NONE, 200), (Strain.SLOW_PARTIALS, SLOW_PARTIAL_MS)]
)
def test_words_are_shown_less_often(strain: Strain, every_ms: int) -> None:
    caller = Caller(LIVE)
    assert caller.happens(StrainChanged(strain)) == []
    at = readings(caller, 80)
    gaps = [later - sooner for sooner, later in itertools.pairwise(at)]
    assert len(gaps) >= 2
    assert min(gaps) >= every_ms
    assert max(gaps) < every_ms + 2 * WINDOW_MS


def test_then_not_at_all_and_the_reading_under_way_is_given_up() -> None:
    caller = Caller(LIVE)
    [reading] = [c for c in caller.speaks(12) if isinstance(c, Transcribe)]
    assert caller.happens(StrainChanged(Strain.NO_PARTIALS)) == [DropTake(reading.take)]
    assert readings(caller, 40) == []
    assert asked(caller.pauses(), "ahead") == 1, "replies are still worked out ahead"
    caller.speaks(2)
    assert caller.happens(StrainChanged(Strain.SLOW_PARTIALS)) == []
    assert readings(caller, 10), "and they come back in the same turn"


def test_then_no_reply_is_worked_out_ahead() -> None:
    caller = Caller(LIVE)
    caller.happens(StrainChanged(Strain.NO_SPECULATION))
    caller.speaks()
    assert caller.pauses() == []
    assert asked(caller.stops(), "final") == 1
    assert caller.happens(TranscriptArrived(1, "hello"))[-1] == StartReply(1)


def test_a_reply_that_was_worked_out_already_is_not_thrown_away() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    assert caller.happens(TranscriptArrived(1, "hello")) == [PrepareReply(1, "hello")]
    assert caller.happens(StrainChanged(Strain.NO_CALLS)) == []
    assert caller.stops()[-1] == ReleaseReply(1)


def test_turns_whose_end_depends_on_their_words_are_still_transcribed_ahead() -> None:
    caller = Caller(replace(DEFAULT, profile="normal"))
    caller.happens(StrainChanged(Strain.NO_CALLS))
    caller.speaks()
    assert asked(caller.pauses(), "ahead") == 1
    assert caller.happens(TranscriptArrived(1, "hello", completeness=1.0)) == []
    assert caller.stops()[-1] == StartReply(1), "nothing was prepared"


def test_sounds_over_a_reply_are_still_judged_by_their_words() -> None:
    caller = Caller()
    caller.happens(StrainChanged(Strain.NO_CALLS), ReplyRequested(), ReplySounded(1))
    assert caller.speaks(4) == [OpenTurn(1, 0)]
    assert caller.pauses() == [Transcribe(1, 1, "ahead")]
    assert caller.happens(TranscriptArrived(1, "stop")) == [
        ConfirmTurn(1),
        PauseReply(1),
        StopReply(1, "turn_detected"),
    ]


def test_settings_that_come_under_strain_hold_as_far_as_it_allows_and_wholly_behind_it() -> None:
    caller = Caller(NO_SPECULATION)
    caller.happens(StrainChanged(Strain.NO_FILES))
    caller.happens(SettingsChanged(LIVE))
    assert not (caller.machine.settings.speculate or caller.machine.settings.partials)
    caller.happens(StrainChanged(Strain.NONE))
    assert caller.machine.settings == LIVE
    caller.happens(SettingsChanged(NO_SPECULATION))
    caller.happens(StrainChanged(Strain.SHORT_REPLIES))
    caller.happens(StrainChanged(Strain.NONE))
    assert caller.machine.settings == NO_SPECULATION, "no more than was wanted comes back"
