"""The agent's half on its own: what is told of a reply by whom, and what that changes."""

from pipelines.conversation.answering import ANSWER_MS, Answering
from pipelines.conversation.events import (
    Command,
    DropReply,
    HangUp,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ResumeReply,
    SayLine,
    StartReply,
    StopReply,
)
from pipelines.conversation.settings import TurnSettings


def answering(settings: TurnSettings | None = None) -> tuple[Answering, list[Command]]:
    commands: list[Command] = []
    return Answering(settings or TurnSettings(), commands.append), commands


def go_on(
    agent: Answering,
    now: int = 0,
    *,
    quiet: bool = True,
    heard: bool = True,
    noise: bool = False,
) -> None:
    agent.go_on(now, quiet=quiet, heard=heard, noise=noise)


def test_what_is_owed_begins_when_all_is_quiet_and_heard() -> None:
    agent, commands = answering()
    agent.owe()
    go_on(agent, quiet=False)
    go_on(agent, heard=False)
    assert commands == []
    go_on(agent)
    assert commands == [StartReply(1)]


def test_a_reply_is_prepared_only_where_nothing_else_is_in_hand() -> None:
    agent, commands = answering()
    agent.prepare("hello")
    agent.prepare("hello again")
    assert commands == [PrepareReply(1, "hello")]
    agent.owe()
    assert commands[1:] == [ReleaseReply(1)]
    agent.prepare("more")
    assert commands[2:] == []


def test_a_prepared_reply_that_fails_is_dropped_and_owed_anew() -> None:
    agent, commands = answering()
    agent.prepare("hello")
    agent.ended(1, heard_at=0)
    assert commands[1:] == [DropReply(1)]
    agent.owe()
    go_on(agent)
    assert commands[2:] == [StartReply(2)]


def test_another_reply_s_news_mean_nothing() -> None:
    agent, _ = answering()
    agent.request()
    go_on(agent)
    agent.sounded(7)
    agent.ended(7, heard_at=0)
    agent.called_tools(7)
    assert agent.busy
    assert not agent.sounds(0)


def test_a_reply_sounds_until_it_is_heard() -> None:
    agent, _ = answering()
    agent.request()
    go_on(agent)
    agent.sounded(1)
    assert agent.sounds(0)
    agent.ended(1, heard_at=500)
    assert (agent.sounds(499), agent.sounds(500)) == (True, False)
    assert agent.nearly_over(0)
    assert not agent.busy


def test_a_reply_that_may_go_on_is_not_nearly_over() -> None:
    agent, _ = answering()
    assert agent.nearly_over(0), "nothing is being said"
    agent.request()
    go_on(agent)
    assert not agent.nearly_over(0)
    agent.ended(1, heard_at=5_000)
    assert not agent.nearly_over(5_000 - ANSWER_MS - 1)
    assert agent.nearly_over(5_000 - ANSWER_MS)


def test_a_paused_reply_is_resumed_or_stopped_by_words() -> None:
    agent, commands = answering()
    agent.request()
    go_on(agent)
    assert agent.pause(0)
    assert agent.pause(0), "it stays silent"
    assert commands[1:] == [PauseReply(1)]
    go_on(agent)
    assert commands[2:] == [ResumeReply(1)]
    agent.pause(0)
    agent.take_words(0)
    assert commands[3:] == [PauseReply(1), StopReply(1, "turn_detected")]


def test_there_is_nothing_to_pause_in_a_prepared_reply_or_a_heard_one() -> None:
    agent, _ = answering()
    agent.prepare("hello")
    assert not agent.pause(0)
    agent.owe()
    agent.ended(1, heard_at=100)
    assert not agent.pause(100)


# --- what is said of itself -----------------------------------------------------------------


def test_a_silent_caller_is_asked_once_then_let_go() -> None:
    agent, commands = answering(TurnSettings(idle_ms=5_000, hang_up_ms=2_000))
    agent.stir(1_000)
    assert agent.deadline() == 6_000
    go_on(agent, 5_999)
    assert commands == []
    go_on(agent, 6_000)
    agent.ended(1, heard_at=7_000)
    assert agent.deadline() == 9_000
    go_on(agent, 9_000)
    agent.ended(2, heard_at=10_000)
    go_on(agent, 9_999)
    go_on(agent, 10_000)
    assert commands == [SayLine(1, "still_there"), SayLine(2, "farewell"), HangUp()]
    assert agent.deadline() is None
    go_on(agent, 99_000)
    assert commands[3:] == []


def test_a_tool_that_takes_long_is_bridged() -> None:
    agent, commands = answering(TurnSettings(filler_ms=500))
    agent.request()
    go_on(agent)
    agent.called_tools(1)
    assert agent.deadline() is None, "it is still speaking"
    agent.ended(1, heard_at=100)
    go_on(agent, 600)
    assert commands[1:] == [SayLine(2, "one_moment")]
    agent.ended(2, heard_at=900)
    assert agent.deadline() is None


def test_a_call_ends_on_request_once_all_is_heard_unless_the_caller_has_words() -> None:
    agent, commands = answering()
    agent.request()
    go_on(agent)
    agent.leave(0)
    go_on(agent)
    agent.ended(1, heard_at=300)
    assert agent.deadline() == 300
    agent.take_words(300)
    assert agent.deadline() is None
    agent.leave(300)
    go_on(agent, 300)
    assert commands[1:] == [HangUp()]


def test_what_is_all_made_and_still_heard_is_cancelled_only_where_that_is_meant() -> None:
    agent, commands = answering()
    agent.request()
    go_on(agent)
    agent.sounded(1)
    agent.ended(1, heard_at=3_000)
    agent.cancel(1_000)
    assert commands == [StartReply(1)]
    agent.cancel(1_000, sounding=True)
    assert commands[1:] == [StopReply(1, "client_cancelled")]
    agent.cancel(1_100, sounding=True)
    agent.prepare("hello")
    agent.cancel(1_200, sounding=True)
    assert commands[2:] == [PrepareReply(2, "hello")]


def test_what_has_been_heard_is_not_cancelled() -> None:
    agent, commands = answering()
    agent.request()
    go_on(agent)
    agent.sounded(1)
    agent.ended(1, heard_at=3_000)
    agent.cancel(3_000, sounding=True)
    assert commands == [StartReply(1)]


def test_a_client_cancels_what_was_asked_for_what_is_out_and_what_is_paused() -> None:
    agent, commands = answering()
    agent.request()
    agent.cancel(0)
    go_on(agent)
    assert commands == []
    for pause in (False, True):
        agent.request()
        go_on(agent)
        if pause:
            agent.pause(0)
        agent.cancel(0)
        assert isinstance(commands[-1], StopReply)
    agent.prepare("hello")
    agent.cancel(0)
    assert isinstance(commands[-1], PrepareReply), "nobody knows of it"


def test_a_request_goes_before_what_was_prepared_and_ends_what_is_paused() -> None:
    agent, commands = answering()
    agent.prepare("hello")
    agent.request()
    agent.owe()
    go_on(agent)
    assert commands[1:] == [DropReply(1), StartReply(2)]
    agent.pause(0)
    agent.request()
    go_on(agent)
    assert commands[3:] == [PauseReply(2), StopReply(2, "turn_detected"), StartReply(3)]
    assert agent.replying
    agent.request()
    go_on(agent)
    assert commands[6:] == [], "one at a time"
    agent.ended(3, heard_at=0)
    go_on(agent)
    assert commands[6:] == [StartReply(4)]
    agent.ended(4, heard_at=0)
    assert not agent.replying


def test_only_words_put_off_that_a_caller_is_asked() -> None:
    agent, commands = answering(TurnSettings(idle_ms=5_000))
    agent.stir(0)
    agent.take_words(3_000)
    go_on(agent, 7_999, quiet=False, noise=True)
    assert commands == []
    go_on(agent, 8_000, quiet=False)
    assert commands == [], "the caller may have words"
    go_on(agent, 8_000, quiet=False, noise=True)
    assert commands == [SayLine(1, "still_there")]


def test_noise_makes_no_room_for_what_waits_for_quiet() -> None:
    agent, commands = answering()
    agent.owe()
    go_on(agent, quiet=False, noise=True)
    assert commands == []
    go_on(agent)
    agent.pause(0)
    go_on(agent, quiet=False, noise=True)
    assert commands == [StartReply(1), PauseReply(1)]


def test_nobody_knows_of_silence_where_the_client_takes_the_turns() -> None:
    agent, _ = answering(TurnSettings(idle_ms=5_000, hang_up_ms=2_000, detect=False))
    agent.stir(1_000)
    assert agent.deadline() is None


def test_a_client_that_asks_for_a_reply_shows_that_somebody_is_there() -> None:
    agent, commands = answering(TurnSettings(idle_ms=5_000, hang_up_ms=1_000))
    agent.stir(0)
    go_on(agent, 5_000)
    agent.ended(1, heard_at=5_500)
    agent.request()
    go_on(agent, 6_000)
    agent.ended(2, heard_at=7_000)
    assert commands == [SayLine(1, "still_there"), StartReply(2)]
    assert agent.deadline() == 12_000


# --- failures -------------------------------------------------------------------------------


def apologising() -> tuple[Answering, list[Command]]:
    return answering(TurnSettings(apologise=True))


def test_a_reply_that_fails_is_apologised_for_once_what_was_said_is_heard() -> None:
    agent, commands = apologising()
    agent.owe()
    go_on(agent)
    agent.ended(1, heard_at=500, failed=True)
    go_on(agent, 499)
    assert agent.deadline() == 500
    assert commands == [StartReply(1)]
    go_on(agent, 500)
    assert commands[1:] == [SayLine(2, "sorry")]
    agent.ended(2, heard_at=900)
    go_on(agent, 60_000)
    assert commands[2:] == []


def test_an_apology_that_fails_is_not_apologised_for() -> None:
    agent, commands = apologising()
    agent.owe()
    go_on(agent)
    for epoch in (1, 2):
        agent.ended(epoch, heard_at=0, failed=True)
        go_on(agent)
    assert commands == [StartReply(1), SayLine(2, "sorry")]


def test_who_speaks_or_asks_meanwhile_is_answered_in_its_place() -> None:
    for_words, commands = apologising()
    for_words.owe()
    go_on(for_words)
    for_words.ended(1, heard_at=0, failed=True)
    go_on(for_words, quiet=False)
    for_words.take_words(10)
    for_words.owe()
    go_on(for_words, 20)
    for_words.ended(2, heard_at=30)
    go_on(for_words, 30)
    assert commands == [StartReply(1), StartReply(2)]
    for_client, commands = apologising()
    for_client.misheard(0)
    for_client.request()
    go_on(for_client)
    for_client.ended(1, heard_at=0)
    go_on(for_client)
    assert commands == [StartReply(1)]


def test_words_that_are_lost_are_apologised_for_where_they_would_have_been_answered() -> None:
    agent, commands = apologising()
    agent.misheard(100)
    go_on(agent, 100)
    assert commands == [SayLine(1, "sorry")]
    mute, commands = answering(TurnSettings(apologise=True, create_response=False))
    mute.misheard(100)
    go_on(mute, 100)
    assert commands == []


def test_nobody_apologises_unless_told_to() -> None:
    agent, commands = answering()
    agent.owe()
    go_on(agent)
    agent.ended(1, heard_at=0, failed=True)
    agent.misheard(0)
    go_on(agent)
    assert commands == [StartReply(1)]
