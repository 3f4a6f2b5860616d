"""``voice replay FILE``: a call's journal, told on the terminal, drawn as a page, or checked."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from pipelines.conversation.events import Command
from voice.journal import Recorded, read
from voice.replay import Difference, Kind, Line, differences, in_full, lines
from voice.timeline import page

_FIRST: Final = 5
"""Differences that are shown: what follows the first few follows from them."""

_STYLES: Final[dict[Kind, str]] = {
    "caller": "cyan",
    "agent": "magenta",
    "event": "",
    "command": "bold yellow",
    "stage": "blue",
    "trouble": "bold red",
}
_TIME, _TITLE = 10, 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice replay``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a journal; see journal.dir")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write a timeline as a page")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail where the turn machine decides otherwise than it did",
    )


def run(parsed: argparse.Namespace, console: Console | None = None) -> int:
    """Replay a journal. The exit status: 1 where it was to be checked, and something differs.

    Raises JournalError, and OSError.
    """
    console = console or Console(highlight=False)
    recorded = read(parsed.file)
    differ = list(differences(recorded))
    if parsed.html is not None:
        parsed.html.write_text(page(recorded, differ), "utf-8")
        console.print(f"{parsed.html}: open it in a browser", markup=False, soft_wrap=True)
    if not (parsed.html or parsed.check):
        _tell(console, recorded, differ)
    _conclude(console, recorded, differ)
    return 1 if parsed.check and differ else 0


def _tell(console: Console, recorded: Recorded, differ: Sequence[Difference]) -> None:
    header = recorded.header
    console.print(Text(f"Call {header.call}", "bold"))
    began = f"{header.began:%Y-%m-%d %H:%M:%S} UTC, the caller at {header.rate} Hz"
    console.print(Text(f"{began}; times are minutes and seconds since then\n", "dim"))
    for line in lines(recorded, differ):
        console.print(_row(line, console.width))


def _row(line: Line, width: int) -> Text:
    title = f"→ {line.title}" if line.kind == "command" else line.title
    row = Text(f"{_clock(line.at_ms):>{_TIME}}  ", "dim")
    row.append(f"{title:<{_TITLE}}", _STYLES[line.kind])
    indent = _TIME + 2 + _TITLE + 1
    detail = textwrap.wrap(line.detail, max(20, width - indent)) or [""]
    row.append(" " + ("\n" + " " * indent).join(detail), "not dim")
    return row


def _clock(milliseconds: float) -> str:
    minutes, rest = divmod(max(0, round(milliseconds)), 60_000)
    return f"{minutes}:{rest / 1000:06.3f}"


def _conclude(console: Console, recorded: Recorded, differ: Sequence[Difference]) -> None:
    steps = sum(1 for _ in recorded.steps)
    if not recorded.whole:
        console.print(Text("The last line is cut off, and was left out.", "yellow"))
    if not recorded.closed:
        console.print(
            Text("The journal ends before the call did: it goes on, or broke off.", "yellow")
        )
    if not differ:
        told = f"Replayed {steps} steps: the turn machine decides as it did."
        console.print(Text(told, "green"))
        return
    told = f"Replayed {steps} steps: {len(differ)} differ. The first of them:"
    console.print(Text(told, "bold red"))
    for difference in islice(differ, _FIRST):
        _explain(console, recorded, difference)


def _explain(console: Console, recorded: Recorded, difference: Difference) -> None:
    step = difference.step
    at = _clock(step.now - recorded.header.clock_ms)
    console.print(Text(f"\nstep {difference.number} at {at}: {in_full(step.event)}"))
    console.print(Text(f"  then  {_all(step.commands)}"))
    console.print(Text(f"  now   {difference.error or _all(difference.commands)}", "red"))


def _all(commands: Sequence[Command]) -> str:
    return "; ".join(map(in_full, commands)) or "nothing"
