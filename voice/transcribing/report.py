"""What people are told of a run: each file as it ends, all of them at the end, how to go on."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console

from voice.progress import clock, counted, pace
from voice.transcribing.one_file import Outcome, Task
from voice.transcribing.progress import lasting
from voice.transcribing.sources import Found
from voice.transcribing.unfinished import clear

WHOLE: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130
"""Exit statuses; see docs/files.md."""


class Deaf:
    """A stream that may be written to though it takes no more: a log on a full disk, say, is no
    reason to stop."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """All of it, or nothing."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """If that can be done."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Report:
    """Of one run."""

    def __init__(self, console: Console, *, quiet: bool, resume: bool) -> None:
        self.console = console
        self._quiet = quiet
        self._resume = resume
        self._tasks: Sequence[Task] = ()
        self._outcomes: dict[int, Outcome] = {}
        self._unheard: Mapping[str, str] = {}
        self._kept_in = Path()
        self._began = self._ended = 0.0

    @contextmanager
    def while_(self, doing: str) -> Iterator[None]:
        """Something that may take a while, where a person looks on."""
        if self._quiet or not self.console.is_terminal:
            yield
        else:
            with self.console.status(f"{doing} …"):
                yield

    def begin(self, found: Found, tasks: Sequence[Task], kept_in: Path) -> None:
        """These are to be heard, and what is heard of them is kept in this folder."""
        self._tasks, self._unheard, self._kept_in = tasks, found.failures, kept_in
        for name, why in found.failures.items():
            self._fail(name, why)
        if found.passed_over:
            self._say(f"passed over: {counted(found.passed_over, 'file')} without sound in it")
        left = sum(task.kept.is_file() for task in tasks)
        if left and not self._resume:
            told = f"{counted(left, 'file')} of an earlier run that was not finished"
            self._say(f"begun anew: {told}; --resume would have gone on with it")

    def hear(self) -> None:
        """All is loaded: from here on time counts."""
        self._began = self._ended = time.monotonic()

    def ended(self, number: int, outcome: Outcome) -> None:
        """A file is over."""
        self._outcomes[number], self._ended = outcome, time.monotonic()
        name = self._tasks[number].source.shown
        if outcome.failure:
            self._fail(name, outcome.failure)
            return
        self._say(f"{name}: {_told(outcome)}")
        if outcome.note:
            self._say(f"{name}: {outcome.note}")

    def finish(self) -> int:
        """All files are over. Prints what is asked for where there is no file for it; the exit
        status."""
        if len(self._tasks) + len(self._unheard) > 1:
            self._sum_up()
        whole = self._print() and not self._failures
        kept = [task.kept for task in self._tasks]
        clear([each for each in kept if whole or not each.exists()], self._kept_in)
        return WHOLE if whole else FAILED

    def stopped(self) -> None:
        """It was, in the middle."""
        whole = sum(not outcome.failure for outcome in self._outcomes.values())
        if not any(task.kept.is_file() for task in self._tasks):
            self.console.print("stopped: nothing had been heard yet", soft_wrap=True)
            return
        self._tell(f"stopped: {whole} of {counted(len(self._tasks), 'file')} whole.")
        command, *words = [word for word in sys.argv[1:] if word != "--resume"]
        self._tell("What was heard of the rest is kept. This goes on with it:")
        self._tell(f"  {shlex.join(['voice', command, '--resume', *words])}")

    @property
    def _failures(self) -> dict[str, str]:
        of_tasks = {
            self._tasks[number].source.shown: outcome.failure
            for number, outcome in sorted(self._outcomes.items())
            if outcome.failure
        }
        return {**self._unheard, **of_tasks}

    def _sum_up(self) -> None:
        whole = [outcome for outcome in self._outcomes.values() if not outcome.failure]
        failures = self._failures
        told = f"{len(whole)} of {counted(len(whole) + len(failures), 'file')} whole"
        took_s = self._ended - self._began
        self._say(f"{told}: {_told(_sum(whole, took_s))}" if whole else told)
        if failures:
            self._tell(f"{len(failures)} failed:")
            for name, why in failures.items():
                self._tell(f"  {name}: {why}")

    def _print(self) -> bool:
        """Whether what is to be printed could be."""
        try:
            for outcome in self._outcomes.values():
                for data in outcome.given:
                    sys.stdout.buffer.write(data)
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it is flushed again
            self._tell(f"voice transcribe: the text cannot be printed: {error.strerror}")
            return False
        return True

    def _fail(self, name: str, why: str) -> None:
        self._tell(f"voice transcribe: {name}: {why}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._tell(line)

    def _tell(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _told(outcome: Outcome) -> str:
    """``1:00:00 of sound in 1:52, 32x (RTF 0.031), 9012 words; doubted or heard again: loop 2``."""
    length = f"{clock(outcome.lasts_s)} of sound"
    if outcome.before:
        return f"{length}, whole before"
    left_s = outcome.lasts_s - outcome.fresh_s
    before = f", {clock(left_s)} of it by an earlier run," if left_s >= 1 else ""
    parts = [f"{length}{before} in {lasting(outcome.took_s)}"]
    if outcome.took_s and outcome.fresh_s:
        parts.append(pace(outcome.fresh_s / outcome.took_s))
    parts.append(counted(outcome.words, "word"))
    told = ", ".join(parts)
    if not outcome.doubts:
        return told
    why = ", ".join(f"{reason} {count}" for reason, count in outcome.doubts.most_common())
    return f"{told}; doubted or heard again: {why}"


def _sum(outcomes: Sequence[Outcome], took_s: float) -> Outcome:
    return Outcome(
        lasts_s=sum(each.lasts_s for each in outcomes),
        fresh_s=sum(each.fresh_s for each in outcomes),
        took_s=took_s,
        words=sum(each.words for each in outcomes),
        doubts=sum((each.doubts for each in outcomes), Counter()),
    )
