"""How long the machine waits: for a caller who thinks, for words to be shown, for anybody."""

from dataclasses import replace

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DropTake,
    EndJudged,
    FailTranscript,
    HangUp,
    HangUpRequested,
    Kind,
    ProfileChosen,
    ReleaseReply,
    ReplyCancelled,
    ReplyEnded,
    ReplyRequested,
    ReplySounded,
    SayLine,
    SettingsChanged,
    ShowWords,
    StartReply,
    StopReply,
    ToolsCalled,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
)
from pipelines.conversation.patience import PROFILES
from tests.pipelines.conversation.talking import AHEAD, DEFAULT, NO_SPECULATION, SILENCE, Caller

SEMANTIC = replace(DEFAULT, profile="normal")
NORMAL = PROFILES["normal"]
PARTIAL = replace(DEFAULT, partials=True)


def silence_of(commands: list[Command]) -> int | None:
    """The silence that ended a turn, in ms."""
    return next((command.quiet_ms for command in commands if isinstance(command, CommitTurn)), None)


def waited(caller: Caller, *opinions: TranscriptArrived | EndJudged) -> int | None:
    """The silence that ends a turn about which this is thought."""
    caller.speaks()
    caller.pauses(AHEAD)
    caller.happens(*opinions)
    return silence_of(caller.pauses(200))


def words(completeness: float, take: int = 1) -> TranscriptArrived:
    return TranscriptArrived(take, "some words", completeness=completeness)


def about(wait_ms: int, found: int | None) -> bool:
    return found is not None and abs(found - wait_ms) <= WINDOW_MS


# --- a caller who thinks --------------------------------------------------------------------


def test_the_wait_follows_what_the_words_and_the_sound_say() -> None:
    assert about(NORMAL.base_ms, waited(Caller(SEMANTIC)))
    assert about(NORMAL.floor_ms, waited(Caller(SEMANTIC), words(1.0)))
    assert about(NORMAL.ceiling_ms, waited(Caller(SEMANTIC), words(-1.0)))
    unsure = waited(Caller(SEMANTIC), EndJudged(1, 0.0))
    assert unsure is not None
    assert NORMAL.base_ms < unsure <= NORMAL.ceiling_ms
    both = waited(Caller(SEMANTIC), words(0.9), EndJudged(1, 0.0))
    assert about(NORMAL.base_ms, both), "they weigh about the same"


def test_without_a_profile_only_the_silence_counts() -> None:
    assert waited(Caller(), words(-1.0), EndJudged(1, 0.0)) == SILENCE * WINDOW_MS


def test_an_opinion_is_forgotten_when_the_caller_goes_on_and_an_old_one_never_counts() -> None:
    caller = Caller(SEMANTIC)
    caller.speaks()
    caller.pauses(AHEAD)
    caller.happens(words(-1.0))
    caller.speaks()
    caller.pauses(AHEAD)
    caller.happens(EndJudged(1, 0.0))
    assert about(NORMAL.base_ms, silence_of(caller.pauses(100)))


def test_the_caller_is_listened_to_in_the_pause_even_if_nothing_is_worked_out() -> None:
    caller = Caller(replace(SEMANTIC, speculate=False))
    caller.speaks()
    assert caller.pauses(AHEAD) == [Transcribe(1, 1, "ahead")]
    assert caller.happens(words(1.0)) == []


def test_a_profile_that_was_chosen_once_holds_until_there_are_words() -> None:
    caller = Caller()
    caller.happens(ProfileChosen("digits", once=True))
    assert about(PROFILES["digits"].base_ms, waited(caller, TranscriptArrived(1, "")))
    assert about(PROFILES["digits"].ceiling_ms, waited(caller, words(-1.0, take=2)))
    assert caller.machine.profile is None


def test_a_profile_that_was_chosen_holds_until_it_is_taken_back() -> None:
    caller = Caller()
    caller.happens(ProfileChosen("patient"))
    waited(caller, words(0.0))
    assert caller.machine.profile == "patient"
    caller.happens(SettingsChanged(SEMANTIC))
    assert caller.machine.profile == "patient", "it goes before the settings"
    caller.happens(ProfileChosen(None))
    assert caller.machine.profile == "normal"


# --- words while they are spoken ------------------------------------------------------------


def test_words_are_shown_once_two_readings_agree() -> None:
    caller = Caller(PARTIAL)
    caller.speaks(2)
    assert caller.speaks(7) == [Transcribe(1, 1, "partial")]
    assert caller.speaks(20) == [], "one at a time"
    assert caller.happens(TranscriptArrived(1, "I would")) == []
    assert caller.speaks(30)[0] == Transcribe(1, 2, "partial")
    assert caller.happens(TranscriptArrived(2, "I would like")) == [ShowWords(1, "I would")]


def test_the_longer_a_reading_takes_the_later_is_the_next() -> None:
    for took, most in ((1, 8), (9, 19), (40, 20)):
        caller = Caller(PARTIAL)
        caller.speaks(9)
        caller.speaks(took)
        caller.happens(TranscriptArrived(1, "so"))
        windows = took
        while not caller.speaks(1):
            windows += 1
        assert max(took, most - 2) <= windows + 1 <= max(took + 1, most + 1)


def test_a_reading_that_was_refused_is_tried_again_later() -> None:
    caller = Caller(PARTIAL)
    caller.speaks(9)
    caller.happens(TranscriptFailed(1, "busy"))
    assert caller.speaks(17) == []
    assert Transcribe(1, 2, "partial") in caller.speaks(3)


def test_a_pause_needs_the_recogniser_for_itself() -> None:
    caller = Caller(PARTIAL)
    caller.speaks(9)
    assert caller.pauses(AHEAD) == [DropTake(1), Transcribe(1, 2, "ahead")]
    assert caller.happens(TranscriptArrived(1, "late")) == []


# --- nobody says anything -------------------------------------------------------------------

IDLE = replace(NO_SPECULATION, idle_ms=5_000, hang_up_ms=3_000)


def test_a_silent_caller_is_asked_then_the_call_ends() -> None:
    caller = Caller(IDLE)
    caller.pauses(1)
    began = caller.now
    assert caller.waits_to_the_deadline() == [SayLine(1, "still_there")]
    assert caller.now == began + 5_000
    assert not caller.machine.replying, "a client may still ask for a reply"
    assert caller.happens(ReplySounded(1), ReplyEnded(1, lead_ms=700)) == []
    assert caller.machine.deadline == caller.now + 700 + 3_000
    assert caller.waits_to_the_deadline() == [SayLine(2, "farewell")]
    assert caller.happens(ReplySounded(2), ReplyEnded(2, lead_ms=2_000)) == []
    assert caller.waits_to_the_deadline() == [HangUp()]
    assert caller.machine.deadline is None


def test_a_caller_who_speaks_up_is_asked_again_only_after_as_long() -> None:
    caller = Caller(IDLE)
    caller.pauses(1)
    caller.waits_to_the_deadline()
    caller.happens(ReplySounded(1), ReplyEnded(1))
    assert caller.says("yes, I am", take=1)[-1] == StartReply(2)
    caller.happens(ReplySounded(2), ReplyEnded(2, lead_ms=100))
    assert caller.waits_to_the_deadline() == [SayLine(3, "still_there")]


def test_a_caller_who_speaks_over_the_farewell_is_kept() -> None:
    caller = Caller(IDLE)
    caller.pauses(1)
    for epoch in (1, 2):
        caller.waits_to_the_deadline()
        caller.happens(ReplySounded(epoch), ReplyEnded(epoch, lead_ms=2_000))
    commands = caller.says("wait, I am here", take=1)
    assert StopReply(2, "turn_detected") in commands
    assert commands[-1] == StartReply(3)
    caller.happens(ReplySounded(3), ReplyEnded(3))
    assert caller.waits_to_the_deadline() == [SayLine(4, "still_there")]


def test_a_call_hangs_up_on_request_once_all_is_heard() -> None:
    caller = Caller()
    assert caller.happens(HangUpRequested()) == [HangUp()]
    caller = Caller()
    caller.happens(ReplyRequested(), ReplySounded(1), HangUpRequested())
    assert caller.happens(ReplyEnded(1, lead_ms=900)) == []
    assert caller.waits_to_the_deadline() == [HangUp()]


def test_a_slow_tool_is_bridged_once() -> None:
    caller = Caller()
    caller.happens(ReplyRequested(), ToolsCalled(1), ReplyEnded(1))
    assert caller.waits_to_the_deadline() == [SayLine(2, "one_moment")]
    assert caller.happens(ReplyRequested()) == [], "its result waits for the word to be said"
    assert caller.happens(ReplyEnded(2)) == [StartReply(3)]
    caller.happens(ReplyEnded(3))
    assert caller.machine.deadline is None


def test_a_quick_tool_and_one_that_the_caller_talks_over_are_not() -> None:
    caller = Caller()
    caller.happens(ReplyRequested(), ToolsCalled(1), ReplyEnded(1), ReplyRequested())
    assert caller.happens(ReplyEnded(2)) == []
    assert caller.machine.deadline is None
    caller = Caller(NO_SPECULATION)
    caller.happens(ReplyRequested(), ToolsCalled(1), ReplyEnded(1))
    caller.says("never mind", take=1)
    caller.happens(ReplyEnded(2))
    assert caller.machine.deadline is None


def test_a_tools_result_waits_for_a_caller_who_speaks() -> None:
    caller = Caller(NO_SPECULATION)
    caller.happens(ReplyRequested(), ToolsCalled(1), ReplyEnded(1))
    caller.speaks()
    assert caller.happens(ReplyRequested()) == []
    caller.stops()
    assert caller.happens(TranscriptArrived(1, "hello?")) == [
        AcceptTranscript(1, "hello?"),
        StartReply(2),
    ]
    assert caller.happens(ReplyEnded(2)) == [], "one reply for both"


def test_a_noisy_line_is_idle_all_the_same() -> None:
    caller = Caller(IDLE)
    caller.pauses(1)
    began = caller.now
    for take in range(1, 5):
        caller.speaks(10)
        caller.stops()
        assert caller.happens(TranscriptArrived(take, "", "nothing")) == [
            AcceptTranscript(take, "")
        ]
    assert caller.now < began + 5_000
    assert caller.machine.deadline == began + 5_000, "what has no words puts nothing off"
    assert caller.waits_to_the_deadline() == [SayLine(1, "still_there")]


def test_words_after_noise_are_what_idle_time_is_counted_from() -> None:
    caller = Caller(replace(IDLE, create_response=False))
    caller.says("hello", take=1)
    spoke = caller.now
    caller.speaks()
    caller.stops()
    caller.happens(TranscriptArrived(2, ""))
    assert caller.machine.deadline == spoke + 5_000
    caller.speaks()
    caller.stops()
    assert caller.happens(TranscriptFailed(3, "busy")) == [FailTranscript(3, "busy")]
    assert caller.machine.deadline == caller.now + 5_000, "there may have been words"


def speaks_and_is_read(caller: Caller, text: str, kind: Kind) -> list[Command]:
    """A third of a second of sound, and what the recogniser makes of it; what is said of itself
    is heard at once."""
    commands = caller.speaks(10)
    for command in list(commands):
        if isinstance(command, Transcribe):
            commands += caller.happens(TranscriptArrived(command.take, text, kind))
        if isinstance(command, SayLine):
            commands += caller.happens(ReplySounded(command.epoch), ReplyEnded(command.epoch))
    return [command for command in commands if isinstance(command, SayLine | HangUp)]


def test_noise_without_end_does_not_keep_a_call_open() -> None:
    caller = Caller(replace(IDLE, partials=True))
    ends = [end for _ in range(40) for end in speaks_and_is_read(caller, "", "nothing")]
    assert ends == [SayLine(1, "still_there"), SayLine(2, "farewell"), HangUp()]


def test_a_caller_who_talks_on_is_not_asked() -> None:
    caller = Caller(replace(IDLE, partials=True))
    for _ in range(20):
        assert speaks_and_is_read(caller, "so then I said", "words") == []
        assert speaks_and_is_read(caller, "", "nothing") == []


def test_a_client_that_cancels_is_not_idle() -> None:
    caller = Caller(IDLE)
    caller.pauses(1)
    caller.happens(ReplyRequested())
    caller.now += 20_000
    caller.happens(ReplyCancelled())
    assert caller.machine.deadline == caller.now + 5_000


def test_the_reply_of_a_turn_is_released_though_idle_time_would_have_passed() -> None:
    caller = Caller(replace(DEFAULT, idle_ms=100))
    caller.speaks()
    caller.pauses()
    caller.happens(TranscriptArrived(1, "hello"))
    assert caller.stops()[-1] == ReleaseReply(1)
