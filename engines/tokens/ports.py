"""The port behind a voice whose model writes tokens: whoever turns them into sound asks for them
here. No flow does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from engines.ports import Engine, Priority


@dataclass(frozen=True, slots=True)
class SlotGrammar:
    """Tokens that come in rounds of ``slots``: at place p of a round only the ids from
    ``first + p * width`` on, ``width`` of them; ``stop`` only between two rounds.

    Plain numbers, so that it can travel to where the logits are.
    """

    first: int
    slots: int
    width: int
    stop: int

    def allowed(self, generated: int) -> tuple[range, bool]:
        """The ids that may come after so many tokens, and whether the stop token may."""
        place = generated % self.slots
        start = self.first + place * self.width
        return range(start, start + self.width), place == 0


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Token ids to be continued. ``stop`` ends the answer and is not part of it.

    A source that can bend the logits follows ``grammar``; the reader must not rely on it.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    stop: int
    temperature: float = 0.6
    top_p: float = 0.8
    repetition_penalty: float = 1.1
    seed: int = 0
    grammar: SlotGrammar | None = None
    priority: Priority = Priority.FINAL


Tokens: TypeAlias = tuple[int, ...]
TokenSource: TypeAlias = Engine[TokenRequest, Tokens]
"""Gives the next tokens as they come, one or several at a time, never an empty tuple."""
