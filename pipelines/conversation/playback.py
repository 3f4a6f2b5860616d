"""The playout ledger: what of each reply was queued, sent and heard, and what may still go out.

Cancelling a reply frees resources and may be late; the ledger makes it correct. Everything a
reply puts carries its epoch. An epoch that is not the current one is stale and goes nowhere,
and one that is held keeps what it is given until it is released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipelines.conversation.events import Output, ReplyAudio


@dataclass(slots=True)
class Player:
    """A model of the listener's playback buffer, in milliseconds of the call's clock.

    Audio plays from the moment it is sent, in real time, one piece after the other; where the
    buffer runs dry, playing stops until more is sent.
    """

    sent_ms: float = 0.0
    _ends_at: float = 0.0

    def send(self, duration_ms: float, now: float) -> None:
        """So much audio has been handed to the listener."""
        self._ends_at = max(self._ends_at, now) + duration_ms
        self.sent_ms += duration_ms

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
    """The gate and the ledger of one call's replies. ``emit`` is given what may go out."""

    def __init__(self, emit: Callable[[Output], None]) -> None:
        self._emit = emit
        self._epoch = 0
        self._open = False
        self._held: list[Output] | None = None
        self._player = Player()
        self._held_ms = 0.0

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
        self._held = [] if held else None
        self._held_ms = 0.0
        self._player = replace(self._player, sent_ms=0.0)

    def holds(self, epoch: int) -> bool:
        """Whether this reply is held back."""
        return self._open and epoch == self._epoch and self._held is not None

    def put(self, output: Output, now: float) -> bool:
        """Send, hold or drop; False says that the reply is stale and may as well stop."""
        if not self._open or output.epoch != self._epoch:
            return False
        if self._held is None:
            self._send(output, now)
            return True
        self._held.append(output)
        if isinstance(output, ReplyAudio):
            self._held_ms += output.pcm.duration_ms
        return True

    def release(self, epoch: int, now: float) -> None:
        """Let out what was held, in its order, and whatever comes after it."""
        if not self._open or epoch != self._epoch or self._held is None:
            return
        held, self._held, self._held_ms = self._held, None, 0.0
        for output in held:
            self.put(output, now)

    def stop(self, epoch: int) -> None:
        """Let nothing more of this reply out. What was heard of it can still be asked for."""
        if epoch == self._epoch:
            self._open = False
            self._held, self._held_ms = None, 0.0

    def flush(self, now: float) -> None:
        """An interrupted listener has thrown away what it had not played."""
        self._player.flush(now)

    def lead_ms(self, now: float) -> float:
        """How far the current reply is ahead of its listener, held audio included."""
        return self._player.lead_ms(now) + self._held_ms

    def heard_ms(self, now: float) -> float:
        """How much of the current reply has been heard."""
        return self._player.heard_ms(now)

    def _send(self, output: Output, now: float) -> None:
        if isinstance(output, ReplyAudio):
            self._player.send(output.pcm.duration_ms, now)
        self._emit(output)
