"""What silences a reply, what does not, and what lets it go on."""

from dataclasses import replace

import pytest

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.events import (
    AcceptTranscript,
    AudioCleared,
    AudioCommitted,
    CommitTurn,
    ConfirmTurn,
    DiscardTurn,
    FailTranscript,
    Kind,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReplyCancelled,
    ReplyEnded,
    ReplyRequested,
    ReplySounded,
    ResumeReply,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)
from tests.pipelines.conversation.talking import AHEAD, DEFAULT, NO_SPECULATION, ONSET, Caller

INTERRUPT = 6
"""200 ms in windows."""


def listening(settings: object = DEFAULT) -> Caller:
    """A caller to whom a reply is speaking."""
    caller = Caller(settings)  # type: ignore[arg-type]
    caller.happens(ReplyRequested(), ReplySounded(1))
    return caller


def names(commands: list[object]) -> list[str]:
    return [type(command).__name__ for command in commands]


def test_a_reply_is_silenced_by_speech_that_lasts_and_nobody_knows_of_it_before() -> None:
    caller = listening()
    assert caller.speaks(INTERRUPT - 1) == [OpenTurn(1, 0)]
    assert caller.speaks(1) == [ConfirmTurn(1), PauseReply(1)]
    assert not caller.machine.replying, "the client is told that it has ended"


@pytest.mark.parametrize("kind", ["backchannel", "echo", "nothing"])
def test_a_short_sound_that_says_nothing_never_was(kind: Kind) -> None:
    caller = listening()
    assert caller.speaks(INTERRUPT - 1) == [OpenTurn(1, 0)]
    assert caller.pauses() == [Transcribe(1, 1, "ahead")]
    assert caller.happens(TranscriptArrived(1, "mm", kind)) == [DiscardTurn(1)]
    assert caller.machine.replying
    assert caller.stops() == []


def test_a_short_word_silences_the_reply_for_good() -> None:
    caller = listening()
    caller.speaks(4)
    caller.pauses()
    assert caller.happens(TranscriptArrived(1, "stop")) == [
        ConfirmTurn(1),
        PauseReply(1),
        StopReply(1, "turn_detected"),
        PrepareReply(2, "stop"),
    ]


def test_a_short_sound_is_written_down_even_where_nothing_is_worked_out_ahead() -> None:
    caller = listening(NO_SPECULATION)
    caller.speaks(4)
    assert caller.pauses() == [Transcribe(1, 1, "ahead")]
    assert names(caller.happens(TranscriptArrived(1, "stop")))[-1] == "StopReply"


def test_short_sounds_do_not_add_up() -> None:
    caller = listening()
    for _ in range(4):
        assert "PauseReply" not in names([*caller.speaks(4), *caller.pauses()])


def test_a_short_sound_whose_words_never_come_is_forgotten() -> None:
    caller = listening()
    caller.speaks(4)
    assert DiscardTurn(1) in caller.pauses(70)
    assert caller.happens(TranscriptArrived(1, "late")) == []
    assert caller.machine.replying


def test_a_short_sound_and_then_no_audio_at_all_is_forgotten() -> None:
    caller = listening()
    caller.speaks(4)
    assert caller.waits_to_the_deadline() == [DiscardTurn(1)]


def test_a_reply_that_does_not_sound_yet_waits_for_the_first_sound_of_speech() -> None:
    caller = Caller()
    caller.happens(ReplyRequested())
    assert caller.speaks(ONSET) == [OpenTurn(1, 0), ConfirmTurn(1), PauseReply(1)]


def test_what_was_said_already_can_be_interrupted_as_long_as_it_is_heard() -> None:
    caller = listening()
    caller.happens(ReplyEnded(1, lead_ms=3_000))
    assert caller.speaks(INTERRUPT)[1:] == [ConfirmTurn(1), PauseReply(1)]
    caller = listening()
    caller.happens(ReplyEnded(1, lead_ms=30))
    assert caller.speaks(INTERRUPT)[1:] == [ConfirmTurn(1)]


def test_the_agents_own_voice_is_nobody() -> None:
    caller = listening()
    for _ in range(100):
        assert caller.happens(WindowHeard(0.99, echo=0.8)) == []


def test_a_client_that_commits_a_short_sound_has_a_turn() -> None:
    caller = listening()
    caller.speaks(4)
    assert names(caller.happens(AudioCommitted())) == [
        *("ConfirmTurn", "PauseReply", "Transcribe", "CommitTurn")
    ]


def test_the_beginning_of_an_echo_is_nobody_either_but_a_word_before_one_is() -> None:
    caller = listening()
    assert caller.speaks(3) == [OpenTurn(1, 0)]
    assert caller.happens(WindowHeard(0.99, echo=1.0)) == []
    assert caller.happens(WindowHeard(0.99, echo=1.0)) == [DiscardTurn(1)]
    caller = listening()
    caller.speaks(5)
    for _ in range(4):
        assert caller.happens(WindowHeard(0.99, echo=1.0)) == []
    assert caller.happens(WindowHeard(0.99, echo=1.0)) == [Transcribe(1, 1, "ahead", echoed=True)]
    assert ConfirmTurn(1) in caller.happens(TranscriptArrived(1, "stop"))


# --- a reply that was silenced in vain ------------------------------------------------------


@pytest.mark.parametrize("kind", ["backchannel", "echo", "nothing"])
def test_a_reply_goes_on_as_soon_as_the_caller_turns_out_to_have_said_nothing(kind: Kind) -> None:
    caller = listening()
    caller.speaks(10)
    caller.pauses()
    assert caller.happens(TranscriptArrived(1, "yeah", kind)) == [
        CommitTurn(1, 15 * WINDOW_MS, AHEAD * WINDOW_MS),
        AcceptTranscript(1, "yeah"),
        ResumeReply(1),
    ]
    assert caller.machine.replying


def test_a_reply_goes_on_where_the_words_come_after_the_turn_or_never() -> None:
    for event, told in (
        (TranscriptArrived(1, "yeah", "backchannel"), AcceptTranscript(1, "yeah")),
        (TranscriptFailed(1, "busy"), FailTranscript(1, "busy")),
    ):
        caller = listening(NO_SPECULATION)
        caller.speaks(10)
        caller.stops()
        assert caller.happens(event) == [told, ResumeReply(1)]


def test_a_reply_goes_on_where_the_client_throws_the_audio_away() -> None:
    caller = listening()
    caller.speaks(10)
    assert caller.happens(AudioCleared()) == [DiscardTurn(1), ResumeReply(1)]


def test_a_reply_that_goes_on_can_be_silenced_again_and_ends_like_any_other() -> None:
    caller = listening()
    for turn in (1, 2):
        assert PauseReply(1) in caller.speaks(10)
        caller.pauses()
        assert ResumeReply(1) in caller.happens(TranscriptArrived(turn, "yeah", "backchannel"))
    caller.happens(ReplyEnded(1, 0))
    assert not caller.machine.replying


def test_words_stop_it_as_soon_as_they_are_known() -> None:
    caller = listening(replace(DEFAULT, partials=True))
    caller.speaks(INTERRUPT)
    assert caller.speaks(7) == [Transcribe(1, 1, "partial")]
    assert caller.happens(TranscriptArrived(1, "I")) == [], "it may become an I see"
    assert Transcribe(1, 2, "partial") in caller.speaks(14)
    assert StopReply(1, "turn_detected") in caller.happens(TranscriptArrived(2, "I want"))


def test_who_has_stopped_a_reply_is_answered_whatever_the_last_words_look_like() -> None:
    """Digits dictated into a reply once looked like its own, and nobody spoke any more."""
    caller = listening(replace(DEFAULT, partials=True))
    caller.speaks(INTERRUPT + 7)
    caller.happens(TranscriptArrived(1, "two nine"))
    caller.speaks(14)
    caller.happens(TranscriptArrived(2, "two nine three"))
    told = caller.pauses(AHEAD)
    (take,) = [each.take for each in told if isinstance(each, Transcribe)]
    caller.happens(TranscriptArrived(take, "two nine three four", "echo"))
    assert {"AcceptTranscript", "ReleaseReply"} <= set(names(caller.stops()))


def test_no_reply_goes_on_while_an_earlier_turn_is_without_words() -> None:
    caller = listening(NO_SPECULATION)
    caller.speaks(10)
    caller.stops()
    caller.speaks(10)
    caller.stops()
    assert names(caller.happens(TranscriptArrived(2, "yeah", "backchannel"))) == [
        "AcceptTranscript"
    ]
    assert names(caller.happens(TranscriptArrived(1, "no wait"))) == [
        *("AcceptTranscript", "StopReply", "StartReply")
    ]


def test_a_client_may_stop_or_replace_a_reply_that_was_silenced() -> None:
    caller = listening()
    caller.speaks(10)
    assert caller.happens(ReplyCancelled()) == [StopReply(1, "client_cancelled")]
    caller = listening()
    caller.speaks(10)
    caller.pauses()
    caller.happens(ReplyRequested())
    assert caller.happens(TranscriptArrived(1, "yeah", "backchannel"))[-2:] == [
        StopReply(1, "turn_detected"),
        StartReply(2),
    ]


# --- a yes is an answer ---------------------------------------------------------------------


@pytest.mark.parametrize(("left_ms", "answered"), [(3_000, False), (900, True), (0, True)])
def test_a_yes_near_the_end_of_what_is_said_is_an_answer(left_ms: int, answered: bool) -> None:
    caller = listening()
    caller.happens(ReplyEnded(1, lead_ms=left_ms))
    caller.speaks(10)
    caller.pauses()
    commands = names(caller.happens(TranscriptArrived(1, "yes", "backchannel")))
    assert ("PrepareReply" in commands) == answered
    assert ("ResumeReply" in commands) == (not answered)


def test_a_caller_who_repeats_the_agents_words_behind_its_end_is_answered() -> None:
    caller = Caller()
    caller.speaks(10)
    caller.pauses()
    assert caller.happens(TranscriptArrived(1, "Tuesday?", "echo")) == [PrepareReply(1, "Tuesday?")]
