"""How far a run is, for people: bars where a person looks on, else a line now and then.

A rate is of what this run has heard: what an earlier one has left to it takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from voice.progress import clock, pace

_LINE_EVERY_S: Final = 5.0
_BARS_EVERY_S: Final = 0.1
_LONGEST_NAME: Final = 40


@dataclass(slots=True)
class Course:
    """How far one file is, or all of them, at the time of ``now``. ``at_s`` of ``seems_s`` seconds
    are behind it, None where nobody knows how long it is; ``left_s`` of them by an earlier run;
    ``began`` is when this run began to hear, None before."""

    seems_s: float | None
    at_s: float = 0.0
    left_s: float = 0.0
    began: float | None = None
    ended: bool = False

    def rate(self, now: float) -> float | None:
        """Seconds of sound a second, once there is a telling."""
        fresh_s = self.at_s - self.left_s
        if self.began is None or now <= self.began or fresh_s <= 0:
            return None
        return fresh_s / (now - self.began)

    def words(self, now: float) -> str:
        """``12:00 of 1:00:00 (20 %), 32x (RTF 0.031), 1:30 left``."""
        told, rate = clock(self.at_s), self.rate(now)
        if self.seems_s:
            told += f" of {clock(self.seems_s)} ({100 * self.at_s / self.seems_s:.0f} %)"
        if rate is None:
            return told
        rest = "" if self.seems_s is None else f", {clock((self.seems_s - self.at_s) / rate)} left"
        return f"{told}, {pace(rate)}{rest}"


def lasting(seconds: float) -> str:
    """``4.2 s``, ``2:03``."""
    return f"{seconds:.1f} s" if seconds < 59.5 else clock(seconds)


class Show(Protocol):
    """What a person sees of a run."""

    def look(self, run: Run) -> None:
        """Something has changed."""
        ...


class Silent:
    """For those who want to hear of failures only."""

    def look(self, run: Run) -> None:
        """No."""


class Run:
    """The files of a run, by their names for people, each with how long it seems to be."""

    def __init__(
        self, files: Sequence[tuple[str, float | None]], now: Callable[[], float], show: Show
    ) -> None:
        self.names = [name for name, _ in files]
        self.courses = [Course(seems_s) for _, seems_s in files]
        self.now = now
        self._show = show

    def reach(self, number: int, at_s: float, fresh: bool) -> None:
        """A file has been heard up to there; ``fresh`` once this run has heard some of it."""
        course = self.courses[number]
        course.at_s = max(course.at_s, at_s)
        if course.seems_s is not None:
            course.seems_s = max(course.seems_s, course.at_s)
        if not fresh:
            course.left_s, course.began = course.at_s, self.now()
        self._show.look(self)

    def end(self, number: int, lasts_s: float | None = None) -> None:
        """A file is over, and was so long; None where it failed, and counts no more."""
        course = self.courses[number]
        course.ended = True
        course.seems_s = course.at_s = course.at_s if lasts_s is None else lasts_s
        self._show.look(self)

    @property
    def whole(self) -> Course:
        """All files as one."""
        lengths = [course.seems_s for course in self.courses]
        return Course(
            sum(filter(None, lengths)) if None not in lengths else None,
            sum(course.at_s for course in self.courses),
            sum(course.left_s for course in self.courses),
            min(
                (course.began for course in self.courses if course.began is not None), default=None
            ),
        )

    @property
    def open(self) -> Iterator[tuple[str, Course]]:
        """Those that have begun and are not over."""
        for name, course in zip(self.names, self.courses, strict=True):
            if course.began is not None and not course.ended:
                yield name, course


class Lines:
    """A line every few seconds, for what is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next: float | None = None

    def look(self, run: Run) -> None:
        """See Show."""
        now = run.now()
        if self._next is None:
            self._next = now + _LINE_EVERY_S
        if now < self._next:
            return
        self._next = now + _LINE_EVERY_S
        for name, course in run.open:
            self._tell(f"{name}: {course.words(now)}")
        if len(run.names) > 1:
            self._tell(f"{_all(run)}: {run.whole.words(now)}")

    def _tell(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """A bar for each file that is being heard, and one for all."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._next = 0.0

    def look(self, run: Run) -> None:
        """See Show."""
        now = run.now()
        if now < self._next:
            return
        self._next = now + _BARS_EVERY_S
        if len(run.names) > 1:
            self._draw("", _all(run), run.whole, now)
        shown = dict(run.open)
        for name in self._tasks.keys() - shown.keys() - {""}:
            self._bars.remove_task(self._tasks.pop(name))
        for name, course in shown.items():
            self._draw(name, _short(name), course, now)
        self._bars.refresh()

    def _draw(self, key: str, name: str, course: Course, now: float) -> None:
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task("", total=None, words="")
        self._bars.update(
            self._tasks[key],
            description=name,
            total=course.seems_s,
            completed=course.at_s,
            words=course.words(now),
        )


@contextmanager
def shown(console: Console, *, quiet: bool) -> Iterator[Show]:
    """What suits who looks on."""
    if quiet:
        yield Silent()
    elif not console.is_terminal:
        yield Lines(console)
    else:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(table_column=Column(ratio=1, max_width=40)),
            TextColumn("{task.fields[words]}", style="dim", markup=False),
        )
        with Progress(*columns, console=console, auto_refresh=False, transient=True) as bars:
            yield Bars(bars)


def _all(run: Run) -> str:
    over = sum(course.ended for course in run.courses)
    return f"{over} of {len(run.names)} files"


def _short(name: str) -> str:
    """Its end, which tells more."""
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"
