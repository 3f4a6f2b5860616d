"""A report as one page that needs nothing else: figures, plots, and what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from loadtest.figures import NAMES, Sample, Spread
from loadtest.plots import Plot, Series, cumulative
from loadtest.report import Point, Report
from loadtest.scrape import label
from loadtest.table import LATENCIES, callers, facts, told
from voice.progress import counted

_PAGE: Final = Path(__file__).with_name("page.html")
_FEWEST: Final = 4
"""Turns from which a quantile of a group says something."""


def page(report: Report) -> str:
    """The page of one run."""
    title = f"{callers(report.options.callers)}, {report.elapsed_s:.0f} s"
    body = [
        f"<h1>Load test: {escape(title)}</h1>",
        f'<div class="soft">{escape(report.began)} · {escape(report.server)} ·'
        f" {escape(report.machine)}</div>",
        *_verdict(report),
        *plots_of(report),
        "<h2>Latencies</h2>",
        spreads_table({LATENCIES[n]: s for n, s in report.figures.latency_ms.items() if s.n}),
        '<div class="soft">In milliseconds; the first four run from the last speech sample of'
        " the recording.</div>",
    ]
    if report.figures.stage_ms:
        body += ["<h2>By stage, as the server measures it</h2>"]
        body += [spreads_table(report.figures.stage_ms)]
    if report.figures.batch:
        body += ["<h2>Batches, rows</h2>", spreads_table(report.figures.batch)]
    body += ["<h2>Counted</h2>", _facts(facts(report)), "<h2>Asked</h2>", _facts(_asked(report))]
    return whole(f"Load test: {title}", body)


def whole(title: str, body: Iterable[str]) -> str:
    """A page around its body."""
    text = _PAGE.read_text("utf-8").replace("__TITLE__", escape(title))
    return text.replace("__BODY__", "\n".join(body))


def _verdict(report: Report) -> list[str]:
    parts = []
    if not report.valid:
        parts += ['<div class="verdict bad">This run is not valid</div>']
        parts += [_list(report.invalid_because)]
    if report.breaches:
        parts += ['<div class="verdict bad">Limits that were not kept</div>']
        parts += [_list(map(str, report.breaches))]
    elif report.valid and report.limits:
        kept = ", ".join(report.limits)
        parts += [f'<div class="verdict good">All limits were kept</div>{escape(kept)}']
    if report.notes:
        parts += [f'<div class="warn">{_list(report.notes)}</div>']
    return parts


def plots_of(report: Report) -> list[str]:
    """The pictures of a run: of what was measured in it."""
    points = report.points
    told = (
        (distribution(points), "of all turns, so many were quicker"),
        (over_time(points), "each dot is a turn, by when it began"),
        (by_sessions(points), "turns grouped by the calls that were open"),
        (by_speaking(report), "as the server counts its batches"),
        (usage(report.samples), "of all processes of the server"),
    )
    drawn = [figure(plot, caption) for plot, caption in told if plot.measured]
    if not drawn:
        return ['<p class="empty">There are no pictures: nothing was measured.</p>']
    return ["<h2>Pictures</h2>", '<div class="plots">', *drawn, "</div>"]


def figure(plot: Plot, caption: str) -> str:
    """A plot with its title."""
    small = f"<small>{escape(caption)}</small>"
    return f"<figure><figcaption>{escape(plot.title)}{small}</figcaption>{plot.svg()}</figure>"


def distribution(points: Sequence[Point]) -> Plot:
    """Which share of the turns was quicker than what."""
    plot = Plot("Latency", "ms after the last speech sample", "% of turns", log=True, highest=100)
    for name, key in (("first audio", "ttfa"), ("first sentence", "ttfs"), ("audible", "onset")):
        values = [getattr(p, key) for p in points if getattr(p, key) is not None]
        if values:
            plot.series.append(Series(name, cumulative(max(1.0, value) for value in values)))
    return plot


def over_time(points: Sequence[Point]) -> Plot:
    """Each turn's latency, by when it began."""
    plot = Plot("Latency over time", "s since the run began", "ms")
    for name, key in (("first audio", "ttfa"), ("first sentence", "ttfs")):
        row = [(p.at_s, getattr(p, key)) for p in points if getattr(p, key) is not None]
        plot.series.append(Series(name, row, "dots"))
    return plot


def by_sessions(points: Sequence[Point]) -> Plot:
    """The p95 of the turns that began while so many calls were open."""
    plot = Plot("Sessions against p95", "calls that are open", "ms, p95")
    if not points:
        return plot
    width = max(1, round(max(point.open for point in points) / 12))
    ordered = sorted(points, key=lambda point: point.open)
    groups = [
        (middle * width, list(group))
        for middle, group in groupby(ordered, lambda point: round(point.open / width))
    ]
    for name, key in (("first audio", "ttfa"), ("first sentence", "ttfs")):
        row = []
        for sessions, group in groups:
            values = [getattr(p, key) for p in group if getattr(p, key) is not None]
            if len(values) >= _FEWEST:
                row.append((float(sessions), float(np.percentile(values, 95))))
        plot.series.append(Series(name, row))
    return plot


def by_speaking(report: Report) -> Plot:
    """How large batches are against the sockets that could be in them: of each engine that
    counts them, else of those that tell of their last one."""
    plot = Plot("Batch size against speaking sockets", "streams that are open", "rows, mean")
    for engine, means in report.batch_means.items():
        plot.series.append(Series(engine, means))
    if plot.series:
        return plot
    plot.y = "rows of the last batch"
    kinds = sorted({key for s in report.samples for key in s.gauges if "engine_batch{" in key})
    for key in kinds:
        other = key.replace("engine_batch", "engine_speaking")
        row = [
            (s.gauges[other], s.gauges[key])
            for s in report.samples
            if s.gauges.get(key) and other in s.gauges
        ]
        plot.series.append(Series(label(key, "engine"), row, "dots"))
    return plot


def usage(samples: Sequence[Sample]) -> Plot:
    """Cores that the server used, over time."""
    row = [(s.at_s, s.cores) for s in samples if s.cores is not None]
    busy = [
        (s.at_s, max(g.busy for g in s.gpus if g.busy is not None))
        for s in samples
        if any(g.busy is not None for g in s.gpus)
    ]
    series = [Series("CPU, cores", row)] if row else []
    return Plot(
        "What the server uses",
        "s since the run began",
        "cores; share of a GPU",
        series + ([Series("GPU, share", busy)] if busy else []),
    )


def spreads_table(spreads: Mapping[str, Spread]) -> str:
    """Quantiles, one row a name."""
    head = "".join(f"<th>{name}</th>" for name in ("", "n", *NAMES))
    rows = []
    for name, spread in spreads.items():
        cells = (f"<td>{told(getattr(spread, share), spread.n)}</td>" for share in NAMES)
        rows.append(f"<tr><td>{escape(name)}</td><td>{spread.n}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><td>{escape(n)}</td><td>{escape(text)}</td></tr>" for n, text in rows)
    return f'<table class="facts">{"".join(cells)}</table>'


def _asked(report: Report) -> list[tuple[str, str]]:
    options, habits = report.options, report.options.habits
    return [
        ("command", report.command),
        ("server", report.server),
        ("speech", options.speech),
        (
            "callers",
            f"{options.callers} over {options.wire},"
            f" {counted(options.processes, 'process', 'processes')}",
        ),
        ("arrivals", f"{options.arrivals}, over {options.ramp_s:g} s"),
        (
            "shares",
            f"barge-ins {habits.barge_ins:g}, backchannels {habits.backchannels:g}, hang-ups"
            f" {habits.hang_ups:g}, pauses {habits.pauses:g}, silent callers {habits.silent:g}",
        ),
        ("network", f"loss {habits.loss:g}, jitter up to {habits.jitter_ms:g} ms"),
        ("seed", f"{options.seed}"),
    ]


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
