"""The turn machine told as calls: what happens, and what it commands."""

from dataclasses import replace

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.events import (
    AcceptTranscript,
    AudioCleared,
    AudioCommitted,
    CommitTurn,
    ConfirmTurn,
    DeadlinePassed,
    DiscardTurn,
    DropReply,
    DropTake,
    FailTranscript,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyCancelled,
    ReplyEnded,
    ReplyRequested,
    SettingsChanged,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
)
from tests.pipelines.conversation.talking import (
    AHEAD,
    BY_HAND,
    DEFAULT,
    NO_SPECULATION,
    ONSET,
    SILENCE,
    Caller,
)

# --- a spoken turn --------------------------------------------------------------------------


def test_a_spoken_turn_is_opened_transcribed_committed_and_answered() -> None:
    caller = Caller(NO_SPECULATION)
    assert caller.pauses(10) == []
    assert caller.speaks() == [OpenTurn(1, 10 * WINDOW_MS - 300), ConfirmTurn(1)]
    # The take comes before the commit: a commit frees the turn's audio.
    assert caller.stops() == [
        Transcribe(1, 1, "final"),
        CommitTurn(1, 36 * WINDOW_MS, quiet_ms=SILENCE * WINDOW_MS),
    ]
    assert caller.happens(TranscriptArrived(1, "hello")) == [
        AcceptTranscript(1, "hello"),
        StartReply(1),
    ]
    assert caller.machine.replying
    assert caller.happens(ReplyEnded(1)) == []
    assert caller.machine.deadline is None
    assert caller.machine.position_ms == 36 * WINDOW_MS
    assert not caller.machine.replying


def test_a_reply_is_prepared_in_the_pause_and_released_with_the_commit() -> None:
    caller = Caller()
    caller.speaks()
    assert caller.pauses() == [Transcribe(1, 1, "ahead")]
    assert caller.happens(TranscriptArrived(1, "hello")) == [PrepareReply(1, "hello")]
    assert not caller.machine.replying, "nobody may know of it yet"
    assert caller.pauses(SILENCE - AHEAD) == [
        CommitTurn(1, 26 * WINDOW_MS, quiet_ms=SILENCE * WINDOW_MS),
        AcceptTranscript(1, "hello"),
        ReleaseReply(1),
    ]
    assert caller.machine.replying


def test_a_caller_who_goes_on_makes_the_prepared_reply_vanish() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "I would like"))
    assert caller.speaks() == [DropReply(1)]
    assert caller.pauses() == [Transcribe(1, 2, "ahead")]
    assert caller.happens(TranscriptArrived(2, "I would like a tea")) == [
        PrepareReply(2, "I would like a tea")
    ]
    assert caller.pauses(SILENCE)[-2:] == [
        AcceptTranscript(1, "I would like a tea"),
        ReleaseReply(2),
    ]


def test_a_caller_who_goes_on_before_the_words_are_there_makes_the_take_vanish() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    assert caller.speaks() == [DropTake(1)]
    assert caller.happens(TranscriptArrived(1, "too late")) == []


def test_a_failed_take_ahead_is_tried_again_with_the_whole_turn() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    assert caller.happens(TranscriptFailed(1, "busy")) == []
    assert Transcribe(1, 2, "final") in caller.stops()


def test_a_second_word_on_the_same_take_changes_nothing() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    assert caller.happens(TranscriptArrived(1, "bye"), TranscriptFailed(1, "odd")) == []
    assert caller.stops()[-2:] == [AcceptTranscript(1, "hello"), ReleaseReply(1)]


def test_silence_that_was_taken_for_speech_gets_no_reply() -> None:
    caller = Caller()
    caller.speaks(ONSET)
    caller.pauses()
    assert caller.happens(TranscriptArrived(1, "")) == []
    assert caller.stops()[-1] == AcceptTranscript(1, "")
    assert caller.machine.deadline is None


def test_a_released_reply_ends_like_any_other() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    assert caller.stops()[-1] == ReleaseReply(1)
    caller.happens(ReplyEnded(1))
    assert not caller.machine.replying


def test_a_prepared_reply_that_failed_is_made_anew_when_the_turn_is_over() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    assert caller.happens(ReplyEnded(1)) == [DropReply(1)]
    assert caller.stops()[-1] == StartReply(2)


# --- barge-in -------------------------------------------------------------------------------


def test_a_caller_who_speaks_up_silences_the_reply_at_once() -> None:
    caller = Caller(NO_SPECULATION)
    caller.says("hello", take=1)
    assert caller.speaks(ONSET)[1:] == [ConfirmTurn(2), PauseReply(1)]
    caller.stops()
    assert caller.happens(TranscriptArrived(2, "stop"))[-2:] == [
        StopReply(1, "turn_detected"),
        StartReply(2),
    ]
    assert caller.happens(ReplyEnded(1)) == [], "its end comes late and means nothing"


def test_a_caller_who_may_not_interrupt_is_answered_after_the_reply() -> None:
    caller = Caller(replace(NO_SPECULATION, interrupt_response=False))
    caller.says("hello", take=1)
    assert AcceptTranscript(2, "and") in caller.says("and", take=2)
    assert caller.happens(ReplyEnded(1)) == [StartReply(2)]


def test_words_that_arrive_while_the_caller_speaks_again_are_answered_after_that() -> None:
    caller = Caller(NO_SPECULATION)
    caller.speaks()
    caller.stops()
    caller.speaks()
    assert caller.machine.deadline == caller.now + DEFAULT.stall_ms, "the sooner of two"
    assert caller.happens(TranscriptArrived(1, "wait")) == [AcceptTranscript(1, "wait")]
    caller.stops()
    assert caller.happens(TranscriptArrived(2, "")) == [AcceptTranscript(2, ""), StartReply(1)]


# --- what the client does -------------------------------------------------------------------


def test_a_turn_by_hand_is_committed_and_answered_on_request() -> None:
    caller = Caller(replace(BY_HAND, create_response=False))
    assert caller.speaks() + caller.stops() == []
    assert caller.happens(AudioCommitted()) == [
        Transcribe(1, 1, "final"),
        CommitTurn(1, 26 * WINDOW_MS),
    ]
    assert caller.happens(ReplyRequested()) == [], "it waits for the words"
    assert caller.machine.replying
    assert caller.happens(TranscriptArrived(1, "hello")) == [
        AcceptTranscript(1, "hello"),
        StartReply(1),
    ]


def test_a_turn_by_hand_is_answered_of_itself_where_that_is_wanted() -> None:
    caller = Caller(BY_HAND)
    caller.happens(AudioCommitted())
    assert caller.happens(TranscriptArrived(1, "hello"))[-1] == StartReply(1)


def test_a_commit_in_mid_pause_takes_the_whole_turn_and_not_what_was_worked_ahead() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    assert caller.happens(AudioCommitted()) == [
        DropReply(1),
        Transcribe(1, 2, "final"),
        CommitTurn(1, 15 * WINDOW_MS),
    ]
    assert caller.speaks(ONSET) == [OpenTurn(2, 15 * WINDOW_MS), ConfirmTurn(2)], (
        "a turn of its own"
    )


def test_a_cleared_turn_never_was() -> None:
    caller = Caller()
    assert caller.happens(AudioCleared()) == []
    caller.speaks()
    caller.pauses()
    assert caller.happens(AudioCleared()) == [DropTake(1), DiscardTurn(1)]
    assert caller.stops() == []
    assert caller.machine.deadline is None
    assert caller.speaks(ONSET)[0].__class__ is OpenTurn


def test_a_request_waits_for_a_caller_who_speaks_and_is_one_with_the_answer() -> None:
    caller = Caller(NO_SPECULATION)
    caller.speaks()
    assert caller.happens(ReplyRequested()) == []
    assert caller.machine.replying
    caller.stops()
    assert caller.happens(TranscriptArrived(1, "hello")) == [
        AcceptTranscript(1, "hello"),
        StartReply(1),
    ]
    assert caller.happens(ReplyEnded(1)) == []


def test_a_request_is_granted_at_once_where_replies_are_not_interrupted() -> None:
    caller = Caller(replace(NO_SPECULATION, interrupt_response=False))
    caller.speaks()
    assert caller.happens(ReplyRequested()) == [StartReply(1)]
    caller.stops()
    assert caller.happens(TranscriptArrived(1, "hello")) == [AcceptTranscript(1, "hello")]
    assert caller.happens(ReplyEnded(1)) == [StartReply(2)]


def test_a_request_while_replying_is_granted_after_the_reply() -> None:
    caller = Caller()
    caller.happens(ReplyRequested())
    assert caller.happens(ReplyRequested()) == []
    assert caller.happens(ReplyEnded(1)) == [StartReply(2)]
    assert caller.happens(ReplyEnded(2)) == []


def test_a_request_takes_the_place_of_a_prepared_reply() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    caller.happens(ReplyRequested())
    assert caller.stops()[-2:] == [DropReply(1), StartReply(2)]


def test_a_request_that_has_not_begun_waits_for_a_caller_who_interrupts() -> None:
    caller = Caller(NO_SPECULATION)
    caller.happens(ReplyRequested(), ReplyRequested())
    assert caller.speaks()[1:] == [ConfirmTurn(1), PauseReply(1)]
    caller.stops()
    assert caller.happens(TranscriptArrived(1, ""))[1:] == [
        StopReply(1, "turn_detected"),
        StartReply(2),
    ]


def test_a_cancelled_reply_stops_and_its_late_end_means_nothing() -> None:
    caller = Caller()
    caller.happens(ReplyRequested())
    assert caller.happens(ReplyCancelled()) == [StopReply(1, "client_cancelled")]
    assert caller.happens(ReplyCancelled(), ReplyEnded(1)) == []
    assert caller.happens(ReplyRequested()) == [StartReply(2)]


def test_a_request_is_cancelled_before_it_is_granted() -> None:
    caller = Caller(replace(BY_HAND, create_response=False))
    caller.happens(AudioCommitted(), ReplyRequested(), ReplyCancelled())
    assert not caller.machine.replying
    assert caller.happens(TranscriptArrived(1, "hello")) == [AcceptTranscript(1, "hello")]


def test_cancelling_one_reply_does_not_take_the_answer_from_later_words() -> None:
    caller = Caller(replace(NO_SPECULATION, interrupt_response=False))
    caller.says("hello", take=1)
    caller.says("what about tea", take=2)
    assert caller.happens(ReplyCancelled()) == [StopReply(1, "client_cancelled"), StartReply(2)]


# --- words late, out of order, or never -----------------------------------------------------


def test_the_reply_waits_for_all_words_in_whatever_order_they_come() -> None:
    caller = Caller(NO_SPECULATION)
    for _ in range(2):
        caller.speaks()
        caller.stops()
    assert caller.happens(TranscriptArrived(2, "tea")) == [AcceptTranscript(2, "tea")]
    assert caller.happens(TranscriptArrived(1, "some")) == [
        AcceptTranscript(1, "some"),
        StartReply(1),
    ]


def test_nothing_is_prepared_while_words_of_an_earlier_turn_are_still_to_come() -> None:
    caller = Caller()
    caller.speaks()
    caller.stops()
    caller.speaks()
    caller.pauses()
    assert caller.happens(TranscriptArrived(2, "tea")) == []
    assert caller.stops()[-1] == AcceptTranscript(2, "tea")
    assert caller.happens(TranscriptArrived(1, "some"))[-1] == StartReply(1)


def test_a_turn_whose_take_failed_stays_without_words_and_without_reply() -> None:
    caller = Caller(NO_SPECULATION)
    caller.speaks()
    caller.stops()
    assert caller.happens(TranscriptFailed(1, "busy")) == [FailTranscript(1, "busy")]
    assert caller.happens(TranscriptFailed(1, "busy"), TranscriptArrived(1, "late")) == []
    assert caller.machine.deadline is None


def test_words_that_never_come_are_given_up_and_the_others_answered() -> None:
    caller = Caller(NO_SPECULATION)
    caller.speaks()
    caller.stops()
    committed_at = caller.now
    caller.says("tea", take=2)
    assert caller.machine.deadline == committed_at + DEFAULT.transcript_timeout_ms
    assert caller.waits_to_the_deadline() == [
        DropTake(1),
        FailTranscript(1, "the recogniser took too long"),
        StartReply(1),
    ]
    assert caller.machine.deadline is None


def test_a_caller_who_vanishes_in_mid_word_is_answered_all_the_same() -> None:
    caller = Caller()
    caller.speaks()
    assert caller.machine.deadline == caller.now + DEFAULT.stall_ms
    assert caller.waits_to_the_deadline() == [
        Transcribe(1, 1, "final"),
        CommitTurn(1, 10 * WINDOW_MS),
    ]
    assert caller.happens(TranscriptArrived(1, "hel"))[-1] == StartReply(1)


def test_a_wake_before_the_deadline_or_without_one_changes_nothing() -> None:
    caller = Caller()
    caller.now = 5_000
    assert caller.happens(DeadlinePassed()) == []
    caller.speaks()
    caller.now += DEFAULT.stall_ms - 1
    assert caller.happens(DeadlinePassed()) == []


# --- settings changed in mid-call -----------------------------------------------------------


def test_no_reply_is_released_once_replies_were_turned_off() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    off = SettingsChanged(replace(DEFAULT, create_response=False))
    assert caller.happens(off) == [DropReply(1)]
    assert caller.stops()[-1] == AcceptTranscript(1, "hello")
    assert caller.says("hello", take=2)[-1] == AcceptTranscript(2, "hello")


def test_a_turn_that_detection_has_opened_stays_open_while_detection_is_off() -> None:
    caller = Caller()
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    outdated = caller.happens(SettingsChanged(BY_HAND))
    assert outdated == [DropReply(1)], "it was worked out under other settings"
    assert caller.machine.deadline is None, "only the client ends it now"
    assert caller.speaks(1) == []
    assert caller.stops() == []
    caller.happens(SettingsChanged(NO_SPECULATION))
    assert caller.stops() == [
        Transcribe(1, 2, "final"),
        CommitTurn(1, 48 * WINDOW_MS, quiet_ms=SILENCE * WINDOW_MS),
    ]
