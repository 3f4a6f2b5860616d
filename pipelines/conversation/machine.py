"""The turn machine: who speaks, who listens, and what is worked out ahead.

A plain object without I/O, clock or asyncio: an event and the time go in, commands come out.
``deadline`` says when it wants to be woken if nothing else happens. Given the same events at
the same times it gives the same commands, so any call can be replayed.

This half follows the caller; ``answering`` is the agent's. Speech over a reply is *tentative*
until it has lasted or has words: nobody is told of it before. From then on the reply is paused,
and stopped or resumed once it is known what was said.

Its promises, each an invariant of ``tests/pipelines/conversation/test_machine_promises.py``:

- one reply at a time, epochs only rise, and a paused reply is stopped or resumed;
- no reply begins, and none goes on, while the caller speaks and may interrupt; only a caller who
  is idle is spoken to over noise;
- a prepared reply is released or dropped, never both, and never released before its turn is
  committed;
- words that wait for something always have a deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.conversation.answering import Answering
from pipelines.conversation.contrast import Contrast
from pipelines.conversation.endpoint import Border, Endpointer
from pipelines.conversation.events import (
    AcceptTranscript,
    AudioCleared,
    AudioCommitted,
    Command,
    CommitTurn,
    ConfirmTurn,
    DeadlinePassed,
    DiscardTurn,
    DropTake,
    EndJudged,
    Event,
    FailTranscript,
    HangUpRequested,
    OpenTurn,
    ProfileChosen,
    Purpose,
    ReplyCancelled,
    ReplyEnded,
    ReplyRequested,
    ReplySounded,
    SettingsChanged,
    ShowWords,
    StrainChanged,
    ToolsCalled,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)
from pipelines.conversation.patience import Profile, opinion_of_sound
from pipelines.conversation.settings import TurnSettings
from pipelines.conversation.turns import SURE_READINGS, Turn
from pipelines.strain import Strain


class TurnMachine:
    """Decides; see the module."""

    def __init__(self, settings: TurnSettings) -> None:
        self.settings = self._wanted = settings
        self._strain = Strain.NONE
        self._endpointer = Endpointer(settings.endpoint)
        self._contrast = Contrast()
        self._answering = Answering(settings, self._do)
        self._open: Turn | None = None
        self._waiting: list[Turn] = []
        self._chosen: Profile | None = None
        self._once = False
        self._turns = self._takes = 0
        self._heard_at = 0
        self._commands: list[Command] = []

    @property
    def profile(self) -> Profile | None:
        """How the open turn, or the next, is waited for."""
        return self._chosen or self.settings.profile

    @property
    def replying(self) -> bool:
        """See ``Answering.replying``."""
        return self._answering.replying

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
        if times or not self._quiet:
            return min(times, default=None)
        return self._answering.deadline()

    def step(self, event: Event, now: int) -> list[Command]:
        """Take one event at ``now`` (ms, never falling) and give the commands it leads to."""
        _ON_EVENT[type(event)](self, event, now)
        noise = self._open is not None and self._open.is_noise
        self._answering.go_on(now, quiet=self._quiet, heard=not self._waiting, noise=noise)
        commands, self._commands = self._commands, []
        return commands

    @property
    def _quiet(self) -> bool:
        """Nobody speaks, as far as is known."""
        return self._open is None or not self._open.confirmed

    # --- how turns are taken ------------------------------------------------------------

    def _on_settings(self, event: SettingsChanged, now: int) -> None:
        if not self._heard_at:  # a line that is dead from the beginning is idle, too
            self._answering.stir(now)
        self._answering.drop()  # it was worked out under the old ones
        self._wanted = event.settings
        self._endpointer.configure(event.settings.endpoint)
        self._settle()
        self._set_wait()

    def _on_strain(self, event: StrainChanged, _now: int) -> None:
        self._strain = event.strain
        self._settle()
        if self._open is not None and not self.settings.partials:
            self._drop_partial(self._open)

    def _settle(self) -> None:
        self.settings = self._answering.settings = self._wanted.under(self._strain)

    def _on_profile(self, event: ProfileChosen, _now: int) -> None:
        self._chosen, self._once = event.profile, event.once
        self._set_wait()

    def _set_wait(self) -> None:
        """How much silence ends the open turn, as far as is known now."""
        if self._open is not None:
            silence_ms = self.settings.endpoint.silence_ms
            self._endpointer.wait(self._open.wait_ms(self.profile, silence_ms))

    # --- the caller ---------------------------------------------------------------------

    def _on_heard(self, event: WindowHeard, now: int) -> None:
        if not self._heard_at:
            self._answering.stir(now)
        self._heard_at = now
        if not self.settings.detect or event.probability is None:
            self._endpointer.skip()
            self._forget_ahead(now)  # nobody watches any more whether the caller goes on
            return
        self._contrast.add(event.level_db)
        speaks = self._answering.sounds(now) or self._answering.paused
        probability = 0.0 if speaks and self._contrast.even else event.probability
        border = self._endpointer.hear(probability, event.level_db, event.echo)
        if self._endpointer.was_echo and self._open and not self._open.confirmed:
            self._discard()
        elif border is not None:
            _ON_BORDER[border](self, now)
        self._follow_speech(now)

    def _begin_turn(self, now: int) -> None:
        turn = self._open = self._new_turn(self._answering.nearly_over(now))
        self._do(OpenTurn(turn.number, self._endpointer.start_ms))
        if self.settings.interrupt_response and self._answering.sounds(now):
            self._set_wait()
        else:
            self._confirm(turn, now)

    def _confirm(self, turn: Turn, now: int) -> None:
        turn.confirmed = True
        turn.partial.due_at = now + self.settings.partial_ms
        self._set_wait()
        self._do(ConfirmTurn(turn.number))
        if self.settings.interrupt_response:
            turn.over_reply = self._answering.pause(now)

    def _follow_speech(self, now: int) -> None:
        """The caller is speaking: for long enough, for new words to be shown?"""
        turn = self._open
        if turn is None or not self._endpointer.run_ms:
            return
        if not turn.confirmed and self._endpointer.lasts(self.settings.interrupt_ms):
            self._confirm(turn, now)
        if self.settings.partials and turn.is_to_be_read(now):
            take = self._transcribe(turn, "partial")
            turn.partial.ask(take, now, self.settings.partial_ms)

    def _work_ahead(self, _now: int) -> None:
        """The caller pauses: what was said so far may be all, and may show whether it is."""
        turn = self._open
        assert turn is not None, "a pause lies within a turn"
        self._drop_partial(turn)
        if self.settings.speculate or self.profile or not turn.confirmed:
            turn.take = self._transcribe(turn, "ahead")

    def _forget_ahead(self, _now: int) -> None:
        turn = self._open
        if turn is None:
            return
        self._drop_take(turn)
        turn.forget()
        self._set_wait()
        self._answering.drop()

    def _give_up(self, now: int, quiet_ms: int = 0) -> None:
        """Nothing more will come of the open turn."""
        if self._quiet:
            self._discard()
        else:
            self._end_turn(now, quiet_ms)

    def _end_turn(self, now: int, quiet_ms: int = 0) -> None:
        turn, self._open = self._open, None
        assert turn is not None, "there is a turn to end"
        self._endpointer.reset()
        self._drop_partial(turn)
        if turn.take is None:
            turn.take = self._transcribe(turn, "final")
        self._do(CommitTurn(turn.number, self.position_ms, quiet_ms))
        if turn.text is not None:
            self._accept(turn, now)
            return
        turn.deadline = now + self.settings.transcript_timeout_ms
        self._waiting.append(turn)

    def _discard(self) -> None:
        turn, self._open = self._open, None
        if turn is None:
            return
        self._drop_partial(turn)
        self._drop_take(turn)
        self._answering.drop()
        self._do(DiscardTurn(turn.number))
        self._endpointer.reset()

    def _on_committed(self, _event: AudioCommitted, now: int) -> None:
        if self._open is None:
            self._open = self._new_turn(answers=True)
            self._open.confirmed = True
        else:
            # What was worked out ahead may lack the words since: the turn is taken whole.
            self._forget_ahead(now)
            if not self._open.confirmed:
                self._confirm(self._open, now)
        self._end_turn(now)

    def _on_cleared(self, _event: AudioCleared, now: int) -> None:
        self._answering.stir(now)
        self._discard()

    def _on_deadline(self, _event: DeadlinePassed, now: int) -> None:
        if self.settings.detect and now >= self._heard_at + self.settings.stall_ms:
            self._give_up(now)
        for turn in [turn for turn in self._waiting if turn.deadline <= now]:
            self._drop_take(turn)
            self._fail(turn, "the recogniser took too long", now)

    # --- its words ----------------------------------------------------------------------

    def _on_transcript(self, event: TranscriptArrived, now: int) -> None:
        turn = self._take_of(event.take)
        if turn is None:
            self._show_words(event, now)
            return
        turn.understand(event)
        if turn in self._waiting:
            self._waiting.remove(turn)
            self._accept(turn, now)
        else:
            self._weigh(turn, now)

    def _weigh(self, turn: Turn, now: int) -> None:
        """The caller pauses, and this is what was said."""
        if not turn.says_something:
            if not turn.confirmed:
                self._discard()
            elif turn.over_reply:  # no need to wait for the rest of nothing
                self._end_turn(now, self._endpointer.silent_ms)
            else:
                self._set_wait()
            return
        if not turn.confirmed:
            self._confirm(turn, now)
        self._set_wait()
        self._answering.take_words(now)
        if self.settings.create_response and self.settings.speculate and not self._waiting:
            self._answering.prepare(turn.text or "")

    def _show_words(self, event: TranscriptArrived, now: int) -> None:
        if (turn := self._partial_of(event.take)) is None:
            return
        turn.partial.read(event.kind if event.text else "nothing", now)
        if turn.over_reply and turn.partial.readings_with_words >= SURE_READINGS:
            self._answering.take_words(now)
            turn.over_reply = False  # no more: and whoever has ended it is to be answered
        if text := turn.partial.agreement.add(event.text):
            self._do(ShowWords(turn.number, text))

    def _on_transcript_failed(self, event: TranscriptFailed, now: int) -> None:
        if turn := self._partial_of(event.take):
            turn.partial.fail()
        elif turn := self._take_of(event.take):
            if turn in self._waiting:
                self._fail(turn, event.reason, now)
            else:
                turn.take = None

    def _on_judged(self, event: EndJudged, _now: int) -> None:
        turn = self._open
        if turn is not None and turn.take == event.take:
            turn.by_sound = opinion_of_sound(event.probability)
            self._set_wait()

    def _accept(self, turn: Turn, now: int) -> None:
        self._do(AcceptTranscript(turn.number, turn.text or "", turn.suspicion))
        if not turn.says_something:
            self._answering.drop()
            return
        self._answering.take_words(now)
        if self._once:
            self._chosen, self._once = None, False
        if self.settings.create_response:
            self._answering.owe()
        else:
            self._answering.drop()

    def _fail(self, turn: Turn, reason: str, now: int) -> None:
        self._waiting.remove(turn)
        self._answering.misheard(now)  # nobody knows that there were no words
        self._do(FailTranscript(turn.number, reason))

    def _take_of(self, take: int) -> Turn | None:
        """The turn, open or waiting, that is still without the words of this take."""
        turns = [*self._waiting, self._open] if self._open else self._waiting
        return next((turn for turn in turns if turn.take == take and turn.text is None), None)

    def _partial_of(self, take: int) -> Turn | None:
        return self._open if self._open and self._open.partial.take == take else None

    # --- numbers ------------------------------------------------------------------------

    def _new_turn(self, answers: bool) -> Turn:
        self._turns += 1
        return Turn(self._turns, answers)

    def _transcribe(self, turn: Turn, purpose: Purpose) -> int:
        self._takes += 1
        self._do(Transcribe(turn.number, self._takes, purpose, self._endpointer.echoed))
        return self._takes

    def _drop_take(self, turn: Turn) -> None:
        if turn.take is not None and turn.text is None:
            self._do(DropTake(turn.take))

    def _drop_partial(self, turn: Turn) -> None:
        if turn.partial.take is not None:
            self._do(DropTake(turn.partial.take))
            turn.partial.take = None

    def _do(self, command: Command) -> None:
        self._commands.append(command)


_ON_BORDER: dict[Border, Callable[[TurnMachine, int], None]] = {
    Border.STARTED: TurnMachine._begin_turn,
    Border.PAUSED: TurnMachine._work_ahead,
    Border.RESUMED: TurnMachine._forget_ahead,
    Border.STOPPED: lambda machine, now: machine._give_up(now, machine._endpointer.quiet_ms),
}

_ON_EVENT: dict[type[Any], Callable[[TurnMachine, Any, int], None]] = {
    SettingsChanged: TurnMachine._on_settings,
    StrainChanged: TurnMachine._on_strain,
    ProfileChosen: TurnMachine._on_profile,
    WindowHeard: TurnMachine._on_heard,
    AudioCommitted: TurnMachine._on_committed,
    AudioCleared: TurnMachine._on_cleared,
    DeadlinePassed: TurnMachine._on_deadline,
    TranscriptArrived: TurnMachine._on_transcript,
    TranscriptFailed: TurnMachine._on_transcript_failed,
    EndJudged: TurnMachine._on_judged,
    ReplyCancelled: lambda machine, event, now: machine._answering.cancel(now, event.sounding),
    ReplyRequested: lambda machine, _, __: machine._answering.request(),
    ReplySounded: lambda machine, event, _: machine._answering.sounded(event.epoch),
    ReplyEnded: lambda machine, event, now: machine._answering.ended(
        event.epoch, now + event.lead_ms, failed=event.failed
    ),
    ToolsCalled: lambda machine, event, _: machine._answering.called_tools(event.epoch),
    HangUpRequested: lambda machine, _, now: machine._answering.leave(now),
}
