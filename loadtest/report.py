"""A run's report: the verdict, the figures, and what was asked, for all who show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from loadtest.figures import (
    LATEST_MS,
    OWN_CPU_MS,
    Figures,
    Sample,
    batches,
    counts,
    gpu_load,
    latencies,
    sender,
    server_load,
    stages,
)
from loadtest.load import Options, Run
from loadtest.machine import described
from loadtest.records import TurnRecord
from loadtest.scrape import Metrics, added, batch_means, histograms
from loadtest.slo import Breach, Limit, breaches
from voice.progress import counted


class Point(Struct, frozen=True, kw_only=True):
    """One turn as plots need it."""

    at_s: float
    open: int
    ttfa: float | None
    ttfs: float | None
    onset: float | None
    answered: bool


class Report(Struct, kw_only=True):
    """``valid``: whether the figures say something of the server; ``invalid_because`` why not.
    ``notes``: what a reader should know. ``breaches``: limits that were not kept.
    ``batch_means``: by engine, streams that could have been in a batch and its mean rows."""

    command: str
    began: str
    machine: str
    server: str
    options: Options
    scripted: bool
    valid: bool
    interrupted: bool
    invalid_because: list[str]
    notes: list[str]
    limits: list[str]
    breaches: list[Breach]
    figures: Figures
    points: list[Point]
    samples: list[Sample]
    refusals: dict[str, int] = field(default_factory=dict)
    batch_means: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether the run says that the server keeps its limits."""
        return self.valid and not self.breaches


def report(
    run: Run,
    limits: Sequence[Limit],
    *,
    command: str,
    server: str,
    scripted: bool = False,
) -> Report:
    """What a run amounts to."""
    figures = figures_of(run)
    because = _invalid(run, figures)
    options = run.options
    if options.api_key is not None:
        options = msgspec.structs.replace(options, api_key="(given)")
    return Report(
        command=command,
        began=run.began.isoformat(timespec="seconds"),
        machine=described(),
        server=server,
        options=options,
        scripted=scripted,
        valid=not because,
        interrupted=run.interrupted,
        invalid_because=because,
        notes=_notes(run, figures, scripted=scripted),
        limits=[str(limit) for limit in limits],
        breaches=breaches(limits, figures.flat(), _unmeasured(figures)),
        figures=figures,
        points=_points(run.turns, run.samples),
        samples=run.samples,
        refusals=_refusals(run),
        batch_means=batch_means(run.first or run.before, run.after),
        elapsed_s=round(run.elapsed_s, 1),
    )


_GROWING: Final[Mapping[str, Callable[[Run], float]]] = {
    "underruns": lambda run: sum(turn.underruns for turn in run.measured()),
    "refused": lambda run: sum(call.end == "refused" for call in run.calls),
    "lost": lambda run: sum(call.end == "lost" for call in run.calls),
}


def broken_for_good(limits: Sequence[Limit], run: Run) -> str:
    """The limit that a run has broken whatever comes: what is counted does not grow less."""
    bounds = [limit for limit in limits if limit.figure in _GROWING and not limit.least]
    counted = [(limit, _GROWING[limit.figure](run)) for limit in bounds]
    return next((f"{limit} is broken" for limit, n in counted if n > limit.value), "")


def _unmeasured(figures: Figures) -> list[str]:
    """What nobody happened to do: a limit on it is neither kept nor broken."""
    return [] if figures.counts["barge_ins"] else ["barge_in"]


def figures_of(run: Run) -> Figures:
    """The numbers of a run: of its turns once all callers were there, and of all its calls."""
    turns = run.measured()
    observed = histograms(run.before, run.after)
    first, last = run.options.ramp_s, run.options.ramp_s + run.options.seconds
    samples = [sample for sample in run.samples if first <= sample.at_s <= last]
    return Figures(
        latency_ms=latencies(turns, run.calls),
        stage_ms=stages(observed),
        counts=counts(turns, run.calls) | {"resumed": _resumed(run)},
        sender=sender(run.late(), run.own_cpu_s(), run.total("session_s")),
        server=server_load(samples),
        gpu=gpu_load(samples),
        tts=_tts(run.before, run.after, samples),
        batch=batches(observed),
    )


def _resumed(run: Run) -> float:
    """Replies that the server took up again, since nobody had meant to interrupt them."""
    gained = added(run.before, run.after, "antiphon_interruptions_total")
    return sum(value for labels, value in gained.items() if 'meant="false"' in labels)


def _tts(before: Metrics, after: Metrics, samples: Sequence[Sample]) -> dict[str, float | None]:
    """What the server says of its voice: each ``antiphon_tts_*`` that it has, a counter as its
    gain a second, a gauge as its highest value."""
    seconds = samples[-1].at_s - samples[0].at_s if len(samples) > 1 else 0.0
    found: dict[str, float | None] = {}
    for key in samples[-1].gauges if samples else {}:
        if not key.startswith("antiphon_tts_"):
            continue
        name = key.removeprefix("antiphon_tts_")
        if key.partition("{")[0].endswith("_total"):
            gained = sum(added(before, after, key).values())
            found[name.replace("_total", "_a_second")] = (
                round(gained / seconds, 2) if seconds else None
            )
        else:
            found[name] = max(sample.gauges.get(key, 0.0) for sample in samples)
    return found


def _invalid(run: Run, figures: Figures) -> list[str]:
    because = list(run.troubles)
    late = figures.sender.late_p99_ms
    if late > LATEST_MS:
        because.append(
            f"the callers themselves were late: {late:g} ms at p99, more than {LATEST_MS:g};"
            " use fewer callers, more --processes, or another machine for them"
        )
    if not figures.counts["turns"] and not run.options.habits.silent >= 1:
        because.append(f"no turn was completed: {_why_nobody_spoke(run)}")
    return because


def _why_nobody_spoke(run: Run) -> str:
    taken = [call for call in run.calls if call.status == 101]
    if (refusals := _refusals(run)) and not taken:
        return max(refusals, key=lambda why: refusals[why])
    if taken and not any(call.frames for call in taken):
        return "the server took the calls, and never answered session.update"
    return "the run was too short" if taken else "nobody got through"


def _notes(run: Run, figures: Figures, *, scripted: bool) -> list[str]:
    cost = figures.sender.cpu_ms_per_session_second
    errors = [error for call in run.calls for error in call.errors]
    idle = run.options.habits.barge_ins > 0 and not figures.counts["barge_ins"]
    told = [
        (
            run.interrupted,
            f"interrupted after {run.elapsed_s:.0f} s: figures are of what was by then",
        ),
        (bool(run.given_up), f"given up after {run.elapsed_s:.0f} s: {run.given_up}"),
        (
            cost > OWN_CPU_MS,
            f"the callers take {cost:g} ms of CPU a session-second, more than {OWN_CPU_MS:g}:"
            " on the server's machine they may limit it",
        ),
        (scripted, "the recogniser is scripted: word errors say nothing, and a hum is a word"),
        (idle, "nobody broke into a reply: its limit was not tried"),
        (not run.after, "the server tells nothing at /metrics: no stages, no batches"),
        (
            run.options.pid is None,
            "the server's process is not known: no CPU or memory (give --pid)",
        ),
        (bool(errors), f"the server complained {len(errors)} times, first: {errors[:1]}"),
    ]
    notes = [text for holds, text in told if holds]
    return notes + [f"{counted(n, 'call')} not taken: {why}" for why, n in _refusals(run).items()]


def _refusals(run: Run) -> dict[str, int]:
    found: dict[str, int] = {}
    for call in run.calls:
        if call.end in ("refused", "failed", "lost"):
            why = f"{call.status} {call.why}" if call.end == "refused" else call.why or "cut off"
            found[why] = found.get(why, 0) + 1
    return found


def _points(turns: Sequence[TurnRecord], samples: Sequence[Sample]) -> list[Point]:
    points = []
    for turn in turns:
        if turn.outcome in ("answered", "unanswered", "failed"):
            near = [s.open for s in samples if s.at_s <= turn.at_s] or [s.open for s in samples]
            points.append(
                Point(
                    at_s=turn.at_s,
                    open=near[-1] if near else 0,
                    ttfa=turn.first_audio_ms,
                    ttfs=turn.sentence_ms,
                    onset=turn.onset_ms,
                    answered=turn.outcome == "answered",
                )
            )
    return points
