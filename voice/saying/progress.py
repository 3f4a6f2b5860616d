"""How far ``voice say`` is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

from rich.console import Console

from voice.progress import Bar, clock, pace

Clock: TypeAlias = Callable[[], float]
"""Seconds since some time."""

_EVERY_S: Final = 10.0
_TITLE: Final = 32
_LEAST: Final = 1e-6


class Pace:
    """What can be said of a run by what it has done. ``size``: characters of all of it; what was
    done ``before`` was another run's."""

    def __init__(self, size: int, before: int = 0, clock: Clock = time.monotonic) -> None:
        self.done = before
        self.sound_ms = 0.0
        self._size = max(size, 1)
        self._before = before
        self._clock = clock
        self._began = clock()

    @property
    def share(self) -> float:
        """Of all of it, from 0 to 1."""
        return min(1.0, self.done / self._size)

    @property
    def took_s(self) -> float:
        """Since the beginning of this run."""
        return self._clock() - self._began

    @property
    def factor(self) -> float | None:
        """Seconds of work for one of speech; None while there is none."""
        return 1000.0 * self.took_s / self.sound_ms if self.sound_ms else None

    @property
    def rate(self) -> str:
        """The same as people write it."""
        assert self.factor is not None, "there is speech"
        return pace(1 / max(self.factor, _LEAST))

    @property
    def left_s(self) -> float | None:
        """How long it will go on, if it goes on as it did."""
        fresh = self.done - self._before
        return self.took_s * max(0, self._size - self.done) / fresh if fresh > 0 else None

    def __str__(self) -> str:
        words = [f"{100 * self.share:3.0f} %", f"{clock(self.sound_ms / 1000)} of speech"]
        if self.factor is not None:
            words.append(self.rate)
        if self.left_s is not None:
            words.append(f"{clock(self.left_s)} left")
        return ", ".join(words)


class Shown:
    """A pace as a console shows it."""

    def __init__(self, console: Console, pace: Pace, clock: Clock = time.monotonic) -> None:
        self.pace = pace
        self.bar = Bar(console, draws=console.is_terminal and not console.is_dumb_terminal)
        self.bar.show(pace.share, str(pace))
        self._console = console
        self._clock = clock
        self._told_at = clock()
        self._title = ""

    def begin(self, title: str) -> None:
        """What is said from now on is called so."""
        self._title = title
        self.bar.title(title[:_TITLE])

    def advance(self, done: int, sound_ms: float) -> None:
        """So many characters are said by now, by so much more sound."""
        self.pace.done = done
        self.pace.sound_ms += sound_ms
        if self.bar.draws:
            self.bar.show(self.pace.share, str(self.pace))
        elif self._clock() - self._told_at >= _EVERY_S:
            self._told_at = self._clock()
            self.tell(f"{self._title}: {self.pace}" if self._title else str(self.pace))

    def tell(self, line: str) -> None:
        """A line that stays."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
