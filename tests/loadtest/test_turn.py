import pytest

from loadtest.habits import Intent
from loadtest.listening import Reply, VirtualPlayer
from loadtest.turn import Turn
from tests.loadtest.calling import FRAME_S, RATE, SILENCE, clip, pcm

BEGAN = 100.0
SPEECH_END = BEGAN + 45 * FRAME_S


def make(intent: Intent | None = None, *, barging: bool = False) -> Turn:
    return Turn(clip(), intent or Intent(0, 0.0), BEGAN, SILENCE, barging=barging)


def sounding(name: bytes, now: float, ms: float = 500.0, status: str = "completed") -> Reply:
    reply, audio = Reply(name, status=status), pcm(ms)
    reply.say("Yes.")
    reply.sound(now, len(audio) // 2, RATE, lambda: audio)
    return reply


def test_times_run_from_the_last_speech_sample():
    turn = make()
    assert turn.speech_end == pytest.approx(SPEECH_END)
    turn.own(b"i")
    turn.commit(SPEECH_END + 0.5)
    turn.hear(b"i", "go forward")
    turn.answer(sounding(b"r", SPEECH_END + 0.6))
    record = turn.record(3, 90.0, 110.0, "answered")
    assert record.first_audio_ms == pytest.approx(600)
    assert record.sentence_ms == pytest.approx(600)
    assert record.commit_ms == pytest.approx(500)
    assert record.at_s == 10.0
    assert (record.said, record.heard, record.cuts) == ("go forward", "go forward", 0)


def test_a_pause_in_the_middle_moves_the_end():
    turn = make(Intent(0, 0.0, pause_ms=1_000.0))
    assert len(turn.frames) == 100
    assert turn.speech_end == pytest.approx(SPEECH_END + 1.0)
    assert turn.frames[25:75] == [SILENCE] * 50
    turn.commit(SPEECH_END)
    assert turn.record(0, 0.0, 110.0, "unanswered").cuts == 1


def test_a_reply_before_the_end_is_no_answer_but_one_after_it_is():
    turn = make()
    turn.answer(sounding(b"early", BEGAN + 0.2, status="cancelled"))
    assert turn.answered_by is None
    assert turn.record(0, 0.0, 110.0, "unanswered").outcome == "early"
    turn.answer(sounding(b"late", SPEECH_END + 0.4))
    record = turn.record(0, 0.0, 110.0, "answered")
    assert record.first_audio_ms == pytest.approx(400)


def test_a_turn_is_over_when_its_reply_is_heard_out():
    turn, player = make(), VirtualPlayer()
    turn.commit(SPEECH_END + 0.5)
    reply = sounding(b"r", SPEECH_END + 0.6, status="")
    turn.answer(reply)
    player.put(SPEECH_END + 0.6, reply, 0.5)
    assert not turn.over(SPEECH_END + 1.0, player)
    assert not turn.over(SPEECH_END + 1.2, player)
    reply.status = "completed"
    assert turn.over(SPEECH_END + 1.2, player)


def test_a_reply_to_a_part_of_the_turn_is_waited_past():
    turn, player = make(), VirtualPlayer()
    turn.commit(BEGAN + 0.3)
    turn.answer(sounding(b"r", SPEECH_END + 0.01, ms=20))
    assert not turn.over(SPEECH_END + 0.5, player)
    assert turn.over(turn.clip_end + 1.5, player)


def test_patience_runs_from_the_last_thing_heard():
    turn, player = make(), VirtualPlayer()
    assert not turn.given_up(turn.clip_end + 9.9, player, 10.0)
    assert turn.given_up(turn.clip_end + 10.1, player, 10.0)
    turn.trouble = "the reply failed"
    assert turn.given_up(turn.clip_end + 2.0, player, 10.0)


def test_a_barge_in_is_timed_from_sound_to_silence():
    turn, player, old = make(barging=True), VirtualPlayer(), sounding(b"old", BEGAN - 1)
    player.put(BEGAN - 1, old, 9.0)
    turn.watch_barge_in(turn.first_sound + 0.1, player)
    turn.interrupt(turn.first_sound + 0.25, old)
    record = turn.record(0, 0.0, 110.0, "answered")
    assert (record.barge, record.stop_ms) == ("stopped", pytest.approx(250))
    assert record.false_stops == 0


def test_a_reply_that_speaks_on_has_missed_it():
    turn, player, old = make(barging=True), VirtualPlayer(), sounding(b"old", BEGAN - 1)
    player.put(BEGAN - 1, old, 9.0)
    turn.watch_barge_in(turn.first_sound + 2.1, player)
    record = turn.record(0, 0.0, 110.0, "answered")
    assert (record.barge, record.stop_ms) == ("missed", None)


def test_a_reply_that_falls_silent_and_goes_on_has_missed_it_too():
    turn, player, old = make(barging=True), VirtualPlayer(), sounding(b"old", BEGAN - 1)
    player.put(BEGAN - 1, old, 9.0)
    turn.interrupt(player and BEGAN + 0.3, old)
    old.cut = True
    turn.sound(old)
    turn.watch_barge_in(turn.first_sound + 2.1, player)
    assert turn.record(0, 0.0, 110.0, "answered").barge == "missed"


def test_a_reply_that_ends_by_itself_proves_nothing():
    turn = make(barging=True)
    turn.watch_barge_in(turn.first_sound + 2.1, VirtualPlayer())
    assert turn.record(0, 0.0, 110.0, "answered").barge == "moot"


def test_silence_for_nothing_is_counted_and_ones_own_words_are_not_nothing():
    turn, reply = make(), sounding(b"r", SPEECH_END + 0.5)
    turn.answer(reply)
    turn.interrupt(SPEECH_END - 0.2, reply)
    assert turn.false_stops == 0
    turn.interrupt(SPEECH_END + 0.9, reply)
    assert turn.false_stops == 1


def test_a_sentence_that_was_cut_off_has_no_time():
    turn, reply = make(), sounding(b"r", SPEECH_END + 0.5, status="cancelled")
    turn.answer(reply)
    record = turn.record(0, 0.0, 110.0, "answered")
    assert record.first_audio_ms == pytest.approx(500)
    assert record.sentence_ms is None
