"""How far a command is: times and rates as people write them, and a bar for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn


def clock(seconds: float) -> str:
    """``1:02:03``, ``2:03``."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def pace(rate: float) -> str:
    """As multiples of real time, and as people measure recognisers and voices."""
    return f"{rate:.{0 if rate >= 10 else 1}f}x (RTF {1 / rate:.{3 if rate >= 10 else 2}f})"


def counted(number: int, what: str, several: str = "") -> str:
    """``1 call``, ``2 calls``; ``several``: what two are called, where it is not that with an s."""
    return f"{number} {what if number == 1 else several or f'{what}s'}"


class Bar:
    """One bar, with words behind it. It is there while it is ``drawn``, if it ``draws`` at all."""

    def __init__(self, console: Console, *, draws: bool) -> None:
        self.draws = draws
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}")
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=1.0, words="")

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """For as long as the context lasts."""
        if not self.draws:
            yield
            return
        with self._bar:
            yield

    def title(self, title: str) -> None:
        """What is being done."""
        self._bar.update(self._task, description=escape(title))

    def show(self, share: float, words: str) -> None:
        """``share`` of it, from 0 to 1, is done."""
        self._bar.update(self._task, completed=share, words=words)
