"""The turn machine under arbitrary interleavings: one invariant for each of its promises, told
of what ``Witness`` notes."""

import re
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipelines.conversation import events
from pipelines.conversation.endpoint import WINDOW_MS, EndpointSettings
from pipelines.conversation.events import Command, Event
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.patience import Profile
from pipelines.conversation.settings import TurnSettings
from pipelines.strain import Strain
from tests.pipelines.conversation.witness import Witness

QUICK = EndpointSettings(
    silence_ms=4 * WINDOW_MS,
    ahead_ms=2 * WINDOW_MS,
    onset_ms=2 * WINDOW_MS,
    max_turn_ms=24 * WINDOW_MS,
)
PATIENT = replace(QUICK, silence_ms=8 * WINDOW_MS)
HASTY = replace(QUICK, silence_ms=WINDOW_MS, max_turn_ms=6 * WINDOW_MS)
START = TurnSettings(
    endpoint=QUICK,
    interrupt_ms=4 * WINDOW_MS,
    stall_ms=200,
    transcript_timeout_ms=1_000,
    idle_ms=1_000,
    hang_up_ms=1_000,
    filler_ms=300,
)
KINDS: tuple[events.Kind, ...] = ("words", "words", "backchannel", "echo", "nothing")

LOUD, BETWEEN, QUIET = 0.9, 0.4, 0.1


class AnyCall(RuleBasedStateMachine):
    """Anything may happen, at any time, any number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TurnMachine(START)
        self.now = 1_000
        self.seen = Witness()
        self.journal: list[tuple[Event, int, list[Command]]] = []
        self.connected = False
        self.strain = Strain.NONE
        self.spared: list[Command] = []
        """What should have been left off under strain."""
        self.stirred_at = 0
        """The last sign that somebody is there, or was told something."""

    def happen(self, event: Event) -> None:
        commands = self.machine.step(event, self.now)
        self.journal.append((event, self.now, commands))
        self.seen.see(event, commands, self.machine.settings)
        self.note_signs(event, commands)
        self.spared += [command for command in commands if self.is_a_luxury(command)]

    def is_a_luxury(self, command: Command) -> bool:
        match command:
            case events.Transcribe(purpose="partial"):
                return self.strain >= Strain.NO_PARTIALS
            case events.PrepareReply():
                return self.strain >= Strain.NO_SPECULATION
        return False

    def note_signs(self, event: Event, commands: list[Command]) -> None:
        match event:
            case events.ReplyEnded(_, lead_ms):
                signs_at = self.now + lead_ms
            case events.TranscriptArrived(_, text, kind) if text and kind != "nothing":
                signs_at = self.now
            case events.ReplyCancelled() | events.AudioCleared() | events.HangUpRequested():
                signs_at = self.now
            case _:
                signs_at = 0 if self.connected else self.now
        for told in commands:
            if isinstance(told, events.FailTranscript) or getattr(told, "text", ""):
                signs_at = max(signs_at, self.now)
        self.connected = self.connected or isinstance(event, events.WindowHeard)
        self.stirred_at = max(self.stirred_at, signs_at)

    # --- what happens -------------------------------------------------------------------

    @rule(n=st.sampled_from([1, 2, 3, 26]), probability=st.sampled_from([LOUD, LOUD, BETWEEN]))
    def the_caller_speaks(self, n: int, probability: float) -> None:
        self.hear(probability, n)

    @rule(n=st.sampled_from([1, 2, 3, 4, 8]))
    def the_caller_is_silent(self, n: int) -> None:
        self.hear(QUIET, n)

    @rule(
        loud=st.integers(2, 4),
        quiet=st.integers(2, 3),
        words=st.sampled_from("yyyn-"),
        kind=st.sampled_from(KINDS),
        opinion=st.sampled_from([-1.0, 0.0, 0.5, 1.0]),
    )
    def the_caller_pauses_and_is_transcribed(
        self, loud: int, quiet: int, words: str, kind: events.Kind, opinion: float
    ) -> None:
        self.hear(LOUD, loud)
        self.hear(QUIET, quiet)
        take = len(self.seen.takes)
        self.happen(events.EndJudged(take, (1 + opinion) / 2))
        if words == "-":
            self.happen(events.TranscriptFailed(take, "broken"))
        else:
            self.transcript(take, kind, opinion, empty=words == "n")

    @rule(loud=st.integers(2, 4))
    def the_caller_says_something(self, loud: int) -> None:
        self.hear(LOUD, loud)
        self.hear(QUIET, 4)

    @rule(n=st.integers(2, 6))
    def the_agent_hears_itself(self, n: int) -> None:
        self.hear(LOUD, n, echo=0.9)

    def hear(self, probability: float, n: int, echo: float = 0.0) -> None:
        for window in range(n):
            self.now += WINDOW_MS
            # A voice rises and falls: what does not is a crowd, whom nobody waits for.
            level_db = -20.0 - 15 * (window % 2) if probability >= LOUD else -60.0
            self.happen(events.WindowHeard(probability, level_db, echo))

    @rule(
        back=st.sampled_from([0, 0, 0, 1, 2, 3]),
        empty=st.sampled_from([False, False, True]),
        kind=st.sampled_from(KINDS),
    )
    def a_transcript_arrives(self, back: int, empty: bool, kind: events.Kind) -> None:
        self.transcript(len(self.seen.takes) - back, kind, empty=empty)

    def transcript(
        self, take: int, kind: events.Kind = "words", opinion: float = 0.0, *, empty: bool = False
    ) -> None:
        self.happen(events.TranscriptArrived(take, "" if empty else f"take {take}", kind, opinion))

    @rule(back=st.integers(0, 2))
    def a_transcript_fails(self, back: int) -> None:
        self.happen(events.TranscriptFailed(len(self.seen.takes) - back, "broken"))

    @rule(back=st.sampled_from([0, 0, 1]))
    def a_reply_sounds(self, back: int) -> None:
        self.happen(events.ReplySounded(len(self.seen.epochs) - back))

    @rule(back=st.sampled_from([0, 0, 1, 2]), lead_ms=st.sampled_from([0, 300, 3_000]))
    def a_reply_ends(self, back: int, lead_ms: int) -> None:
        epoch = len(self.seen.epochs) - back
        if self.seen.fates.get(epoch, "")[-1:] != "Z":  # its end is held with the rest
            self.happen(events.ReplyEnded(epoch, lead_ms))

    @rule(back=st.sampled_from([0, 0, 1]))
    def a_reply_calls_tools(self, back: int) -> None:
        self.happen(events.ToolsCalled(len(self.seen.epochs) - back))

    @rule(
        event=st.sampled_from(
            [
                events.ReplyRequested(),
                events.ReplyCancelled(),
                events.ReplyCancelled(sounding=True),
                events.AudioCommitted(),
                events.AudioCleared(),
                events.HangUpRequested(),
                events.ProfileChosen("digits", once=True),
                events.ProfileChosen(None),
            ]
        )
    )
    def the_client_intervenes(self, event: Event) -> None:
        self.happen(event)

    @rule(
        off=st.sampled_from(
            ["", "", "detect", "create_response", "interrupt_response", "speculate", "partials"]
        ),
        endpoint=st.sampled_from([QUICK, QUICK, PATIENT, HASTY]),
        profile=st.sampled_from([None, None, "normal"]),
    )
    def the_client_changes_the_settings(
        self, off: str, endpoint: EndpointSettings, profile: Profile | None
    ) -> None:
        turns = replace(START, endpoint=endpoint, profile=profile)
        self.happen(events.SettingsChanged(replace(turns, **({off: False} if off else {}))))

    @rule(strain=st.sampled_from([Strain.NONE, *Strain]))
    def the_house_is_strained(self, strain: Strain) -> None:
        self.strain = strain
        self.happen(events.StrainChanged(strain))

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
    def no_reply_begins_or_goes_on_while_the_caller_speaks(self) -> None:
        assert self.seen.uninvited == []

    @invariant()
    def a_prepared_reply_is_released_or_dropped_once_and_what_has_ended_never_returns(self) -> None:
        for epoch, fate in self.seen.fates.items():
            assert re.fullmatch("(PD?|(PR|S)(E?ZU)*(E?ZX|E?X|E|E?Z)?)", fate), (epoch, fate)

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
    def a_reply_is_paused_only_as_long_as_it_is_not_known_what_the_caller_says(self) -> None:
        if self.seen.speaking is None and not self.seen.waiting:
            assert all(fate[-1] != "Z" for fate in self.seen.fates.values())

    @invariant()
    def a_turn_is_committed_only_if_it_was_confirmed(self) -> None:
        assert max(self.seen.confirmed.values(), default=0) <= 1
        assert self.seen.committed <= set(self.seen.confirmed)

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
        assert self.seen.partials_running <= {self.seen.speaking}
        assert max(self.seen.dropped_takes.values(), default=0) <= 1

    @invariant()
    def a_strained_house_is_asked_for_nothing_that_can_be_left_off(self) -> None:
        assert self.spared == []

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
    def nobody_is_waited_for_longer_for_sounds_without_words(self) -> None:
        busy = self.seen.alive or self.seen.waiting or self.seen.open_turn is not None
        if not busy and self.machine.deadline is not None:
            assert self.machine.deadline <= self.stirred_at + (START.idle_ms or 0)

    @invariant()
    def waking_at_the_deadline_makes_progress(self) -> None:
        if self.journal and isinstance(self.journal[-1][0], events.DeadlinePassed):
            assert self.machine.deadline is None or self.machine.deadline > self.now

    @invariant()
    def words_and_requests_get_a_reply_once_all_is_quiet(self) -> None:
        if self.seen.alive or self.seen.waiting or self.seen.open_turn is not None:
            return
        assert not self.seen.requested
        assert not self.seen.unanswered

    @invariant()
    def the_client_is_told_truly_whether_a_reply_is_under_way(self) -> None:
        audible = any(
            self.seen.fates[epoch][-1] not in "PZ" and epoch not in self.seen.lines
            for epoch in self.seen.alive
        )
        assert self.machine.replying == (audible or self.seen.requested)

    def teardown(self) -> None:
        self._every_committed_turn_is_answered_when_time_runs_out()
        self._a_replay_gives_the_same_commands()

    def _every_committed_turn_is_answered_when_time_runs_out(self) -> None:
        for _ in range(len(self.seen.turns) + 4):
            if self.machine.deadline is not None:
                self.the_deadline_passes()
        assert self.machine.deadline is None
        assert not self.seen.waiting

    def _a_replay_gives_the_same_commands(self) -> None:
        machine = TurnMachine(START)
        for event, now, commands in self.journal:
            assert machine.step(event, now) == commands


AnyCall.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
TestAnyCall = AnyCall.TestCase
