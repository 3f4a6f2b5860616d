"""The turn machine: who speaks, who listens, and what is worked out ahead.

A plain object without I/O, clock or asyncio: an event and the time go in, commands come out.
``deadline`` says when it wants to be woken if nothing else happens. Given the same events at
the same times it gives the same commands, so any call can be replayed.

Its promises, each an invariant of ``tests/pipelines/conversation/test_machine_promises.py``:

- one reply at a time, and epochs only rise;
- no reply begins of itself while the caller speaks;
- a prepared reply is released or dropped, never both, and never released before its turn is
  committed;
- words that wait for something always have a deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from pipelines.conversation.endpoint import Border, Endpointer, EndpointSettings
from pipelines.conversation.events import (
    AcceptTranscript,
    AudioCleared,
    AudioCommitted,
    Command,
    CommitTurn,
    DeadlinePassed,
    DiscardTurn,
    DropReply,
    DropTake,
    Event,
    FailTranscript,
    OpenTurn,
    PrepareReply,
    ReleaseReply,
    ReplyCancelled,
    ReplyEnded,
    ReplyRequested,
    StartReply,
    StopReason,
    StopReply,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How a call takes turns.

    ``detect`` off leaves the turns to the client. ``stall_ms`` without any audio end an open
    turn: the caller's line may die in mid-word.
    """

    detect: bool = True
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    create_response: bool = True
    interrupt_response: bool = True
    speculate: bool = True
    stall_ms: Annotated[int, Meta(ge=1)] = 1_000
    transcript_timeout_ms: Annotated[int, Meta(ge=1)] = 15_000


@dataclass(slots=True)
class _Turn:
    """A stretch of the caller's speech. ``text`` is None until its take has arrived."""

    number: int
    take: int | None = None
    text: str | None = None
    deadline: int = 0


@dataclass(slots=True)
class _Reply:
    """The reply that is being made; ``held`` while nobody may hear of it."""

    epoch: int
    held: bool


class TurnMachine:
    """Decides; see the module."""

    def __init__(self, settings: TurnSettings) -> None:
        self._endpointer = Endpointer(settings.endpoint)
        self._open: _Turn | None = None
        self._waiting: list[_Turn] = []
        self._reply: _Reply | None = None
        self._owed = False
        self._requested = False
        self._turns = self._takes = self._epochs = 0
        self._heard_at = 0
        self._commands: list[Command] = []
        self.configure(settings)

    def configure(self, settings: TurnSettings) -> None:
        """Take new settings, in mid-call too."""
        self.settings = settings
        self._endpointer.configure(settings.endpoint)

    @property
    def replying(self) -> bool:
        """A reply is under way that the client knows of, or was asked for."""
        return self._requested or (self._reply is not None and not self._reply.held)

    @property
    def position_ms(self) -> int:
        """Audio heard since the call began."""
        return self._endpointer.position_ms

    @property
    def deadline(self) -> int | None:
        """When to step a DeadlinePassed if nothing happens before; None for never."""
        times = [turn.deadline for turn in self._waiting]
        if self._open is not None and self.settings.detect:
            times.append(self._heard_at + self.settings.stall_ms)
        return min(times, default=None)

    def step(self, event: Event, now: int) -> list[Command]:
        """Take one event at ``now`` (ms, never falling) and give the commands it leads to."""
        _ON_EVENT[type(event)](self, event, now)
        self._start_owed_reply()
        commands, self._commands = self._commands, []
        return commands

    # --- the caller ---------------------------------------------------------------------

    def _on_heard(self, event: WindowHeard, now: int) -> None:
        self._heard_at = now
        if not self.settings.detect or event.probability is None:
            self._endpointer.skip()
            self._forget_ahead(now)  # nobody watches any more whether the caller goes on
        elif border := self._endpointer.hear(event.probability, event.level_db):
            _ON_BORDER[border](self, now)

    def _begin_turn(self, _now: int) -> None:
        self._open = self._new_turn()
        self._do(OpenTurn(self._open.number, self._endpointer.start_ms))
        if self.settings.interrupt_response:
            self._stop_reply("turn_detected")
            # A reply that was asked for and has not begun waits for the caller like any other.
            self._owed, self._requested = self._owed or self._requested, False

    def _work_ahead(self, _now: int) -> None:
        if self._open is not None and self.settings.speculate:
            self._transcribe(self._open, ahead=True)

    def _forget_ahead(self, _now: int) -> None:
        if self._open is None:
            return
        self._drop_take(self._open)
        self._open.take = self._open.text = None
        self._drop_prepared_reply()

    def _stop_turn(self, now: int) -> None:
        self._end_turn(now, self._endpointer.quiet_ms)

    def _end_turn(self, now: int, quiet_ms: int = 0) -> None:
        turn, self._open = self._open, None
        if turn is None:
            return
        self._endpointer.reset()
        if turn.take is None:
            self._transcribe(turn, ahead=False)
        self._do(CommitTurn(turn.number, self.position_ms, quiet_ms))
        if turn.text is not None:
            self._accept(turn, turn.text)
            return
        turn.deadline = now + self.settings.transcript_timeout_ms
        self._waiting.append(turn)

    def _on_committed(self, _event: AudioCommitted, now: int) -> None:
        if self._open is None:
            self._open = self._new_turn()
        else:
            # What was worked out ahead may lack the words since: the turn is taken whole.
            self._forget_ahead(now)
        self._end_turn(now)

    def _on_cleared(self, _event: AudioCleared, now: int) -> None:
        if self._open is None:
            return
        self._forget_ahead(now)
        self._do(DiscardTurn(self._open.number))
        self._open = None
        self._endpointer.reset()

    def _on_deadline(self, _event: DeadlinePassed, now: int) -> None:
        if self.settings.detect and now >= self._heard_at + self.settings.stall_ms:
            self._end_turn(now)
        for turn in [turn for turn in self._waiting if turn.deadline <= now]:
            self._drop_take(turn)
            self._fail(turn, "the recogniser took too long")

    # --- its words ----------------------------------------------------------------------

    def _on_transcript(self, event: TranscriptArrived, _now: int) -> None:
        waiting = self._waiting_for(event.take)
        if waiting is not None:
            self._waiting.remove(waiting)
            self._accept(waiting, event.text)
        elif ahead := self._ahead(event.take):
            ahead.text = event.text
            self._prepare_reply(event.text)

    def _on_transcript_failed(self, event: TranscriptFailed, _now: int) -> None:
        waiting = self._waiting_for(event.take)
        if waiting is not None:
            self._fail(waiting, event.reason)
        elif ahead := self._ahead(event.take):
            ahead.take = None

    def _accept(self, turn: _Turn, text: str) -> None:
        self._do(AcceptTranscript(turn.number, text))
        if not text or not self.settings.create_response:
            self._drop_prepared_reply()
        elif self._reply is not None and self._reply.held:
            self._reply.held = False
            self._do(ReleaseReply(self._reply.epoch))
        else:
            self._owed = True

    def _fail(self, turn: _Turn, reason: str) -> None:
        self._waiting.remove(turn)
        self._do(FailTranscript(turn.number, reason))

    def _waiting_for(self, take: int) -> _Turn | None:
        return next((turn for turn in self._waiting if turn.take == take), None)

    def _ahead(self, take: int) -> _Turn | None:
        """The open turn, if this take of it is still without words."""
        turn = self._open
        return turn if turn and turn.take == take and turn.text is None else None

    # --- the reply ----------------------------------------------------------------------

    def _on_requested(self, _event: ReplyRequested, _now: int) -> None:
        self._requested = True

    def _on_cancelled(self, _event: ReplyCancelled, _now: int) -> None:
        self._requested = False  # what is owed to the caller's words stays owed
        self._stop_reply("client_cancelled")

    def _on_ended(self, event: ReplyEnded, _now: int) -> None:
        if self._reply is None or self._reply.epoch != event.epoch:
            return
        self._drop_prepared_reply()  # it has failed
        self._reply = None

    def _prepare_reply(self, text: str) -> None:
        idle = self._reply is None and not self._owed and not self._waiting
        if text and idle and self.settings.create_response:
            self._reply = _Reply(self._next_epoch(), held=True)
            self._do(PrepareReply(self._reply.epoch, text))

    def _drop_prepared_reply(self) -> None:
        if self._reply is not None and self._reply.held:
            self._do(DropReply(self._reply.epoch))
            self._reply = None

    def _stop_reply(self, reason: StopReason) -> None:
        if self._reply is not None and not self._reply.held:
            self._do(StopReply(self._reply.epoch, reason))
            self._reply = None

    def _start_owed_reply(self) -> None:
        wanted = self._requested or (self._owed and self._open is None)
        if not wanted or self._waiting:
            return
        self._drop_prepared_reply()
        if self._reply is None:
            self._owed = self._requested = False
            self._reply = _Reply(self._next_epoch(), held=False)
            self._do(StartReply(self._reply.epoch))

    # --- numbers ------------------------------------------------------------------------

    def _new_turn(self) -> _Turn:
        self._turns += 1
        return _Turn(self._turns)

    def _next_epoch(self) -> int:
        self._epochs += 1
        return self._epochs

    def _transcribe(self, turn: _Turn, *, ahead: bool) -> None:
        self._takes += 1
        turn.take = self._takes
        self._do(Transcribe(turn.number, turn.take, ahead))

    def _drop_take(self, turn: _Turn) -> None:
        if turn.take is not None and turn.text is None:
            self._do(DropTake(turn.take))

    def _do(self, command: Command) -> None:
        self._commands.append(command)


_ON_BORDER: dict[Border, Callable[[TurnMachine, int], None]] = {
    Border.STARTED: TurnMachine._begin_turn,
    Border.PAUSED: TurnMachine._work_ahead,
    Border.RESUMED: TurnMachine._forget_ahead,
    Border.STOPPED: TurnMachine._stop_turn,
}

_ON_EVENT: dict[type[Any], Callable[[TurnMachine, Any, int], None]] = {
    WindowHeard: TurnMachine._on_heard,
    AudioCommitted: TurnMachine._on_committed,
    AudioCleared: TurnMachine._on_cleared,
    DeadlinePassed: TurnMachine._on_deadline,
    TranscriptArrived: TurnMachine._on_transcript,
    TranscriptFailed: TurnMachine._on_transcript_failed,
    ReplyRequested: TurnMachine._on_requested,
    ReplyCancelled: TurnMachine._on_cancelled,
    ReplyEnded: TurnMachine._on_ended,
}
