"""``voice doctor``: what is here, what the configuration needs, what is missing and how to get it.

It starts nothing and changes nothing. The exit status is 0 where nothing was found to be in the
way of ``voice serve``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Final

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engines.placement import Gpu, Inventory, Plan, Seat, Slice, inventory
from engines.remote.endpoints import is_endpoint
from voice.app import check_engines
from voice.config import Config, ConfigError, load
from voice.config_options import add_address_options, add_config_options, address_settings
from voice.doctor import Engine, Report, examine
from voice.doctor_phones import Phones
from voice.packages import Package
from voice.progress import counted

_STATES: Final = {
    "ready": ("ready", "green"),
    "missing": ("missing", "red"),
    "damaged": ("damaged", "red"),
    "folder": ("a folder of yours", ""),
    "no folder": ("no such folder", "red"),
    "named": ("fetched or served elsewhere", ""),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice doctor``: those of ``voice serve`` that choose what is needed."""
    add_config_options(parser)
    add_address_options(parser)
    parser.add_argument("--json", action="store_true", help="print all of it for programs")


def run(parsed: argparse.Namespace, console: Console | None = None) -> int:
    """Look, and tell. The exit status: 0 where nothing is in the way of ``voice serve``, else 1."""
    report = examine(_config(parsed), inventory())
    console = console or Console()
    if parsed.json:
        text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        _Page(console).show(report)
    return 0 if report.starts else 1


def _config(parsed: argparse.Namespace) -> Config | ConfigError:
    try:
        settings = [*parsed.set, *address_settings(parsed)]
        return load(parsed.config, os.environ, settings, check_engines=check_engines)
    except ConfigError as error:
        return error


class _Page:
    """The report for a person."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, report: Report) -> None:
        """The verdict, and what it rests on."""
        self._verdict(report)
        machine = report.machine
        self._head("Machine")
        self._line(
            f"{machine.cores} cores, {machine.memory_mib / 1024:.1f} GiB of memory,"
            f" Python {machine.python}, {machine.system}"
        )
        self._gpus(report.inventory)
        self._packages(report.packages)
        self._engines(report.engines, report.models_dir)
        self._plan(report.plan)
        self._phones(report.phones)

    def _gpus(self, there: Inventory) -> None:
        self._head(f"GPUs (driver {there.driver})" if there.driver else "GPUs")
        if there.reason:
            self._line(f"none: {there.reason}")
        if there.gpus:
            table = _table("device", "what", "GiB", "UUID")
            for gpu in there.gpus:
                table.add_row(gpu.short_name, _described(gpu), _gib(gpu.memory_mib), gpu.uuid)
                for part in gpu.slices:
                    table.add_row(part.name, part.profile, _gib(part.memory_mib), part.uuid)
            self._table(table)
        for note in there.notes:
            self._line(note, "yellow")

    def _packages(self, packages: Iterable[Package]) -> None:
        """Those that the configuration wants; nobody has to miss the others."""
        wanted = [package for package in packages if package.needed_by]
        if not wanted:
            return
        self._head("Packages for these engines")
        table = _table("package", "version", "for")
        for package in wanted:
            version = Text(package.version) if package.version else Text("missing", "red")
            table.add_row(package.name, version, Text(package.purpose))
        self._table(table)

    def _engines(self, engines: tuple[Engine, ...], models_dir: str) -> None:
        if not engines:
            return
        self._head("Engines")
        table = _table("", "engine", "runs", "models", "state")
        for engine in engines:
            state = Text("ready", "green") if engine.ready else Text("see above", "red")
            table.add_row(
                engine.kind, Text(engine.name), _processes(engine), _models(engine), state
            )
        self._table(table)
        self._line(f"models are kept in {models_dir}", "dim")

    def _plan(self, plan: Plan) -> None:
        if not plan.seats:
            return
        self._head("Placement")
        table = _table("engine", "wanted", "runs on")
        for seat in plan.seats:
            table.add_row(seat.kind, Text(seat.wanted), _place(seat))
        self._table(table)
        for warning in plan.warnings:
            self._line(warning, "yellow")

    def _phones(self, phones: Phones | None) -> None:
        if phones is None:
            return
        self._head("Phones")
        for wire in phones.wires:
            self._line(f"{wire.name}: {wire.audio}; who may call: {wire.who}")
            self._copied(wire.tell)
        for doubt in phones.doubts:
            self._line(doubt, "yellow")

    def _verdict(self, report: Report) -> None:
        problems = report.problems
        if report.running:
            there = f"A server of Antiphon runs at {report.running}: its port is its own."
            self._console.print(there, style="bold", highlight=False)
        if not problems:
            nothing = "Nothing else" if report.running else "Nothing"
            verdict = f"{nothing} is in the way of `voice serve`."
            self._console.print(verdict, style="bold green", highlight=False)
            self._line(_untried(report), "dim")
            return
        count = counted(len(problems), "thing stands", "things stand")
        verdict = f"`voice serve` would not start: {count} in its way."
        self._console.print(verdict, style="bold red", highlight=False)
        for number, problem in enumerate(problems, 1):
            self._line(problem.text, number=f"{number}. ")
            for command in problem.commands:
                self._copied(command)

    def _copied(self, text: str) -> None:
        """Never wrapped: it is there to be copied."""
        self._console.print(f"     {text}", markup=False, highlight=False, soft_wrap=True)

    def _head(self, title: str) -> None:
        self._console.print(f"\n{title}", style="bold", highlight=False)

    def _line(self, line: str, style: str = "", number: str = "") -> None:
        grid = Table.grid()
        grid.add_row(f"  {number}", Text(line, style))
        self._console.print(grid)

    def _table(self, table: Table) -> None:
        self._console.print(Padding(table, (0, 0, 0, 1), expand=False))


def _untried(report: Report) -> str:
    """What a start does and the doctor does not."""
    names = [m.name for engine in report.engines for m in engine.models if m.state == "named"]
    hub = f", nor whether a hub or a server has {' and '.join(names)}" if names else ""
    return f"Not tried: loading the models, and whether they fit into memory{hub}."


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for column in columns:
        table.add_column(
            column, no_wrap=column in ("device", "GiB", "UUID", "package", "version"),
            overflow="fold", justify="right" if column == "GiB" else "left",
        )  # fmt: skip
    return table


def _described(gpu: Gpu) -> str:
    mig = {None: "", False: " (MIG off)", True: " (MIG)"}[gpu.mig]
    return f"{gpu.name}{mig}{', not cut yet' if gpu.mig and not gpu.slices else ''}"


def _gib(mebibytes: int) -> str:
    return f"{mebibytes / 1024:.1f}" if mebibytes else "?"


def _processes(engine: Engine) -> str:
    if engine.kind == "vad" or not engine.places:
        return "in the server"
    shared = sum(map(is_endpoint, engine.places))
    count = len(engine.places) - shared
    words = [counted(count, "process", "processes")] if count else []
    return ", ".join([*words, f"{shared} shared"] if shared else words)


def _models(engine: Engine) -> Text:
    lines = []
    for model in engine.models:
        state, colour = _STATES[model.state]
        lines.append(Text.assemble(f"{model.name} (", (state, colour), ")"))
    return Text("\n").join(lines) if lines else Text("its own", "dim")


def _place(seat: Seat) -> Text:
    if seat.place is None:
        return Text(f"missing: {seat.lack}", "red")
    device = seat.device
    if device is None:
        return Text(seat.place.name)
    kind = device.profile if isinstance(device, Slice) else device.name
    return Text(f"{seat.place.name} ({kind}, {_gib(device.memory_mib)} GiB)")
