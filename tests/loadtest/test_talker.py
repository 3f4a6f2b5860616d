"""A caller on a clock of numbers: what it sends, and what it makes of what comes."""

from dataclasses import dataclass, field

import pytest

from loadtest.habits import Character, Habits, Intent
from loadtest.records import TurnRecord
from loadtest.talker import Repertoire, Talker
from tests.loadtest.calling import FRAME_S, SILENCE, PlainWire, clip, pcm

START = 50.0


class Scripted(Character):
    """A character whose turns are told."""

    def __init__(self, *intents: Intent) -> None:
        super().__init__(Habits(), 1, "0")
        self._intents = list(intents)

    def next(self) -> Intent:
        return self._intents.pop(0) if self._intents else Intent(0, 1e9)


@dataclass
class Phone:
    """A talker, its clock, and what it sent."""

    talker: Talker
    now: float = START
    sent: list[bytes] = field(default_factory=list)
    said: list[bytes] = field(default_factory=list)
    turns: list[TurnRecord] = field(default_factory=list)
    hung_up: bool = False

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / FRAME_S)):
            self.now += FRAME_S
            frame = self.talker.frame(self.now)
            if frame is None:
                self.hung_up = True
                return
            self.sent.append(frame)

    def until_said(self) -> None:
        while not self.talker.talking:
            self.run(FRAME_S)
        while self.talker.talking and not self.hung_up:
            self.run(FRAME_S)

    def answer(self, name: bytes, seconds: float = 2.0, status: str = "completed") -> None:
        talker, now = self.talker, self.now
        talker.reply_started(now, name)
        talker.words(now, name, "Yes, of course.")
        for _ in range(round(seconds / 0.04)):
            talker.audio(now, name, b"item " + name, pcm(40))
        talker.reply_done(now, name, status)


def phone(*intents: Intent, habits: Habits | None = None, **options: object) -> Phone:
    repertoire = Repertoire(PlainWire(), [clip()], SILENCE, [clip("hum", frames=20)])
    talker = Talker(
        7, repertoire, habits or Habits(), Scripted(*intents), start=START, until=1e9, **options
    )
    made = Phone(talker)
    talker.send, talker.tell = made.said.append, made.turns.append
    return made


def test_a_turn_is_thought_said_and_heard_out():
    line = phone(Intent(0, 600.0))
    line.until_said()
    silent, said = line.sent[:-50], line.sent[-50:]
    assert set(silent) == {SILENCE}
    assert len(silent) * FRAME_S == pytest.approx(0.6, abs=0.2)
    assert said == [b"a.wav %d" % index for index in range(50)]
    line.run(0.6)
    line.talker.committed(line.now, b"i")
    line.talker.transcript(line.now, b"i", "go forward")
    line.answer(b"r")
    line.run(1.9)
    assert line.turns == []
    line.run(0.5)
    [turn] = line.turns
    assert (turn.outcome, turn.heard, turn.call) == ("answered", "go forward", 7)
    # The clip ends five frames after its last speech sample.
    assert turn.first_audio_ms == pytest.approx(700, abs=25)


def test_a_reply_that_never_comes_is_given_up():
    line = phone(Intent(0, 0.0), habits=Habits(patience_s=2.0))
    line.until_said()
    line.run(2.5)
    assert [turn.outcome for turn in line.turns] == ["unanswered"]


def test_a_failed_reply_is_told_soon():
    line = phone(Intent(0, 0.0))
    line.until_said()
    line.talker.reply_started(line.now, b"r")
    line.talker.reply_done(line.now, b"r", "failed")
    line.run(2.0)
    assert [turn.outcome for turn in line.turns] == ["failed"]


def test_a_barge_in_breaks_into_the_reply_and_is_timed():
    line = phone(Intent(0, 0.0, then="barge_in", into_reply_ms=500.0), Intent(0, 0.0))
    line.until_said()
    line.answer(b"r", seconds=5.0)
    line.run(0.5)
    assert not line.talker.talking
    line.run(0.2)
    assert line.talker.talking
    assert [turn.outcome for turn in line.turns] == ["answered"]
    assert line.turns[0].sentence_ms is None
    line.run(0.3)
    line.talker.speech_started(line.now, b"i2")
    assert line.said[-1].startswith(b"cut item r ")
    assert 700 <= int(line.said[-1].split()[-1]) <= 1_000
    line.until_said()
    line.answer(b"r2")
    line.run(4.0)
    turn = line.turns[1]
    assert (turn.outcome, turn.barge) == ("answered", "stopped")
    assert 100 <= turn.stop_ms <= 300


def test_a_backchannel_that_stops_the_reply_is_a_false_barge_in_and_no_words():
    line = phone(Intent(0, 0.0, then="backchannel", into_reply_ms=500.0))
    line.until_said()
    line.talker.committed(line.now, b"i")
    line.talker.transcript(line.now, b"i", "go forward")
    line.answer(b"r", seconds=5.0)
    line.run(0.8)
    assert b"hum 0" in line.sent
    line.talker.speech_started(line.now, b"hum")
    line.talker.committed(line.now, b"hum")
    line.talker.transcript(line.now, b"hum", "mama")
    line.run(3.0)
    [turn] = line.turns
    assert (turn.backchannel, turn.false_stops, turn.heard) == (True, 1, "go forward")


def test_a_backchannel_that_is_let_pass_costs_nothing():
    line = phone(Intent(0, 0.0, then="backchannel", into_reply_ms=500.0))
    line.until_said()
    line.answer(b"r", seconds=3.0)
    line.run(5.0)
    [turn] = line.turns
    assert (turn.backchannel, turn.false_stops, turn.outcome) == (True, 0, "answered")


def test_a_caller_hangs_up_in_mid_word():
    line = phone(Intent(0, 0.0, hang_up=0.5))
    line.until_said()
    assert line.hung_up
    assert line.sent[-1] == b"a.wav 24"
    assert [turn.outcome for turn in line.turns] == ["hung_up"]


def test_a_silent_caller_says_nothing_and_notes_who_answers():
    line = phone(Intent(0, 0.0), silent=True)
    line.run(5.0)
    assert set(line.sent) == {SILENCE}
    line.answer(b"r")
    assert line.talker.phantoms == 1
    assert line.talker.idle


def test_no_turn_begins_after_the_end():
    line = phone(Intent(0, 0.0))
    line.talker._until = START
    line.run(3.0)
    assert line.talker.idle


def test_a_call_that_ends_in_the_middle_leaves_its_turn_unfinished():
    line = phone(Intent(0, 0.0))
    line.until_said()
    line.talker.stop(line.now)
    assert [turn.outcome for turn in line.turns] == ["unfinished"]


def test_a_call_that_ends_after_a_long_wait_was_not_answered():
    line = phone(Intent(0, 0.0))
    line.until_said()
    line.run(4.5)
    assert line.turns == []
    line.talker.stop(line.now)
    assert [turn.outcome for turn in line.turns] == ["unanswered"]


def test_a_call_that_ends_in_the_middle_of_its_answer_was_answered():
    line = phone(Intent(0, 0.0))
    line.until_said()
    line.answer(b"r", seconds=20.0, status="")
    line.run(1.0)
    line.talker.stop(line.now)
    [turn] = line.turns
    assert (turn.outcome, turn.first_audio_ms is not None) == ("answered", True)


def test_marks_come_back_when_what_was_before_them_is_played():
    line = phone(Intent(0, 1e6))
    line.run(0.1)
    line.answer(b"r", seconds=1.0)
    line.talker.mark(line.now, b"m")
    line.run(0.9)
    assert line.said == []
    line.run(0.3)
    assert line.said == [b"played m"]


def test_marks_come_back_at_once_when_the_reply_is_taken_back():
    line = phone(Intent(0, 1e6))
    line.run(0.1)
    line.answer(b"r", seconds=5.0)
    line.talker.mark(line.now, b"m")
    line.talker.cleared(line.now)
    assert b"played m" in line.said
    assert not line.talker.player.playing(line.now)


def test_complaints_are_kept_but_not_without_end():
    line = phone()
    for index in range(20):
        line.talker.failed(0.0, f"error {index}")
    assert line.talker.errors == [f"error {index}" for index in range(5)]


def test_setting_up_is_told():
    line, ready = phone(), []
    line.talker.on_ready = lambda: ready.append(True)
    line.talker.ready(0.0)
    assert ready == [True]
