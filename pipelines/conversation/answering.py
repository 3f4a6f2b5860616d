"""The agent's half of the turn machine: which reply is made, let out, interrupted, owed.

A reply is *held* while nobody may hear of it, *out* once it may be heard, and *paused* while a
caller speaks over it and may turn out to have said nothing. It stays what it is after its end,
as long as its listener still hears it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from pipelines.conversation.events import (
    Command,
    DropReply,
    HangUp,
    Line,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ResumeReply,
    SayLine,
    StartReply,
    StopReason,
    StopReply,
)
from pipelines.conversation.settings import TurnSettings

ANSWER_MS: Final = 1_000
"""A "yes" in the last second of what is said, or behind it, answers it. Before, it is a sign of
listening."""


class _State(Enum):
    HELD = auto()
    OUT = auto()
    PAUSED = auto()


@dataclass(slots=True)
class _Reply:
    """``heard_at`` is when its listener has heard all of it; None while more may come."""

    epoch: int
    state: _State
    line: bool = False
    sounded: bool = False
    heard_at: int | None = None


class Answering:
    """Which reply there is; see the module. ``do`` takes the commands."""

    def __init__(self, settings: TurnSettings, do: Callable[[Command], None]) -> None:
        self.settings = settings
        self._do = do
        self._reply: _Reply | None = None
        self._epochs = 0
        self._owed = self._requested = False
        self._tools_out = self._asked_after = self._leaving = self._sorry = False
        self._stirred_at: int | None = None

    # --- what can be asked ----------------------------------------------------------------

    @property
    def replying(self) -> bool:
        """A reply is under way that the client knows of, or was asked for."""
        reply = self._reply
        return self._requested or (
            reply is not None
            and reply.state is _State.OUT
            and reply.heard_at is None
            and not reply.line
        )

    @property
    def wanted(self) -> bool:
        """Somebody waits for a reply that has not begun."""
        return self._owed or self._requested

    @property
    def busy(self) -> bool:
        """A reply is being made, or may have to go on."""
        reply = self._reply
        return reply is not None and (reply.heard_at is None or reply.state is _State.PAUSED)

    def sounds(self, now: int) -> bool:
        """The listener hears a reply."""
        reply = self._reply
        out = reply is not None and reply.state is _State.OUT and reply.sounded
        return out and not self._is_over(now)

    @property
    def paused(self) -> bool:
        """A reply is silent as long as it is not known what the caller says."""
        return self._reply is not None and self._reply.state is _State.PAUSED

    def nearly_over(self, now: int) -> bool:
        """What is being said, if anything, ends so soon that a "yes" is meant as an answer."""
        return self._reply is None or self._is_over(now + ANSWER_MS)

    # --- what the reply tells -------------------------------------------------------------

    def sounded(self, epoch: int) -> None:
        """The first audio of the reply is out."""
        if self._reply is not None and self._reply.epoch == epoch:
            self._reply.sounded = True

    def ended(self, epoch: int, heard_at: int, *, failed: bool = False) -> None:
        """The reply has no more to say; ``failed``: it had."""
        if self._reply is None or self._reply.epoch != epoch:
            return
        if self._reply.state is _State.HELD:  # it has failed
            self.drop()
        else:
            self._reply.heard_at = heard_at
            self.stir(heard_at)
            self._sorry |= failed and self.settings.apologise and not self._reply.line

    def called_tools(self, epoch: int) -> None:
        """Results are to come from elsewhere."""
        if self._reply is not None and self._reply.epoch == epoch:
            self._tools_out = True

    # --- what the caller and the client do ------------------------------------------------

    def stir(self, now: int) -> None:
        """The call was not idle at this time."""
        self._stirred_at = max(now, self._stirred_at or now)

    def misheard(self, now: int) -> None:
        """There may have been words, which nobody will ever know."""
        self.stir(now)
        self._sorry |= self.settings.apologise and self.settings.create_response

    def request(self) -> None:
        """The client asks for a reply."""
        self._requested = True
        self._tools_out = self._asked_after = self._sorry = False

    def cancel(self, now: int, sounding: bool = False) -> None:
        """The client wants the reply stopped, also if it is merely ``sounding`` still; what is owed
        to the caller's words stays owed."""
        self.stir(now)
        self._requested = False
        reply = self._reply
        if reply is None or reply.state is _State.HELD:
            return
        if self.busy or (sounding and self.sounds(now)):
            self._stop(reply, "client_cancelled")

    def owe(self) -> None:
        """The caller's words want an answer, which may have been prepared; but a client that has
        asked may want another."""
        reply = self._reply
        if reply is not None and reply.state is _State.HELD and not self._requested:
            reply.state = _State.OUT
            self._do(ReleaseReply(reply.epoch))
        else:
            self._owed = True

    def take_words(self, now: int) -> None:
        """The caller has said something: nothing else matters any more."""
        self.stir(now)
        self._asked_after = self._leaving = self._tools_out = self._sorry = False
        if self._reply is not None and self._reply.state is _State.PAUSED:
            self._stop(self._reply, "turn_detected")

    def leave(self, now: int) -> None:
        """End the call once all has been heard."""
        self._leaving = True
        self._stirred_at = self._stirred_at or now

    def pause(self, now: int) -> bool:
        """The caller speaks: be silent. False where there was nothing to be interrupted."""
        # A reply that was asked for and has not begun waits for the caller like any other.
        self._owed, self._requested = self._owed or self._requested, False
        reply = self._reply
        if reply is None or reply.state is _State.HELD or self._is_over(now):
            return False
        if reply.state is _State.OUT:
            reply.state = _State.PAUSED
            self._do(PauseReply(reply.epoch))
        return True

    # --- working ahead --------------------------------------------------------------------

    def prepare(self, text: str) -> None:
        """Work out what to say to these words, unless something else is in hand."""
        if not self.busy and not self.wanted:
            self._begin(_State.HELD)
            self._do(PrepareReply(self._epochs, text))

    def drop(self) -> None:
        """Forget what was prepared."""
        if self._reply is not None and self._reply.state is _State.HELD:
            self._do(DropReply(self._reply.epoch))
            self._reply = None

    # --- going on -------------------------------------------------------------------------

    def go_on(self, now: int, *, quiet: bool, heard: bool, noise: bool = False) -> None:
        """Do what is due. ``quiet``: nobody speaks; ``heard``: no words are still to come;
        ``noise``: what does not let it be quiet has no words."""
        free = not self.settings.interrupt_response or not self.settings.detect
        if heard and self.wanted and (quiet or (self._requested and free)):
            self._start()
        elif heard and quiet and self.paused:
            self._resume()
        elif heard and (quiet or noise) and not self.busy:
            self._pass_time(now)

    def deadline(self) -> int | None:
        """When something is due if nobody does anything."""
        due = self._due()
        return due and due[0]

    def _due(self) -> tuple[int, Line | None] | None:
        """What is to be said of itself, and when; None for its line is the end of the call."""
        if self.busy or self._stirred_at is None:
            return None
        if self._leaving:
            return self._stirred_at, None
        if self._sorry:
            return self._stirred_at, "sorry"
        settings, asked = self.settings, self._asked_after
        waits: list[tuple[int | None, Line]] = [
            (settings.filler_ms if self._tools_out else None, "one_moment"),
            (settings.idle_ms if settings.detect and not asked else None, "still_there"),
            (settings.hang_up_ms if settings.detect and asked else None, "farewell"),
        ]
        dues = [(self._stirred_at + wait, line) for wait, line in waits if wait is not None]
        return min(dues, default=None)

    def _pass_time(self, now: int) -> None:
        due = self._due()
        if due is None or now < due[0]:
            return
        line = due[1]
        if line is None:
            self._leaving, self._stirred_at = False, None
            self._do(HangUp())
            return
        self._sorry = False
        self._tools_out = self._tools_out and line != "one_moment"
        self._asked_after = self._asked_after or line == "still_there"
        self._leaving = line == "farewell"
        self._begin(_State.OUT).line = True
        self._do(SayLine(self._epochs, line))

    def _start(self) -> None:
        self.drop()
        if self._reply is not None and self._reply.state is _State.PAUSED:
            self._stop(self._reply, "turn_detected")
        if not self.busy:
            self._owed = self._requested = False
            self._begin(_State.OUT)
            self._do(StartReply(self._epochs))

    def _resume(self) -> None:
        assert self._reply is not None
        self._reply.state, self._reply.heard_at = _State.OUT, None
        self._do(ResumeReply(self._reply.epoch))

    def _stop(self, reply: _Reply, reason: StopReason) -> None:
        self._do(StopReply(reply.epoch, reason))
        self._reply = None

    def _begin(self, state: _State) -> _Reply:
        self._epochs += 1
        self._reply = _Reply(self._epochs, state)
        return self._reply

    def _is_over(self, now: int) -> bool:
        heard_at = self._reply.heard_at if self._reply else None
        return heard_at is not None and heard_at <= now
