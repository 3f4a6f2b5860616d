"""What callers do: how many turns go like this or like that, drawn anew for each.

All of it is drawn from one number, so that two runs with the same settings behave alike.
"""

from __future__ import annotations

import random
from typing import Annotated, Literal

from msgspec import Meta, Struct

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Ms = Annotated[float, Meta(ge=0.0, le=60_000.0)]


class Habits(Struct, frozen=True, kw_only=True):
    """Shares are of turns, ``silent`` of callers, ``loss`` of frames.

    ``barge_ins``: the caller speaks into the reply; ``backchannels``: hums into it and means
    nothing; ``hang_ups``: leaves in mid-word and calls again; ``pauses``: falls silent in the
    middle of the sentence for ``pause_ms``. ``think_ms``: between a reply and the next turn.
    ``jitter_ms``: each frame comes later by 0 to so much, in order.
    """

    barge_ins: Share = 0.1
    backchannels: Share = 0.0
    hang_ups: Share = 0.0
    pauses: Share = 0.0
    silent: Share = 0.0
    loss: Share = 0.0
    jitter_ms: Ms = 0.0
    think_ms: tuple[Ms, Ms] = (500.0, 1_500.0)
    pause_ms: tuple[Ms, Ms] = (600.0, 1_500.0)
    patience_s: Annotated[float, Meta(gt=0.0, le=600.0)] = 10.0
    """A caller who hears nothing for so long gives the turn up."""


class Intent(Struct, frozen=True):
    """One turn as it is meant. ``clip``: which recording; ``hang_up``: the share of it that is
    said before the caller leaves; ``pause_ms``: in its middle, 0 for none; ``think_ms``: before
    it. ``into_reply_ms``: how much of the reply is heard before ``then`` comes."""

    clip: int
    think_ms: float
    pause_ms: float = 0.0
    hang_up: float | None = None
    then: Literal["listen", "barge_in", "backchannel"] = "listen"
    into_reply_ms: float = 0.0


class Character:
    """One caller's turns. ``clips``: how many recordings there are to choose from."""

    def __init__(self, habits: Habits, clips: int, seed: str) -> None:
        self._habits = habits
        self._draw = random.Random(seed)
        self._order: list[int] = []
        self._clips = clips

    def next(self) -> Intent:
        """The next turn."""
        habits, draw = self._habits, self._draw
        if not self._order:
            self._order = draw.sample(range(self._clips), self._clips)
        pause_ms = draw.uniform(*habits.pause_ms) if draw.random() < habits.pauses else 0.0
        leaves = draw.random() < habits.hang_ups
        chance = draw.random()
        then: Literal["listen", "barge_in", "backchannel"] = "listen"
        if chance < habits.barge_ins:
            then = "barge_in"
        elif chance < habits.barge_ins + habits.backchannels:
            then = "backchannel"
        return Intent(
            self._order.pop(),
            draw.uniform(*habits.think_ms),
            pause_ms,
            draw.uniform(0.3, 0.8) if leaves else None,
            then,
            draw.uniform(400.0, 1_500.0),
        )

    def redial_s(self) -> float:
        """How long after a hang-up this caller calls again."""
        return self._draw.uniform(0.5, 1.5)


class Network:
    """What a line does to frames on their way: which are lost, and how late each comes."""

    def __init__(self, habits: Habits, seed: str) -> None:
        self._loss = habits.loss
        self._jitter_s = habits.jitter_ms / 1000
        self._draw = random.Random(f"{seed} network")
        self._last = 0.0
        self.perfect = not (self._loss or self._jitter_s)

    def arrival(self, now: float) -> float | None:
        """When a frame that is sent now comes to its end of the line, never before the one sent
        before it; None where it is lost."""
        if self._loss and self._draw.random() < self._loss:
            return None
        self._last = max(self._last, now + self._draw.random() * self._jitter_s)
        return self._last


def is_silent(number: int, share: Share) -> bool:
    """Whether caller ``number`` never speaks: spread evenly over the callers."""
    return int((number + 1) * share + 1e-9) > int(number * share + 1e-9)
