"""The playout ledger: what of each reply was queued, sent and heard, and what may still go out.

Cancelling a reply frees resources and may be late; the ledger makes it correct. Everything a
reply puts carries its epoch. An epoch that is not the current one is stale and goes nowhere,
and one that is held keeps what it is given until it is released. One that is paused keeps what
its listener had not heard, too, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from engines.audio import Pcm
from engines.ports import Usage
from pipelines.conversation.events import Output, ReplyAudio, ReplyFinished
from pipelines.conversation.heard import Span
from pipelines.conversation.pulse import Pulse
from pipelines.conversation.unheard import Unheard


class Listener(Protocol):
    """Hears what the caller hears. Must be quick and must not raise."""

    def sounded(self, pcm: Pcm, at_ms: float) -> None:
        """This will be heard from ``at_ms`` of the call's clock on, unless it is flushed."""

    def flushed(self, now_ms: float) -> None:
        """What had not been heard by now never will be."""


LATEST_MS: Final = 3_000
"""A listener may hear a reply so much later than this ledger believes, and say so."""


@dataclass(slots=True)
class Player:
    """A model of the listener's playback buffer, in milliseconds of the call's clock.

    Audio plays from the moment it is sent, in real time, one piece after the other; where the
    buffer runs dry, playing stops until more is sent.
    """

    sent_ms: float = 0.0
    _ends_at: float = 0.0

    def send(self, duration_ms: float, now: float) -> float:
        """So much audio has been handed to the listener, who hears it from the given time on."""
        starts_at = max(self._ends_at, now)
        self._ends_at = starts_at + duration_ms
        self.sent_ms += duration_ms
        return starts_at

    def lead_ms(self, now: float) -> float:
        """Audio that was sent and has not been heard yet."""
        return max(0.0, self._ends_at - now)

    def heard_ms(self, now: float) -> float:
        """Audio that has been heard; what is still sounding of a reply before comes first."""
        return max(0.0, self.sent_ms - self.lead_ms(now))

    def flush(self, now: float) -> None:
        """The listener has thrown away what it had not played."""
        self.sent_ms = self.heard_ms(now)
        self._ends_at = min(self._ends_at, now)


class Playback:
    """The gate and the ledger of one call's replies. ``emit`` is given what may go out, the
    ``listeners`` what will be heard when."""

    def __init__(self, emit: Callable[[Output], None], *listeners: Listener) -> None:
        self.pulse = Pulse()
        """How this call's replies are doing."""
        self._emit = emit
        self._listeners = listeners
        self._epoch = 0
        self._open = self._paused = self._finished = False
        self._held: list[Output] | None = None
        self._player = Player()
        self._held_ms = 0.0
        self._unheard = Unheard()

    @property
    def epoch(self) -> int:
        """The reply whose audio is current; it stays so after its end, while it is heard."""
        return self._epoch

    def begin(self, epoch: int, *, held: bool) -> None:
        """A new reply: all that older ones still put is stale from now on.

        Raises ValueError where the epoch does not rise.
        """
        if epoch <= self._epoch:
            raise ValueError(f"epoch {epoch} does not rise above {self._epoch}")
        self._epoch = epoch
        self._open = True
        self._paused = self._finished = False
        self._held = [] if held else None
        self._held_ms = 0.0
        self._start_over()

    def holds(self, epoch: int) -> bool:
        """Whether this reply is held back, and nobody has heard of it."""
        held = self._held is not None and not self._paused
        return self._open and epoch == self._epoch and held

    def put(self, output: Output, now: float) -> bool:
        """Send, hold or drop; False says that the reply is stale and may as well stop."""
        if not self._open or output.epoch != self._epoch:
            return False
        if self._held is None:
            self._send(output, now)
            return True
        if isinstance(output, ReplyAudio):
            self._held_ms += output.pcm.duration_ms
        if not (self._paused and self._unheard.keep(output)):
            self._held.append(output)
        return True

    def release(self, epoch: int, now: float) -> None:
        """Let out what was held, in its order, and whatever comes after it."""
        if not self._open or epoch != self._epoch or self._held is None:
            return
        held, self._held, self._held_ms = self._held, None, 0.0
        for output in held:
            self.put(output, now)

    def pause(self, epoch: int, now: float) -> None:
        """Let nothing more out for now: the listener has thrown away what was not heard."""
        self.flush(now)
        if self._open and epoch == self._epoch and not self._paused:
            self._paused = True
            self._held = [ReplyFinished(epoch, Usage())] if self._finished else []

    def resume(self, epoch: int, heard_ms: float, now: float) -> None:
        """Go on behind so much of the reply's audio."""
        if not self._open or epoch != self._epoch or not self._paused:
            return
        self._paused = self._finished = False
        rest = self._unheard.rest(epoch, heard_ms)
        self._start_over()
        self._held = [*rest, *(self._held or [])]
        self.release(epoch, now)

    def cut(self, heard_ms: float) -> tuple[int, Span] | None:
        """Where a paused reply was cut: behind so many phrases, and what was heard of the next;
        None where all that was let out was heard."""
        return self._unheard.cut(heard_ms)

    def has_more(self, heard_ms: float) -> bool:
        """A paused reply has something left to say behind so much of its audio."""
        return not self._finished or bool(self._unheard.rest(self._epoch, heard_ms))

    def stop(self, epoch: int) -> None:
        """Let nothing more of this reply out. What was heard of it can still be asked for."""
        if epoch == self._epoch:
            self._open = self._paused = False
            self._held, self._held_ms = None, 0.0

    def flush(self, now: float) -> None:
        """An interrupted listener has thrown away what it had not played."""
        self._player.flush(now)
        self.pulse.cut()
        for listener in self._listeners:
            listener.flushed(now)

    def close(self) -> None:
        """The call is over: nobody listens any more."""
        self._open, self._listeners = False, ()

    def lead_ms(self, now: float) -> float:
        """How far the current reply is ahead of its listener, held audio included."""
        return self._player.lead_ms(now) + self._held_ms

    def heard_ms(self, now: float) -> float:
        """How much of the current reply has been heard."""
        return self._player.heard_ms(now)

    def _send(self, output: Output, now: float) -> None:
        if isinstance(output, ReplyAudio):
            duration_ms = output.pcm.duration_ms
            starts_at = self._player.send(duration_ms, now)
            self.pulse.sent(duration_ms, now)
            for listener in self._listeners:
                listener.sounded(output.pcm, starts_at)
            self._unheard.forget(self._player.heard_ms(now) - LATEST_MS)
        elif isinstance(output, ReplyFinished):
            self._finished = True
            self.pulse.rest()
        self._unheard.note(output)
        self._emit(output)

    def _start_over(self) -> None:
        """What is let out from here on is an item of its own."""
        self._player = replace(self._player, sent_ms=0.0)
        self.pulse.rest()
        self._unheard = Unheard()
