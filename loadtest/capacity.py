"""How many callers a server can hold: bisection, confirmation, what limits, and the file of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from loadtest.report import Report

_STEP: Final = 1.05
"""Bounds that are so close are not brought closer."""

_BACK: Final = 0.9
_MOST_CONFIRMATIONS: Final = 4
_BUSY: Final = 0.85
"""Share of the cores from which CPU is what a server lacks."""

_GROWN: Final = 1.5
_PARTS: Final = ("stage.asr", "stage.llm", "stage.phrase", "stage.tts", "stage.sentence")


class Search:
    """Which number of callers to try next: doubled until one is too many, then halved between
    the most that held and the fewest that did not. Pure."""

    def __init__(self, first: int, most: int) -> None:
        self.low = 0
        """The most callers that held."""
        self.high: int | None = None
        """The fewest that did not."""
        self._next = min(first, most)
        self._most = most

    @property
    def next(self) -> int | None:
        """How many to try; None where it is known well enough."""
        if self.high is None:
            return self._next if self.low < self._most else None
        close = self.high - self.low <= 1 or (self.low and self.high / self.low <= _STEP)
        return None if close else (self.low + self.high) // 2

    def note(self, callers: int, *, held: bool) -> None:
        """What came of a try."""
        if held:
            self.low = max(self.low, callers)
            self._next = min(callers * 2, self._most)
        else:
            self.high = callers if self.high is None else min(self.high, callers)


class Try(Struct, frozen=True):
    """One run of the search. ``confirming``: a longer one, of what was found."""

    callers: int
    held: bool
    confirming: bool
    report: Report


class Capacity(Struct):
    """``callers``: how many the server holds, 0 for none, confirmed by a longer run.
    ``limited_by``: what it runs out of, in words."""

    callers: int
    limited_by: str
    tries: list[Try]
    interrupted: bool = False

    @property
    def confirmed(self) -> Report | None:
        """The run that the number rests on."""
        found = [t.report for t in self.tries if t.confirming and t.held]
        return found[-1] if found and self.callers else None


class _Trials:
    """All that was tried, in order."""

    def __init__(self, attempt: Callable[[int, bool], Report], tell: Callable[[Try], None]) -> None:
        self.tries: list[Try] = []
        self.interrupted = False
        self._attempt = attempt
        self._tell = tell

    def hold(self, callers: int, *, confirming: bool = False) -> bool:
        """Whether so many are held. A run that is not valid is made once more, since a machine
        that others use, too, stumbles now and then."""
        report = self._attempt(callers, confirming)
        if not (report.valid or report.interrupted):
            self._tell(Try(callers, held=False, confirming=confirming, report=report))
            report = self._attempt(callers, confirming)
        self.interrupted = report.interrupted
        self.tries.append(Try(callers, report.kept and not report.interrupted, confirming, report))
        self._tell(self.tries[-1])
        return self.tries[-1].held


def find(
    first: int,
    most: int,
    attempt: Callable[[int, bool], Report],
    tell: Callable[[Try], None] = lambda _try: None,
) -> Capacity:
    """The largest number of callers that ``attempt`` holds; its second argument asks for a longer
    run, to confirm. ``tell`` hears of each try, and of those that are made once more."""
    search, trials, found = Search(first, most), _Trials(attempt, tell), 0
    while not trials.interrupted and (callers := search.next) is not None:
        search.note(callers, held=trials.hold(callers))
    callers = search.low
    for _ in range(_MOST_CONFIRMATIONS):
        if callers < 1 or trials.interrupted:
            break
        if trials.hold(callers, confirming=True):
            found = callers
            break
        callers = min(callers - 1, int(callers * _BACK))
    limit = "" if trials.interrupted else limited_by(trials.tries, most)
    return Capacity(found, limit, trials.tries, trials.interrupted)


def check(
    callers: int,
    attempt: Callable[[int, bool], Report],
    tell: Callable[[Try], None] = lambda _try: None,
) -> Capacity:
    """Whether so many are held: one long run."""
    trials = _Trials(attempt, tell)
    found = callers if trials.hold(callers, confirming=True) else 0
    return Capacity(found, limited_by(trials.tries, callers), trials.tries, trials.interrupted)


def limited_by(tries: Sequence[Try], most: int) -> str:
    """What the server runs out of: told by the smallest try that did not hold, against the
    smallest of all."""
    failed = [each for each in tries if not each.held]
    if not failed:
        return f"nothing up to {most} callers, the most that were tried"
    worst = min(failed, key=lambda each: each.callers).report
    least = min(tries, key=lambda each: each.callers).report
    if not worst.valid:
        return f"the measurement itself: {worst.invalid_because[0]}"
    count = worst.figures.counts
    if count["refused"]:
        return f"admission: {next(iter(worst.refusals), 'calls were refused')}"
    if count["lost"]:
        return f"calls were cut off: {next(iter(worst.refusals), 'no reason given')}"
    return "; ".join([_slowest(least, worst), *_lacking(worst), _broken(worst)])


def _slowest(least: Report, worst: Report) -> str:
    """The stage whose p95 has grown the most."""
    grown = []
    for name in (*_PARTS, "loop_lag"):
        before, after = (each.figures.stage_ms.get(name) for each in (least, worst))
        if after is not None and after.p95 is not None:
            was = before.p95 if before is not None and before.p95 is not None else 0.0
            grown.append((after.p95 - was, name.removeprefix("stage."), was, after.p95))
    if not grown:
        return "no stage (the server exports none)"
    if least is worst:
        name, now = max(((part[1], part[3]) for part in grown), key=lambda part: part[1])
        return f"{name.replace('_', ' ')}, the slowest stage: p95 {now:.0f} ms"
    _, name, was, now = max(grown)
    if now < was * _GROWN:
        return "no single stage"
    return f"{name.replace('_', ' ')}: p95 {was:.0f} → {now:.0f} ms"


def _lacking(report: Report) -> list[str]:
    cores, there = report.figures.server.get("cores_max"), os.cpu_count() or 1
    found = []
    if cores is not None:
        lack = "CPU is what it lacks: " if cores >= _BUSY * there else ""
        found.append(f"{lack}it used {cores:g} of {there} cores")
    busy = report.figures.gpu.get("busy_max")
    if busy is not None:
        found.append(f"the GPU was busy {100 * busy:.0f} %")
    return found


def _broken(report: Report) -> str:
    return "broken: " + ", ".join(map(str, report.breaches))


def toml(capacity: Capacity, setting: str, name: str) -> str:
    """The file of this ``name`` that a configuration includes; ``setting``: section and key of the
    bound."""
    section, _, key = setting.partition(".")
    report = capacity.confirmed
    assert report is not None, "only what was confirmed is written down"
    figures = report.figures.flat()
    told = {name: figures.get(name) for name in ("ttfa.p95", "ttfs.p95", "barge_in.p95")}
    measured = ", ".join(f"{n} {v:g} ms" for n, v in told.items() if v is not None)
    lines = [
        f"Written by `voice capacity` on {report.began}: how many calls this server holds.",
        f"machine: {report.machine}",
        f"server: {report.server}",
        f"command: {report.command}",
        f"limits: {', '.join(report.limits)}",
        f"measured over {report.options.seconds:.0f} s: {measured}, underruns"
        f" {figures['underruns']:g}, turns {figures['turns']:g}",
        f"limited by: {capacity.limited_by}",
        f"Take it into a configuration with: include = {json.dumps([name])}",
    ]
    comments = "".join(f"# {_one_line(line)}\n" for line in lines)
    return f"{comments}\n[{section}]\n{key} = {capacity.callers}\n"


def _one_line(text: str) -> str:
    """Nothing that TOML has no place for in a comment."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\\\\", "\\")
