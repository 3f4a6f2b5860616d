"""The turn machine under arbitrary interleavings: one invariant for each of its promises, told
of what ``Witness`` notes."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipelines.conversation import events
from pipelines.conversation.endpoint import WINDOW_MS, EndpointSettings
from pipelines.conversation.events import Command, Event
from pipelines.conversation.machine import TurnMachine, TurnSettings

QUICK = EndpointSettings(
    silence_ms=4 * WINDOW_MS,
    ahead_ms=2 * WINDOW_MS,
    onset_ms=2 * WINDOW_MS,
    max_turn_ms=24 * WINDOW_MS,
)
PATIENT = replace(QUICK, silence_ms=8 * WINDOW_MS)
HASTY = replace(QUICK, silence_ms=WINDOW_MS, max_turn_ms=6 * WINDOW_MS)
START = TurnSettings(endpoint=QUICK, stall_ms=200, transcript_timeout_ms=1_000)

LOUD, BETWEEN, QUIET = 0.9, 0.4, 0.1

REQUEST = 0
"""Stands among the turns that want an answer for a request that the caller has put off."""


@dataclass
class Witness:
    """What has been seen of a call, from its events and commands alone."""

    turns: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    borders: list[int] = field(default_factory=list)
    """Where turns opened and were committed, in ms of the call's audio, in the order told."""
    open_turn: int | None = None
    closed: Counter[int] = field(default_factory=Counter)
    committed: set[int] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    take_of: dict[int, int] = field(default_factory=dict)  # turn to its latest take
    outdated: set[int] = field(default_factory=set)  # takes whose turn has had more words since
    dropped_takes: Counter[int] = field(default_factory=Counter)
    arrived: set[int] = field(default_factory=set)
    alive: list[int] = field(default_factory=list)
    most_alive: int = 0
    fates: dict[int, str] = field(default_factory=dict)
    """Epoch to its life: Prepared, Dropped, Released, Started, eXpelled, Ended."""
    prepared: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    accepted: dict[int, str] = field(default_factory=dict)
    unanswered: set[int] = field(default_factory=set)
    requested: bool = False
    uninvited: list[Command] = field(
        default_factory=list
    )  # replies that began of themselves while the caller spoke
    hasty: list[Command] = field(
        default_factory=list
    )  # replies that began while words were still to come
    causeless: list[Command] = field(
        default_factory=list
    )  # replies that nobody's words or request asked for
    late_takes: list[int] = field(default_factory=list)  # takes of turns that had ended
    talked_over: list[int] = field(default_factory=list)
    """Replies that outlived a turn's beginning though they were to be interrupted."""

    def see(self, event: Event, commands: list[Command], turns: TurnSettings) -> None:
        if isinstance(event, events.WindowHeard):
            self._see_window(event.probability, turns)
        self._see(event)
        for command in commands:
            self._see_turn(command)
            self._see_take(command, turns)
            self._see_reply(command)
        opened = any(isinstance(command, events.OpenTurn) for command in commands)
        if opened and turns.interrupt_response:
            self._see_interruption()

    def _see_window(self, probability: float, turns: TurnSettings) -> None:
        unjudged = not turns.detect
        if self.open_turn and (unjudged or probability >= turns.endpoint.threshold):
            self.outdated.add(self.take_of.get(self.open_turn, 0))

    def _see_interruption(self) -> None:
        self.talked_over += self.alive
        if self.requested:
            self.requested = False
            self.unanswered.add(REQUEST)

    def _see(self, event: Event) -> None:
        match event:
            case events.ReplyRequested():
                self.requested = True
            case events.ReplyCancelled():
                self.requested = False
            case events.TranscriptArrived(take) | events.TranscriptFailed(take):
                self.arrived.add(take)
            case events.ReplyEnded(epoch) if self.fates.get(epoch, "")[-1:] in ("R", "S"):
                self._end(epoch, "E")

    def _see_turn(self, command: Command) -> None:
        match command:
            case events.OpenTurn(turn, at_ms):
                self.turns.append(turn)
                self.borders.append(at_ms)
                self.open_turn = turn
            case events.CommitTurn(turn, at_ms):
                if turn not in self.turns:
                    self.turns.append(turn)
                self.borders.append(at_ms)
                self.committed.add(turn)
                self._close(turn)
            case events.DiscardTurn(turn):
                self._close(turn)

    def _see_take(self, command: Command, turns: TurnSettings) -> None:
        match command:
            case events.Transcribe(turn, take):
                self.takes.append(take)
                self.take_of[turn] = take
                if self.closed[turn]:
                    self.late_takes.append(take)
            case events.DropTake(take):
                self.dropped_takes[take] += 1
            case events.AcceptTranscript(turn, text):
                self.answers[turn] += 1
                self.accepted[turn] = text
                if text and turns.create_response:
                    self.unanswered.add(turn)
            case events.FailTranscript(turn):
                self.answers[turn] += 1

    def _see_reply(self, command: Command) -> None:
        match command:
            case events.PrepareReply(epoch, text):
                self.prepared[epoch] = (self.open_turn, text)
                self._begin(epoch, "P")
            case events.DropReply(epoch):
                self._end(epoch, "D")
            case events.ReleaseReply(epoch):
                self.fates[epoch] += "R"
                self._speak(command)
            case events.StartReply(epoch):
                self._begin(epoch, "S")
                self._speak(command)
            case events.StopReply(epoch):
                self._end(epoch, "X")

    def _speak(self, command: Command) -> None:
        if self.open_turn is not None and not self.requested:
            self.uninvited.append(command)
        if self.waiting:
            self.hasty.append(command)
        if not self.unanswered and not self.requested:
            self.causeless.append(command)
        self.unanswered.clear()
        self.requested = False

    def _begin(self, epoch: int, how: str) -> None:
        self.epochs.append(epoch)
        self.fates[epoch] = self.fates.get(epoch, "") + how
        self.alive.append(epoch)
        self.most_alive = max(self.most_alive, len(self.alive))

    def _end(self, epoch: int, how: str) -> None:
        self.fates[epoch] = self.fates.get(epoch, "") + how
        if epoch in self.alive:
            self.alive.remove(epoch)

    def _close(self, turn: int) -> None:
        self.closed[turn] += 1
        self.open_turn = None

    @property
    def waiting(self) -> set[int]:
        """Committed turns whose words are still to come."""
        return {turn for turn in self.committed if not self.answers[turn]}

    @property
    def running(self) -> set[int]:
        """Takes that are being worked on."""
        return set(self.takes) - self.arrived - set(self.dropped_takes)


class AnyCall(RuleBasedStateMachine):
    """Anything may happen, at any time, any number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TurnMachine(START)
        self.now = 1_000
        self.seen = Witness()
        self.journal: list[tuple[Event | TurnSettings, int, list[Command]]] = []

    def happen(self, event: Event) -> None:
        commands = self.machine.step(event, self.now)
        self.journal.append((event, self.now, commands))
        self.seen.see(event, commands, self.machine.settings)

    # --- what happens -------------------------------------------------------------------

    @rule(n=st.sampled_from([1, 2, 3, 26]), probability=st.sampled_from([LOUD, LOUD, BETWEEN]))
    def the_caller_speaks(self, n: int, probability: float) -> None:
        self.hear(probability, n)

    @rule(n=st.sampled_from([1, 2, 3, 4, 8]))
    def the_caller_is_silent(self, n: int) -> None:
        self.hear(QUIET, n)

    @rule(loud=st.integers(2, 4), quiet=st.integers(2, 3), words=st.sampled_from("yyyn-"))
    def the_caller_pauses_and_is_transcribed(self, loud: int, quiet: int, words: str) -> None:
        self.hear(LOUD, loud)
        self.hear(QUIET, quiet)
        if words == "-":
            self.happen(events.TranscriptFailed(len(self.seen.takes), "broken"))
        else:
            self.transcript(len(self.seen.takes), empty=words == "n")

    @rule(loud=st.integers(2, 4))
    def the_caller_says_something(self, loud: int) -> None:
        self.hear(LOUD, loud)
        self.hear(QUIET, 4)

    def hear(self, probability: float, n: int) -> None:
        for _ in range(n):
            self.now += WINDOW_MS
            self.happen(events.WindowHeard(probability))

    @rule(back=st.sampled_from([0, 0, 0, 1, 2, 3]), empty=st.sampled_from([False, False, True]))
    def a_transcript_arrives(self, back: int, empty: bool) -> None:
        self.transcript(len(self.seen.takes) - back, empty=empty)

    def transcript(self, take: int, *, empty: bool = False) -> None:
        self.happen(events.TranscriptArrived(take, "" if empty else f"take {take}"))

    @rule(back=st.integers(0, 2))
    def a_transcript_fails(self, back: int) -> None:
        self.happen(events.TranscriptFailed(len(self.seen.takes) - back, "broken"))

    @rule(back=st.sampled_from([0, 0, 1, 2]))
    def a_reply_ends(self, back: int) -> None:
        self.happen(events.ReplyEnded(len(self.seen.epochs) - back))

    @rule(
        event=st.sampled_from(
            [
                events.ReplyRequested(),
                events.ReplyCancelled(),
                events.AudioCommitted(),
                events.AudioCleared(),
            ]
        )
    )
    def the_client_intervenes(self, event: Event) -> None:
        self.happen(event)

    @rule(
        off=st.sampled_from(
            ["", "", "detect", "create_response", "interrupt_response", "speculate"]
        ),
        endpoint=st.sampled_from([QUICK, QUICK, PATIENT, HASTY]),
    )
    def the_client_changes_the_settings(self, off: str, endpoint: EndpointSettings) -> None:
        turns = replace(START, endpoint=endpoint, **({off: False} if off else {}))
        self.machine.configure(turns)
        self.journal.append((turns, self.now, []))

    @rule(wait_ms=st.sampled_from([0, 10, 150, 300]))
    def the_timer_fires_too_early_or_too_late(self, wait_ms: int) -> None:
        self.now += wait_ms
        self.happen(events.DeadlinePassed())

    @precondition(lambda self: self.machine.deadline is not None)
    @rule()
    def the_deadline_passes(self) -> None:
        self.now = max(self.now, self.machine.deadline or 0)
        self.happen(events.DeadlinePassed())

    # --- what is promised ---------------------------------------------------------------

    @invariant()
    def one_reply_at_a_time(self) -> None:
        assert self.seen.most_alive <= 1

    @invariant()
    def numbers_only_rise(self) -> None:
        for numbers in (self.seen.turns, self.seen.takes, self.seen.epochs):
            assert numbers == list(range(1, len(numbers) + 1))

    @invariant()
    def no_reply_begins_of_itself_while_the_caller_speaks(self) -> None:
        assert self.seen.uninvited == []

    @invariant()
    def a_prepared_reply_is_released_or_dropped_once_and_what_has_ended_never_returns(self) -> None:
        for epoch, fate in self.seen.fates.items():
            assert re.fullmatch("P(D|R[XE]?)?|S[XE]?", fate), (epoch, fate)

    @invariant()
    def a_reply_is_released_only_to_the_committed_words_it_was_prepared_for(self) -> None:
        for epoch, (turn, words) in self.seen.prepared.items():
            if "R" in self.seen.fates[epoch]:
                assert turn in self.seen.committed
                assert self.seen.accepted[turn or 0] == words

    @invariant()
    def nothing_stays_prepared_without_an_open_turn(self) -> None:
        if self.seen.open_turn is None:
            assert "P" not in self.seen.fates.values()

    @invariant()
    def a_turn_ends_once_and_shares_no_audio_with_the_next(self) -> None:
        assert max(self.seen.closed.values(), default=0) <= 1
        assert self.seen.borders == sorted(self.seen.borders)
        assert self.seen.late_takes == []

    @invariant()
    def a_committed_turn_is_answered_once_at_most_and_no_other_at_all(self) -> None:
        assert set(self.seen.answers) <= self.seen.committed
        assert max(self.seen.answers.values(), default=0) <= 1

    @invariant()
    def accepted_words_are_those_of_the_whole_turn(self) -> None:
        for turn, text in self.seen.accepted.items():
            take = self.seen.take_of[turn]
            assert take not in self.seen.outdated
            assert take not in self.seen.dropped_takes
            assert text in ("", f"take {take}")

    @invariant()
    def a_take_runs_while_its_words_are_wanted_and_no_longer(self) -> None:
        waiting = {self.seen.take_of[turn] for turn in self.seen.waiting}
        ahead = {self.seen.take_of.get(self.seen.open_turn or 0, 0)}
        assert waiting <= self.seen.running <= waiting | ahead
        assert not self.seen.running & self.seen.outdated
        assert max(self.seen.dropped_takes.values(), default=0) <= 1

    @invariant()
    def every_reply_was_asked_for_by_words_or_by_the_client(self) -> None:
        assert self.seen.causeless == []

    @invariant()
    def a_reply_waits_for_all_words_that_were_committed(self) -> None:
        assert self.seen.hasty == []

    @invariant()
    def a_caller_who_may_interrupt_silences_the_reply(self) -> None:
        assert self.seen.talked_over == []

    @invariant()
    def words_that_wait_have_a_deadline(self) -> None:
        listening = self.seen.open_turn is not None and self.machine.settings.detect
        if self.seen.waiting or listening:
            assert self.machine.deadline is not None

    @invariant()
    def waking_at_the_deadline_makes_progress(self) -> None:
        if self.journal and isinstance(self.journal[-1][0], events.DeadlinePassed):
            assert self.machine.deadline is None or self.machine.deadline > self.now

    @invariant()
    def words_and_requests_get_a_reply_once_all_is_quiet(self) -> None:
        if self.seen.alive or self.seen.waiting:
            return
        assert not self.seen.requested
        assert not self.seen.unanswered or self.seen.open_turn is not None

    @invariant()
    def the_client_is_told_truly_whether_a_reply_is_under_way(self) -> None:
        audible = any(self.seen.fates[epoch] != "P" for epoch in self.seen.alive)
        assert self.machine.replying == (audible or self.seen.requested)

    def teardown(self) -> None:
        self._every_committed_turn_is_answered_when_time_runs_out()
        self._a_replay_gives_the_same_commands()

    def _every_committed_turn_is_answered_when_time_runs_out(self) -> None:
        for _ in range(len(self.seen.turns) + 2):
            if self.machine.deadline is not None:
                self.the_deadline_passes()
        assert self.machine.deadline is None
        assert not self.seen.waiting

    def _a_replay_gives_the_same_commands(self) -> None:
        machine = TurnMachine(START)
        for happening, now, commands in self.journal:
            if isinstance(happening, TurnSettings):
                machine.configure(happening)
            else:
                assert machine.step(happening, now) == commands


AnyCall.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
TestAnyCall = AnyCall.TestCase
