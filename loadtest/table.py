"""A report for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadtest.figures import NAMES, Figures, Spread
from loadtest.load import Run
from loadtest.report import Report
from voice.progress import counted

LATENCIES: Final = {
    "ttfa": "to first audio",
    "ttfs": "to first sentence, whole",
    "onset": "to first audible sample",
    "commit": "to the turn's end as decided",
    "reply": "from there to first audio",
    "barge_in": "barge-in, sound to silence",
    "gap": "between arrivals of audio",
    "connect": "to a call's acceptance",
    "refusal": "to a call's refusal",
}
"""Name of a latency -> what it is, all in ms; the first four run from the last speech sample."""


def print_report(console: Console, report: Report) -> None:
    """Everything: the verdict comes last, where one looks."""
    figures = report.figures
    console.print(f"\n[bold]{_asked(report)}[/bold]", highlight=False)
    console.print(Text(report.server, "dim"))
    latency = {LATENCIES[name]: s for name, s in figures.latency_ms.items() if s.n}
    if latency:
        console.print(_spreads("ms", latency))
    if figures.stage_ms:
        console.print(_spreads("the server's own, ms", figures.stage_ms))
    if figures.batch:
        console.print(_spreads("batches, rows", figures.batch))
    console.print(_facts(report))
    for note in report.notes:
        console.print(Text(f"note: {note}", "yellow"))
    _verdict(console, report)


def _asked(report: Report) -> str:
    options = report.options
    return f"{callers(options.callers)}, {report.elapsed_s:.0f} s, {options.arrivals} arrivals"


def callers(number: int) -> str:
    """So many, in words."""
    return counted(number, "caller")


def _spreads(title: str, spreads: Mapping[str, Spread]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, title_justify="left")
    table.add_column(title, min_width=30)
    for name in ("n", *NAMES):
        table.add_column(name, justify="right")
    for name, spread in spreads.items():
        values = (told(getattr(spread, share), spread.n) for share in NAMES)
        table.add_row(name, f"{spread.n}", *values)
    return table


def told(value: float | None, n: int) -> str:
    """A quantile; one that is not there never came."""
    if value is None:
        return "never" if n else "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def facts(report: Report) -> list[tuple[str, str]]:
    """What is counted rather than timed, in words."""
    figures = report.figures
    count = {name: int(value) for name, value in figures.counts.items() if name != "wer"}
    return [
        (
            "turns",
            f"{count['turns']}: {count['answered']} answered, {count['unanswered']} not,"
            f" {count['early']} before the caller had finished, {count['failed']} failed",
        ),
        (
            "calls",
            f"{count['calls']}: {count['refused']} refused, {count['failed_calls']} without an"
            f" answer, {count['lost']} lost, {count['hung_up']} hung up in mid-word",
        ),
        ("underruns", f"{count['underruns']}, {figures.counts['underrun_ms']:.0f} ms in all"),
        (
            "barge-ins",
            f"{count['barge_ins']}, {count['missed_barge_ins']} missed; a reply fell silent for"
            f" nothing {count['false_barge_ins']} times ({count['backchannels']} backchannels),"
            f" the server took up {count['resumed']} replies again",
        ),
        ("words", _words(report)),
        ("turns cut into", f"{count['cuts']}"),
        *([("phantom replies", f"{count['phantoms']}")] if count["phantoms"] else []),
        *_machine(figures),
        ("callers", _sender(figures)),
    ]


def _words(report: Report) -> str:
    if report.scripted:
        return "not measured: the recogniser is scripted"
    count = report.figures.counts
    if not count["words"]:
        return "none were said"
    lost = f"{int(count['words_lost'])} of {int(count['words'])} lost"
    return f"{100 * count['wer']:.1f} % wrong (WER), {lost}"


def _machine(figures: Figures) -> Iterable[tuple[str, str]]:
    server, gpu = figures.server, figures.gpu
    if server["cores_mean"] is not None:
        each = server["cpu_ms_per_session_second"]
        told_each = "" if each is None else f", {each:g} ms a session-second"
        yield (
            "server's CPU",
            f"{server['cores_mean']:g} cores, {server['cores_max']:g} at most" + (told_each),
        )
        yield "server's memory", f"{server['rss_mb_first']:g} → {server['rss_mb_max']:g} MB"
    if gpu["memory_mib_max"] is not None:
        busy = "" if gpu["busy_p50"] is None else f", busy {100 * gpu['busy_p50']:.0f} % (p50)"
        yield "GPU", f"{gpu['memory_mib_max']:.0f} MiB{busy}"
    for name, value in figures.tts.items():
        if value:  # 0 is said by a voice that has nothing to tell of it, as the scripted one
            yield f"tts {name.replace('_', ' ')}", f"{value:g}"


def _sender(figures: Figures) -> str:
    sender = figures.sender
    return (
        f"late by {sender.late_p50_ms:g} ms p50, {sender.late_p99_ms:g} p99,"
        f" {sender.late_max_ms:g} max; {sender.cpu_ms_per_session_second:g} ms of CPU a"
        " session-second"
    )


def _facts(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, text in facts(report):
        table.add_row(Text(name, "dim"), Text(text))
    return table


def _verdict(console: Console, report: Report) -> None:
    if not report.valid:
        console.print(Text("\nThis run is not valid:", "bold red"))
        for reason in report.invalid_because:
            console.print(Text(f"  {reason}", "red"))
    if report.breaches:
        console.print(Text("\nLimits that were not kept:", "bold red"))
        for breach in report.breaches:
            console.print(Text(f"  {breach}", "red"))
    elif report.valid and report.limits:
        console.print(Text(f"\nKept: {', '.join(report.limits)}", "bold green"))


class Live:
    """What is shown while a run goes on: remade from the run each time it is asked for."""

    def __init__(self, title: str) -> None:
        self.run: Run | None = None
        self._title = title

    def __rich__(self) -> RenderableType:
        run = self.run
        if run is None:
            return Text(f"{self._title}: callers are made ready …")
        at_s = max((progress.at_s for progress in run.progress.values()), default=0.0)
        total = run.options.ramp_s + run.options.seconds
        recent = [turn for turn in run.turns if turn.at_s > at_s - 20]
        latest = sorted(t.first_audio_ms for t in recent if t.first_audio_ms is not None)
        first = Text(f"{self._title}  {min(at_s, total):4.0f} of {total:.0f} s", "bold")
        first.append(
            f"   {run.total('open'):.0f} calls, {run.total('talking'):.0f} talking,"
            f" {run.total('speaking'):.0f} hear a reply",
            "not bold",
        )
        return Group(first, _so_far(run, latest))


def _so_far(run: Run, latest: list[float]) -> Text:
    text = Text(f"  {len(run.turns)} turns")
    if latest:
        p95 = latest[min(len(latest) - 1, int(0.95 * len(latest)))]
        text.append(f", first audio p50 {latest[len(latest) // 2]:.0f} p95 {p95:.0f} ms")
    underruns = sum(turn.underruns for turn in run.turns)
    unanswered = sum(turn.outcome == "unanswered" for turn in run.turns)
    bad = sum(call.end in ("refused", "failed", "lost") for call in run.calls)
    for number, what in ((underruns, "underruns"), (unanswered, "unanswered"), (bad, "calls lost")):
        text.append(f", {number} {what}", "red" if number else "dim")
    if run.samples and run.samples[-1].cores is not None:
        text.append(f", server {run.samples[-1].cores:.2f} cores", "dim")
    return text
