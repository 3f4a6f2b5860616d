"""Keys of a telephone, gathered into what was typed.

They stand beside the audio: they are no speech, and neither begin nor end a turn.
"""

from __future__ import annotations

from typing import Final

from voice.doors.phone_pacer import EARLY_MS

ENDS: Final = "#"
"""The key that ends what is typed, as callers know it."""

MOST_DIGITS: Final = 64
"""Longer than anything that people type; a key that is stuck ends here."""

KEYS: Final = frozenset("0123456789*#ABCD")


class Keypad:
    """What a caller types ends with ``#``, or once nothing was pressed for ``quiet_ms``. ``now`` is
    in milliseconds."""

    def __init__(self, quiet_ms: float) -> None:
        self._quiet_ms = quiet_ms
        self._digits = ""
        self._pressed_at = 0.0

    @property
    def deadline(self) -> float | None:
        """When what was typed so far is all; None where nothing was."""
        return self._pressed_at + self._quiet_ms if self._digits else None

    def press(self, digit: str, now: float) -> None:
        """A key of 0-9, *, #, A-D; any other is none."""
        if digit in KEYS:
            self._digits += digit
            self._pressed_at = now

    def take(self, now: float) -> str:
        """What was typed, once it is all; empty before."""
        due = self.deadline
        over = self._digits.endswith(ENDS) or len(self._digits) >= MOST_DIGITS
        if due is None or not (over or now >= due - EARLY_MS):
            return ""
        typed, self._digits = self._digits, ""
        return typed


def typed_words(digits: str) -> str:
    """What was typed as a model reads it, digit by digit: it would take 1234 for a number."""
    return f"[keypad: {' '.join(digits)}]"
