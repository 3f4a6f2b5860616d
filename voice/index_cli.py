"""``voice index``: a folder of documents as what calls may look up."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from pipelines.memory.documents import SUFFIXES, DocumentError
from pipelines.memory.indexing import Outcome, bring_up_to_date
from voice.app import open_embedding
from voice.background import give_way, stopped_by_signals
from voice.config import Config, load
from voice.config_options import add_config_options
from voice.progress import Bar, clock, counted

SUFFIX: Final = ".index"
STOPPED: Final = 130

_EVERY_S: Final = 10.0
_EPILOG: Final = """\
Read are {suffixes}.
What has not changed since the last time is not read again, and what has gone is taken out; a
server that uses the index takes it up by itself.
exit status: 0 all is in, 1 some documents are not (they are listed), 130 stopped. Ctrl-C leaves the
index as it was, and keeps what is done for the next time.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice index``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG.format(suffixes=" ".join(SUFFIXES))
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the documents, in folders or not")
    out = "the index (the folder's name with .index, here)"
    add("-o", "--output", type=Path, metavar="FILE", help=out)
    add("--quiet", action="store_true", help="tell of failures only")
    add_config_options(parser)


def run(parsed: argparse.Namespace, console: Console | None = None) -> int:
    """Index the folder. The exit status. ``console``: of a caller who has other things to do in
    this process, which stays as urgent as it is. Raises ConfigError, and EngineError."""
    config = load(parsed.config, os.environ, parsed.set)
    path = parsed.output or Path(f"{parsed.folder.resolve().name or 'documents'}{SUFFIX}")
    if console is None:
        console = Console(stderr=True, highlight=False)
        give_way()
    try:
        with stopped_by_signals():
            outcome = asyncio.run(_index(parsed.folder, path, config, console, quiet=parsed.quiet))
    except KeyboardInterrupt:
        kept = "the index is as it was, and what is done is kept: run it again to go on"
        console.print(f"stopped: {kept}", markup=False)
        return STOPPED
    except DocumentError as error:
        console.print(f"voice: {error}", markup=False, soft_wrap=True)
        return 1
    _conclude(console, path, outcome, quiet=parsed.quiet)
    return 1 if outcome.failed else 0


async def _index(
    folder: Path, path: Path, config: Config, console: Console, *, quiet: bool
) -> Outcome:
    shown = Shown(console, draws=not quiet and console.is_terminal, tells=not quiet)
    async with open_embedding(config) as embedder:
        with shown.bar.drawn():
            return await bring_up_to_date(folder, path, embedder, shown)


class Shown:
    """How far it is: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, *, draws: bool, tells: bool) -> None:
        self._console = console
        self.bar = Bar(console, draws=draws)
        self.bar.title("reading")
        self._tells = tells
        self._size = self._done = self._passages = 0
        self._began = self._told_at = time.monotonic()

    def begin(self, documents: int, size: int) -> None:
        """See ``pipelines.memory.indexing``."""
        self._size = size
        self._began = self._told_at = time.monotonic()
        self.bar.title(counted(documents, "document"))

    def advance(self, size: int, passages: int) -> None:
        """See ``pipelines.memory.indexing``."""
        self._done += size
        self._passages += passages
        now = time.monotonic()
        told = self.words(now)
        self.bar.show(self._share, told)
        if self._tells and not self.bar.draws and now - self._told_at >= _EVERY_S:
            self._told_at = now
            self._console.print(told, markup=False)

    @property
    def _share(self) -> float:
        return self._done / self._size if self._size else 1.0

    def words(self, now: float) -> str:
        """``20 %, 1200 passages, 110 a second, 1:05 left``."""
        share = self._share
        told = [f"{100 * share:.0f} %", f"{self._passages} passages"]
        took_s = now - self._began
        if took_s > 0 and self._passages:
            told.append(f"{self._passages / took_s:.0f} a second")
        if took_s > 0 and 0 < share < 1:
            told.append(f"{clock(took_s * (1 - share) / share)} left")
        return ", ".join(told)


def _conclude(console: Console, path: Path, outcome: Outcome, *, quiet: bool) -> None:
    for source, reason in outcome.failed.items():
        console.print(f"[red]{escape(source)}[/red]: {escape(reason)}", soft_wrap=True)
    if quiet:
        return
    if outcome.anew:
        console.print(f"made anew: {outcome.anew}", markup=False, soft_wrap=True)
    if outcome.ignored:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(outcome.ignored.items()))
        console.print(f"left out, not read here: {kinds}", markup=False, soft_wrap=True)
    told = ", ".join(
        f"{getattr(outcome, name)} {name}" for name in ("added", "changed", "unchanged", "removed")
    )
    rate = f", {outcome.embedded / outcome.seconds:.0f} a second" if outcome.embedded else ""
    console.print(
        f"{path}: {counted(outcome.documents, 'document')} ({told}),"
        f" {counted(outcome.passages, 'passage')},"
        f" {outcome.embedded} of them embedded in {outcome.seconds:.1f} s{rate}",
        markup=False,
        soft_wrap=True,
    )
