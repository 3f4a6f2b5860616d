"""What ``voice capacity`` found, for a person at a terminal and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadtest.capacity import Capacity, Try
from loadtest.page import figure, plots_of, spreads_table, whole
from loadtest.plots import Plot, Series
from loadtest.table import LATENCIES
from loadtest.table import callers as in_words

_COLUMNS = ("callers", "held", "TTFA p95", "TTFS p95", "barge-in p95", "underruns", "cores", "why")


def print_try(console: Console, made: Try) -> None:
    """One line as soon as a try is over."""
    cells = _cells(made)
    word = "confirming" if made.confirming else "trying"
    verdict = Text("holds", "green") if made.held else Text("does not hold", "red")
    if made.report.interrupted:
        verdict = Text("interrupted", "yellow")
    elif not made.report.valid:
        verdict = Text("not valid", "yellow")
    line = Text(f"{word} {in_words(made.callers)}: ") + verdict
    told = f"  TTFS p95 {cells[3]} ms, barge-in p95 {cells[4]} ms, {cells[5]} underruns"
    console.print(line + Text(told + (f"; {cells[7]}" if cells[7] else ""), "dim"), soft_wrap=True)


def print_capacity(console: Console, capacity: Capacity) -> None:
    """All tries, and the verdict."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in _COLUMNS[:-1]:  # why was told with each try
        table.add_column(name, justify="right")
    for made in capacity.tries:
        table.add_row(*(Text(cell) for cell in _cells(made)[:-1]))
    console.print(table)
    if capacity.interrupted:
        console.print(Text("Interrupted: the capacity is not known.", "bold yellow"))
    elif capacity.callers:
        console.print(Text(f"Capacity: {in_words(capacity.callers)}", "bold green"))
    else:
        console.print(Text("Capacity: none, not even one caller is held", "bold red"))
    if capacity.limited_by:
        console.print(f"limited by {capacity.limited_by}", markup=False)


def _cells(made: Try) -> list[str]:
    figures = made.report.figures
    flat = figures.flat()
    cores = figures.server.get("cores_max")
    why = "; ".join([*made.report.invalid_because, *map(str, made.report.breaches)])
    return [
        f"{made.callers}",
        f"{'yes' if made.held else 'no'}{', confirmed' if made.held and made.confirming else ''}",
        *(_told(flat.get(name)) for name in ("ttfa.p95", "ttfs.p95", "barge_in.p95")),
        f"{figures.counts['underruns']:g}",
        "–" if cores is None else f"{cores:g}",
        why,
    ]


def _told(value: float | None) -> str:
    if value == math.inf:
        return "never"
    return "–" if value is None else f"{value:.0f}"


def capacity_page(capacity: Capacity) -> str:
    """The page: sessions against p95 over all tries, and the run that the number rests on."""
    last = capacity.confirmed or (capacity.tries[-1].report if capacity.tries else None)
    title = f"Capacity: {in_words(capacity.callers)}"
    body = [f"<h1>{escape(title)}</h1>"]
    if last is not None:
        body += [
            f'<div class="soft">{escape(last.began)} · {escape(last.server)} ·'
            f" {escape(last.machine)}</div>",
            f"<p>Limits: {escape(', '.join(last.limits))}</p>",
        ]
    if capacity.limited_by:
        body.append(f"<p>Limited by {escape(capacity.limited_by)}.</p>")
    plot = sessions_plot(capacity.tries)
    body += ['<div class="plots">', figure(plot, "each point is a run"), "</div>"]
    body += ["<h2>Runs</h2>", _table(capacity.tries)]
    if last is not None:
        body += [f"<h2>The run with {in_words(last.options.callers)}</h2>"]
        body += plots_of(last)[1:]
        body += [
            spreads_table({LATENCIES[n]: s for n, s in last.figures.latency_ms.items() if s.n})
        ]
        body += [spreads_table(last.figures.stage_ms)]
    return whole(title, body)


def sessions_plot(tries: Sequence[Try]) -> Plot:
    """The p95 of each try against its callers, with the limit on the first sentence."""
    plot = Plot("Sessions against p95", "callers", "ms, p95")
    for label, name in (("first audio", "ttfa.p95"), ("first sentence", "ttfs.p95")):
        row = [(float(t.callers), t.report.figures.flat().get(name)) for t in tries]
        known = [(n, value) for n, value in row if value is not None and value < math.inf]
        plot.series.append(Series(label, sorted(known)))
    limit = [text for t in tries[:1] for text in t.report.limits if text.startswith("ttfs.p95<=")]
    if limit:
        plot.limit = (float(limit[0].partition("<=")[2]), limit[0])
    return plot


def _table(tries: Sequence[Try]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in _COLUMNS)
    rows = []
    for made in tries:
        *figures, why = (escape(cell) for cell in _cells(made))
        cells = "".join(f"<td>{cell}</td>" for cell in figures)
        rows.append(f'<tr>{cells}<td class="text">{why}</td></tr>')
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
