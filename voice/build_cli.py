"""``voice build``: from a published checkpoint to the folder that an engine serves."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from engines.build.manifest import Manifest
from engines.build.orpheus import OrpheusBuild, build_orpheus
from engines.build.whisper import WhisperBuild, build_whisper
from engines.extras import how_to_install
from engines.ports import EngineError

_PREFIXES: Final = (("G", 1e9), ("M", 1e6), ("k", 1e3))
_PACKAGES: Final = """
needs the packages of the extra build:
  {how}
"""
_PREREQUISITES: Final = {
    "orpheus": _PACKAGES
    + """
The weights at the hub are given out on conditions: accept them on the model's page there, and set
HF_TOKEN to a token of your account. Reckoned, not measured: about 7 GB are fetched and 4 GB
written (7 GB with --precision bf16); give it 16 GB of memory, of the GPU's with --device cuda. It
takes minutes on a GPU, and hours on a CPU, which is the default.
""",
    "whisper": _PACKAGES
    + """
Reckoned, not measured, for large-v3-turbo: about 2 GB are fetched, and as much is written; give
it 8 GB of memory. It takes minutes, on a CPU, too.
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kinds to the parser of ``voice build``."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for name, what, complete in (
        ("orpheus", "speech: FP8 weights and cache, calibrated", _add_orpheus),
        ("whisper", "recognition: float16, checked", _add_whisper),
    ):
        kind = kinds.add_parser(
            name,
            help=what,
            description=what,
            epilog=_PREREQUISITES[name].format(how=how_to_install("build")),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        complete(kind)


def run(args: argparse.Namespace, console: Console | None = None) -> int:
    """Build what ``args`` asks for. The exit status: 0, or 1 where that was not possible."""
    failures = console or Console(stderr=True)
    # Bound to the real stdout: what ModelOpt prints is taken away, and these lines are not.
    steps = Bars(console or Console(file=sys.stdout))
    options = {name: value for name, value in vars(args).items() if name not in ("kind", "run")}
    try:
        with steps.progress:
            if args.kind == "orpheus":
                manifest = build_orpheus(OrpheusBuild(**options), steps)
            else:
                manifest = build_whisper(WhisperBuild(**options), steps)
    except EngineError as error:
        failures.print(error.message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    steps.say(_summary(manifest, args.out))
    return 0


def _add_orpheus(parser: argparse.ArgumentParser) -> None:
    usual = OrpheusBuild()
    _add_common(parser, usual)
    parser.add_argument(
        "--precision",
        choices=("fp8", "bf16"),
        default=usual.precision,
        help="of the result (default: %(default)s)",
    )
    parser.add_argument(
        "--calibrate",
        type=Path,
        metavar="FILE|DIR",
        help=".txt with a text on each line, or .jsonl with text, voice and recorded audio "
        "tokens (default: sentences of its own, which the model continues)",
    )
    for name, what in (
        ("samples", "sequences to calibrate on"),
        ("frames", "the longest of them, in frames of 85 ms"),
        ("held-out", "other sequences, to compare the result on"),
    ):
        value = getattr(usual, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{what} (default: {value})")


def _add_whisper(parser: argparse.ArgumentParser) -> None:
    _add_common(parser, WhisperBuild())


def _add_common(parser: argparse.ArgumentParser, usual: OrpheusBuild | WhisperBuild) -> None:
    parser.add_argument(
        "--model",
        default=usual.model,
        metavar="NAME|DIR",
        help=f"at the hub, or a folder (default: {usual.model})",
    )
    parser.add_argument(
        "--revision",
        default="",
        help="of the hub's model: a commit, tag or branch (default: the latest)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")
    parser.add_argument("--force", action="store_true", help="replace what is in that folder")
    parser.add_argument(
        "--device",
        default=usual.device,
        help="cpu, cuda or cuda:N (default: cpu)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=usual.seed,
        help="of all lots drawn (default: 0)",
    )
    parser.add_argument(
        "--max-kl",
        type=float,
        default=usual.max_kl,
        metavar="NATS",
        help="how far the result's predictions may be from the source's, in the mean "
        f"(default: {usual.max_kl:g})",
    )
    parser.add_argument(
        "--min-agreement",
        type=float,
        default=usual.min_agreement,
        metavar="SHARE",
        help="how often both must find the same token the likeliest, 0 to 1 "
        f"(default: {usual.min_agreement:g})",
    )


def _summary(manifest: Manifest, out: Path) -> str:
    size = sum(record.size for record in manifest.files.values())
    engine = "[tts] model" if manifest.kind == "orpheus" else "[asr] model"
    return (
        f"built {out}: {manifest.precision}, {_amount(size, 'B')} in {len(manifest.files)} files, "
        f"verified; name the folder as {engine}"
    )


class Bars:
    """Steps as a bar each, with their rate; a line of it stays once the step is over."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            _Rate(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._what, self._unit, self._done, self._began = "", "", 0, 0.0

    def begin(self, what: str, unit: str, total: int) -> None:
        self._what, self._unit, self._done = what, unit, 0
        self._began = time.perf_counter()
        self._task = self.progress.add_task(what, total=total, unit=unit)

    def advance(self, amount: int) -> None:
        self._done += amount
        if self._task is not None:
            self.progress.advance(self._task, amount)

    def end(self) -> None:
        if self._task is not None:
            self.progress.remove_task(self._task)
            self._task = None
        took = time.perf_counter() - self._began
        rate = f", {_amount(self._done / took, self._unit)}/s" if took > 0 else ""
        self.say(f"{self._what}: {_amount(self._done, self._unit)} in {took:.1f} s{rate}")

    def say(self, line: str) -> None:
        self.progress.console.print(line, highlight=False, soft_wrap=True, markup=False)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = task.fields["unit"]
        of_all = f" of {_amount(task.total, unit)}" if task.total else ""
        return Text(f"{_amount(task.completed, unit)}{of_all}, {_amount(task.speed or 0, unit)}/s")


def _amount(number: float, unit: str) -> str:
    if unit != "B":
        return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
    prefix, size = next(((p, s) for p, s in _PREFIXES if number >= s), ("", 1.0))
    return f"{number / size:.1f} {prefix}B" if prefix else f"{number:.0f} B"
