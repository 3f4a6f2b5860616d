"""The asyncio shell of one call: it carries out what the turn machine decides.

One task tree: everything a call starts lives in its TaskGroup and ends with it. An EngineError
is told to the caller and the call goes on; any other exception is a bug, and ends this call and
no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from engines.audio import Samples
from pipelines.conversation.dialogue import CallerItem, Dialogue
from pipelines.conversation.endpoint import HYSTERESIS
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
    Event,
    FailTranscript,
    HangUp,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyCancelled,
    ReplyRequested,
    ResumeReply,
    SayLine,
    SettingsChanged,
    ShowWords,
    StartReply,
    StopReply,
    StrainChanged,
    Transcribe,
    WindowHeard,
)
from pipelines.conversation.hearing import Hearing
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.ports import CallSettings, Door, Engines, Observer, Recorder
from pipelines.conversation.speaker import Speaker
from pipelines.conversation.takes import Takes
from pipelines.strain import Strain

MOST_UNDETECTED_MS: Final = 120_000
"""A turn that the client must close by itself keeps no more audio than this."""


@dataclass(slots=True)
class _Turn:
    """A turn whose words are still to come; its audio has the given length once it is over."""

    item: CallerItem
    opened_at_ms: int
    audio_ms: int = 0


class Call:
    """One caller. Opened by ``open_call``; all methods are called on its loop."""

    def __init__(
        self,
        engines: Engines,
        settings: CallSettings,
        door: Door,
        tasks: asyncio.TaskGroup,
        *,
        rate: int,
        new_id: Callable[[], str],
        call_id: str = "",
        observers: Sequence[Observer] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self.id = call_id
        self.dialogue = Dialogue()
        self._engines = engines
        self._door = door
        self._tasks = tasks
        self._new_id = new_id
        self._observers = observers
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._machine = TurnMachine(settings.turns)
        self._hearing = Hearing()
        self._turns: dict[int, _Turn] = {}
        self._speaker = Speaker(
            engines,
            self.dialogue,
            door,
            tasks,
            self._happen,
            new_id=new_id,
            call_id=call_id,
            observers=observers,
            recorder=recorder,
        )
        self.pulse, self.messages = self._speaker.pulse, self._speaker.messages
        self._takes = Takes(engines, tasks, self._happen, call_id=call_id, speaker=self._speaker)
        self._next_reply: CallSettings | None = None
        self._crashed: asyncio.Future[None] = self._loop.create_future()
        self._watch = tasks.create_task(_wait_for(self._crashed))
        self._ear = engines.ears.open(rate, self._hear_window)
        self.configure(settings)

    # --- what a door asks for -----------------------------------------------------------

    @property
    def replying(self) -> bool:
        """A reply is under way, or was asked for."""
        return self._machine.replying

    @property
    def buffered_ms(self) -> int:
        """Audio of the caller's that a commit would take."""
        return self._hearing.duration_ms + self._ear.waiting_ms

    @property
    def overflowed(self) -> bool:
        """The client has let its open turn grow beyond the bound: audio is being dropped."""
        return self._hearing.overflowed

    @property
    def position_ms(self) -> int:
        """Audio heard since the call began."""
        return self._machine.position_ms

    def configure(self, settings: CallSettings) -> None:
        """Take new settings, from the next window and the next reply on."""
        self.settings = settings
        self._happen(SettingsChanged(settings.turns))
        endpoint, keep_all = settings.turns.endpoint, not settings.turns.detect
        most_ms = 0 if keep_all else endpoint.preroll_ms + endpoint.max_turn_ms
        most_ms = max(MOST_UNDETECTED_MS, most_ms)
        self._hearing.configure(endpoint.preroll_ms, most_ms, keep_all=keep_all)
        self._ear.judged = settings.turns.detect

    def bear(self, strain: Strain) -> None:
        """The house is pressed as hard as this: leave off what the caller misses least."""
        if strain is not self._speaker.strain:
            self._speaker.strain = strain
            self._happen_between_calls(StrainChanged(strain))

    def set_rate(self, rate: int) -> None:
        """The caller's audio comes at another rate from now on."""
        self._ear.set_rate(rate)

    def hear(self, samples: Samples) -> None:
        """Take the caller's next samples. Raises BacklogError where they come too fast."""
        self._ear.hear(samples)

    def commit(self) -> None:
        """The client closes the caller's turn, which holds all that was sent before."""
        self._hearing.open()
        self._ear.flush()
        self._happen(AudioCommitted())

    def clear(self) -> None:
        """The client throws the caller's open turn away, with all that was sent before."""
        self._ear.flush()
        self._happen(AudioCleared())
        self._hearing.close()

    def request_reply(self, settings: CallSettings | None = None) -> None:
        """Answer the dialogue as it stands, once; with other settings if they are given."""
        self._next_reply = settings
        self._happen(ReplyRequested())

    def cancel_reply(self, *, sounding: bool = False) -> None:
        """Stop the reply that is under way, was asked for, or is only ``sounding`` still."""
        self._next_reply = None
        self._happen(ReplyCancelled(sounding))

    def crash(self, bug: Exception) -> None:
        """End the call with this exception, wherever it was caught."""
        self._ear.close()
        if not self._crashed.done():
            self._crashed.set_exception(bug)

    def close(self) -> None:
        """The caller has gone: free everything, now."""
        self._ear.close()
        if self._timer is not None:
            self._timer.cancel()
        self._watch.cancel()
        self._speaker.close()
        self._takes.close()
        self._hearing = Hearing()

    # --- events to commands -------------------------------------------------------------

    def _hear_window(self, window: Samples, probability: float | None, level_db: float) -> None:
        self._hearing.add(window)
        if self._recorder is not None:
            self._recorder.heard(window, self._now())
        echo = self._echo(window, probability)
        self._happen_between_calls(WindowHeard(probability, level_db, echo))

    def _echo(self, window: Samples, probability: float | None) -> float:
        """The agent's own share in what is heard while it can be heard."""
        guard, now = self._speaker.echo, self._now()
        turns = self.settings.turns
        if probability is None or not turns.echo_guard or not guard.audible(now):
            return 0.0
        suspect = probability >= turns.endpoint.threshold - HYSTERESIS
        return guard.share(window, now, suspect=suspect)

    def _happen_between_calls(self, event: Event) -> None:
        """Take an event in a callback of the loop, which belongs to no task of this call: a bug
        must end this call, and no other."""
        try:
            self._happen(event)
        except Exception as bug:  # noqa: BLE001 - handed to the call, which raises it
            self.crash(bug)

    def _happen(self, event: Event) -> None:
        """Take an event, and those that it causes, in their order."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                self._step(self._events.popleft())
        finally:
            self._stepping = False
        self._wake_in_time()

    def _step(self, event: Event) -> None:
        now = int(self._now())
        commands = self._machine.step(event, now)
        for observer in self._observers:
            observer.stepped(event, commands, now)
        for command in commands:
            _PERFORM[type(command)](self, command)

    def _now(self) -> float:
        return self._loop.time() * 1000.0

    def _wake_in_time(self) -> None:
        """A deadline that has moved away is looked at again when its old time comes: it moves
        with every window of speech, and timers cost more than that."""
        deadline = self._machine.deadline
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer.when() * 1000.0 <= deadline + 1.0:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at((deadline + 1) / 1000.0, self._wake)

    def _wake(self) -> None:
        self._timer = None
        deadline = self._machine.deadline
        if deadline is not None and deadline <= self._now():
            self._happen_between_calls(DeadlinePassed())
        else:
            self._wake_in_time()

    # --- the caller's turns -------------------------------------------------------------

    def _open_turn(self, command: OpenTurn) -> None:
        self._hearing.open()
        self._begin_turn(command.turn, command.at_ms)

    def _begin_turn(self, turn: int, at_ms: int) -> _Turn:
        begun = self._turns[turn] = _Turn(CallerItem(self._new_id(), spoken=True), at_ms)
        return begun

    def _confirm_turn(self, command: ConfirmTurn) -> None:
        turn = self._turns[command.turn]
        self._door.turn_opened(turn.item.id, turn.opened_at_ms)
        turns = self._machine.settings
        if turns.create_response and turns.speculate:
            self._speaker.read_ahead(self.settings)

    def _commit_turn(self, command: CommitTurn) -> None:
        turn = self._turns.get(command.turn) or self._begin_turn(command.turn, command.at_ms)
        turn.audio_ms = self._hearing.duration_ms
        previous = self.dialogue.append(turn.item)
        self._hearing.close(command.quiet_ms)
        self._door.turn_committed(turn.item, command.at_ms, previous)

    def _discard_turn(self, command: DiscardTurn) -> None:
        self._turns.pop(command.turn)
        self._hearing.close()

    def _transcribe(self, command: Transcribe) -> None:
        audio, profile = self._hearing.audio(), self._machine.profile
        self._takes.start(command, audio, self.settings, profile)

    def _show_words(self, command: ShowWords) -> None:
        self._door.words_shown(self._turns[command.turn].item.id, command.text)

    def _accept_transcript(self, command: AcceptTranscript) -> None:
        turn = self._turns.pop(command.turn)
        turn.item.text = command.text
        self._takes.accept(command.text, command.suspicion)
        self._door.transcript_ready(turn.item, turn.audio_ms, command.suspicion)

    def _fail_transcript(self, command: FailTranscript) -> None:
        self._door.transcript_failed(self._turns.pop(command.turn).item, command.reason)

    # --- replies ------------------------------------------------------------------------

    def _start_reply(self, command: StartReply) -> None:
        settings, self._next_reply = self._next_reply or self.settings, None
        self._speaker.start(command.epoch, self._in_their_language(settings))

    def _in_their_language(self, settings: CallSettings) -> CallSettings:
        """The language that the caller was heard to speak, where none is set."""
        return settings if settings.language else replace(settings, language=self._takes.language)

    def _say_line(self, command: SayLine) -> None:
        if command.line == "still_there":
            at_ms, idle_ms = self._machine.position_ms, self.settings.turns.idle_ms or 0
            self._door.caller_idle(max(0, at_ms - idle_ms), at_ms)
        self._speaker.say(command.epoch, self._in_their_language(self.settings), command.line)


@asynccontextmanager
async def open_call(
    engines: Engines,
    settings: CallSettings,
    door: Door,
    *,
    rate: int,
    new_id: Callable[[], str],
    call_id: str = "",
    observers: Sequence[Observer] = (),
    recorder: Recorder | None = None,
) -> AsyncIterator[Call]:
    """A call, from here to the end of the context; then nothing of it is left.

    ``rate`` is that of the caller's audio in Hz. Engines that run in several places serve all
    requests of one ``call_id`` in the same one, as long as it lives. A bug in any of the call's
    tasks ends the body.
    """
    async with asyncio.TaskGroup() as tasks:
        call = Call(
            engines,
            settings,
            door,
            tasks,
            rate=rate,
            new_id=new_id,
            call_id=call_id,
            observers=observers,
            recorder=recorder,
        )
        try:
            yield call
        finally:
            call.close()


async def _wait_for(crash: asyncio.Future[None]) -> None:
    """Raises the call's bug, if there is one, where its task tree sees it."""
    await crash


_PERFORM: dict[type[Any], Callable[[Call, Any], None]] = {
    OpenTurn: Call._open_turn,
    ConfirmTurn: Call._confirm_turn,
    CommitTurn: Call._commit_turn,
    DiscardTurn: Call._discard_turn,
    Transcribe: Call._transcribe,
    DropTake: lambda call, command: call._takes.drop(command.take),
    ShowWords: Call._show_words,
    AcceptTranscript: Call._accept_transcript,
    FailTranscript: Call._fail_transcript,
    PrepareReply: lambda call, command: call._speaker.prepare(
        command.epoch, call._in_their_language(call.settings), command.text
    ),
    ReleaseReply: lambda call, command: call._speaker.release(command.epoch),
    DropReply: lambda call, command: call._speaker.drop(command.epoch),
    StartReply: Call._start_reply,
    SayLine: Call._say_line,
    PauseReply: lambda call, command: call._speaker.pause(command.epoch),
    ResumeReply: lambda call, command: call._speaker.resume(command.epoch),
    HangUp: lambda call, _: call._door.hung_up(),
    StopReply: lambda call, command: call._speaker.stop(command.epoch, command.reason),
}
