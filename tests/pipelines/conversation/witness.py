"""What has been seen of a call, from its events and commands alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pipelines.conversation import events
from pipelines.conversation.events import Command, Event
from pipelines.conversation.settings import TurnSettings
from pipelines.conversation.turns import SURE_READINGS

REQUEST = 0
"""Stands among the turns that want an answer for a request that the caller has put off."""


@dataclass
class Witness:
    """Notes; see the module."""

    turns: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    borders: list[int] = field(default_factory=list)
    """Where turns opened and were committed, in ms of the call's audio, in the order told."""
    open_turn: int | None = None
    speaking: int | None = None
    """The open turn, once it is confirmed."""
    confirmed: Counter[int] = field(default_factory=Counter)
    closed: Counter[int] = field(default_factory=Counter)
    committed: set[int] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    take_of: dict[int, int] = field(default_factory=dict)  # turn to its latest take
    partial_of: dict[int, int] = field(default_factory=dict)  # partial take to its turn
    empty_readings: int = 0  # of the open turn, in a row
    outdated: set[int] = field(default_factory=set)  # takes whose turn has had more words since
    dropped_takes: Counter[int] = field(default_factory=Counter)
    arrived: set[int] = field(default_factory=set)
    kinds: dict[int, events.Kind] = field(default_factory=dict)  # take to what it amounts to
    alive: list[int] = field(default_factory=list)
    most_alive: int = 0
    lines: set[int] = field(default_factory=set)
    fates: dict[int, str] = field(default_factory=dict)
    """Epoch to its life: Prepared, Dropped, Released, Started, Zzz, Up again, eXpelled, Ended."""
    prepared: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    accepted: dict[int, str] = field(default_factory=dict)
    unanswered: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)  # turns that may get an answer
    requested: bool = False
    uninvited: list[Command] = field(default_factory=list)
    """Replies that began or went on while the caller spoke and might interrupt."""
    hasty: list[Command] = field(default_factory=list)
    """Replies that began while words were still to come."""
    causeless: list[Command] = field(default_factory=list)
    """Replies that nobody's words or request asked for."""
    late_takes: list[int] = field(default_factory=list)  # takes of turns that had ended
    talked_over: list[int] = field(default_factory=list)
    """Replies that spoke on when a turn was confirmed though they were to be interrupted."""

    def see(self, event: Event, commands: list[Command], turns: TurnSettings) -> None:
        if isinstance(event, events.WindowHeard):
            self._see_window(event, turns)
        self._see(event)
        for command in commands:
            self._see_turn(command)
            self._see_take(command, turns)
            self._see_reply(command, turns)
        if turns.interrupt_response and any(
            isinstance(command, events.ConfirmTurn) for command in commands
        ):
            self._see_interruption()

    def _see_window(self, event: events.WindowHeard, turns: TurnSettings) -> None:
        probability = 0.0 if event.echo > 0.5 else event.probability or 0.0
        if self.open_turn and (not turns.detect or probability >= turns.endpoint.threshold):
            self.outdated.add(self.take_of.get(self.open_turn, 0))

    def _see_interruption(self) -> None:
        self.talked_over += [epoch for epoch in self.alive if self.fates[epoch][-1] not in "PZ"]
        if self.requested:
            self.requested = False
            self.unanswered.add(REQUEST)

    def _see(self, event: Event) -> None:
        match event:
            case events.ReplyRequested():
                self.requested = True
            case events.ReplyCancelled():
                self.requested = False
            case events.TranscriptArrived(take):
                if take not in self.arrived:
                    self.kinds[take] = event.kind
                    self._see_reading(event)
                self.arrived.add(take)
            case events.TranscriptFailed(take):
                self.arrived.add(take)
            case events.ReplyEnded(epoch) if self.fates.get(epoch, "")[-1:] in ("R", "S", "U"):
                self._end(epoch, "E")

    def _see_reading(self, event: events.TranscriptArrived) -> None:
        running = self.partials_running and event.take in self._working
        if running and self.partial_of.get(event.take) == self.speaking:
            empty = not event.text or event.kind == "nothing"
            self.empty_readings = self.empty_readings + 1 if empty else 0

    def _see_turn(self, command: Command) -> None:
        match command:
            case events.OpenTurn(turn, at_ms):
                self.turns.append(turn)
                self.borders.append(at_ms)
                self.open_turn, self.empty_readings = turn, 0
            case events.ConfirmTurn(turn):
                self.confirmed[turn] += 1
                self.speaking = turn
            case events.CommitTurn(turn, at_ms):
                if turn not in self.turns:
                    self.turns.append(turn)
                    self.confirmed[turn] += 1
                self.borders.append(at_ms)
                self.committed.add(turn)
                self._close(turn)
            case events.DiscardTurn(turn):
                self._close(turn)

    def _see_take(self, command: Command, turns: TurnSettings) -> None:
        match command:
            case events.Transcribe(turn, take, purpose):
                self.takes.append(take)
                if purpose == "partial":
                    self.partial_of[take] = turn
                else:
                    self.take_of[turn] = take
                if self.closed[turn]:
                    self.late_takes.append(take)
            case events.DropTake(take):
                self.dropped_takes[take] += 1
            case events.AcceptTranscript(turn, text):
                self.answers[turn] += 1
                self.accepted[turn] = text
                if text and turns.create_response:
                    sure = self.kinds[self.take_of[turn]] == "words"
                    (self.unanswered if sure else self.doubtful).add(turn)
            case events.FailTranscript(turn):
                self.answers[turn] += 1

    def _see_reply(self, command: Command, turns: TurnSettings) -> None:
        match command:
            case events.PrepareReply(epoch, text):
                self.prepared[epoch] = (self.open_turn, text)
                self._begin(epoch, "P")
            case events.DropReply(epoch):
                self._end(epoch, "D")
            case events.StopReply(epoch):
                self._end(epoch, "X")
            case _:
                self._see_sound(command, turns)

    def _see_sound(self, command: Command, turns: TurnSettings) -> None:
        match command:
            case events.ReleaseReply(epoch):
                self.fates[epoch] += "R"
                self._speak(command, turns)
            case events.StartReply(epoch):
                self._begin(epoch, "S")
                self._speak(command, turns)
            case events.SayLine(epoch):
                self._begin(epoch, "S")
                self.lines.add(epoch)
                if self.empty_readings < SURE_READINGS:
                    self._begin_in_quiet(command, turns)
            case events.PauseReply(epoch):
                self.fates[epoch] += "Z"
                if epoch not in self.alive:  # its end was not heard yet
                    self.alive.append(epoch)
            case events.ResumeReply(epoch):
                self.fates[epoch] += "U"
                self._begin_in_quiet(command, turns)

    def _speak(self, command: Command, turns: TurnSettings) -> None:
        self._begin_in_quiet(command, turns)
        if not self.unanswered and not self.doubtful and not self.requested:
            self.causeless.append(command)
        self.unanswered.clear()
        self.doubtful.clear()
        self.requested = False

    def _begin_in_quiet(self, command: Command, turns: TurnSettings) -> None:
        may_talk_over = self.requested and not (turns.interrupt_response and turns.detect)
        if self.speaking is not None and not may_talk_over:
            self.uninvited.append(command)
        if self.waiting:
            self.hasty.append(command)

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
        self.open_turn = self.speaking = None

    @property
    def waiting(self) -> set[int]:
        """Committed turns whose words are still to come."""
        return {turn for turn in self.committed if not self.answers[turn]}

    @property
    def running(self) -> set[int]:
        """Takes that are being worked on, but for partial ones."""
        return self._working - set(self.partial_of)

    @property
    def partials_running(self) -> set[int]:
        """Turns with a partial take that is being worked on."""
        return {self.partial_of[take] for take in self._working & set(self.partial_of)}

    @property
    def _working(self) -> set[int]:
        return set(self.takes) - self.arrived - set(self.dropped_takes)
