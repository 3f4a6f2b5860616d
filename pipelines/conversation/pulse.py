"""How a call's replies are doing: counted as they go out, read by whoever watches the house."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RESERVE_MS: Final = 60.0
"""A client keeps so much back before it begins to play a reply, so that the network may be late."""

SETTLED_MS: Final = 1_000.0
"""A reply that has just begun has no lead yet, and that is no bad sign."""

READY_MS: Final = 1.0
"""Audio that comes sooner was there already: it says nothing about how fast the voice is."""

_ROUNDING_MS: Final = 0.001
"""Pieces are laid end to end on a clock of floats."""


@dataclass(slots=True)
class Pulse:
    """Counters that only rise, in milliseconds, and one listener's buffer.

    ``made_ms`` of audio took the voice ``making_ms``, where it was waited for at all; what the
    voice waited for the listener is none of it. ``sent_ms`` is on its way. The listener is an ideal
    one: it began with the first audio of the reply, holds ``RESERVE_MS`` back, and never loses any.
    Where it runs dry in the middle of a reply, that is an underrun, and it plays on as soon as more
    comes. What a caller heard beyond that the network has to answer for. Times are those of the
    call's clock, in milliseconds.
    """

    made_ms: float = 0.0
    making_ms: float = 0.0
    sent_ms: float = 0.0
    underruns: int = 0
    underrun_ms: float = 0.0
    _began_at: float | None = None
    _dry_at: float = 0.0

    def made(self, audio_ms: float, took_ms: float) -> None:
        """So much audio came after so long."""
        if took_ms < READY_MS:
            return
        self.made_ms += audio_ms
        self.making_ms += took_ms

    def sent(self, audio_ms: float, now: float) -> None:
        """So much of a reply's audio is on its way."""
        self.sent_ms += audio_ms
        if self._began_at is None:
            self._began_at, self._dry_at = now, max(self._dry_at, now + RESERVE_MS)
        elif now - self._dry_at > _ROUNDING_MS:
            self.underruns += 1
            self.underrun_ms += now - self._dry_at
            self._dry_at = now
        self._dry_at += audio_ms

    def rest(self) -> None:
        """All of the reply is on its way: nothing more is owed to the listener."""
        self._began_at = None

    def cut(self) -> None:
        """The listener has thrown away what it had, and waits for nothing."""
        self._began_at, self._dry_at = None, 0.0

    def lead_ms(self, now: float) -> float | None:
        """How long the listener has enough, below 0 once it is dry; None where no reply has
        sounded for a second, or all of it is sent."""
        if self._began_at is None or now - self._began_at < SETTLED_MS:
            return None
        return self._dry_at - now
