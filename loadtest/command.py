"""What ``voice load`` and ``voice capacity`` have in common: options, a run, its report."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.live import Live as Screen

from clients.recordings import RecordingError, check_writable
from engines.models import ModelStore
from engines.ports import EngineError
from loadtest.clips import SpeechError, read_transcripts
from loadtest.habits import Habits
from loadtest.house import House, HouseError, Wanted
from loadtest.load import LoadError, Options, Run, run
from loadtest.slo import DEFAULT, SloError
from loadtest.table import Live
from loadtest.websocket import AddressError
from loadtest.wires import WIRES
from voice.config import load as load_config

KEPT, BROKEN, MISUSED, INVALID, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses; see docs/loadtest.md."""

_TOLD_EVERY_S: Final = 5.0
_SHARES: Final = {
    "barge-ins": "of turns: the caller speaks into the reply",
    "backchannels": "of turns: the caller hums into the reply and means nothing",
    "hang-ups": "of turns: the caller leaves in mid-word and calls again",
    "pauses": "of turns: the caller falls silent in mid-sentence to think",
    "silent": "of callers: they say nothing at all",
    "loss": "of frames: they are never sent",
}


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that both commands have."""
    _add_server(parser.add_argument_group("the server (one is started unless --url names one)"))
    _add_callers(parser.add_argument_group("the callers"))
    shares = parser.add_argument_group("what they do (shares from 0 to 1)")
    for name, text in _SHARES.items():
        default = getattr(Habits(), name.replace("-", "_"))
        told = f"{text} (%(default)g)"
        shares.add_argument(f"--{name}", type=number(0, 1), default=default, help=told, metavar="X")
    out = parser.add_argument_group("the report")
    out.add_argument("--json", metavar="FILE", help="write all figures; - prints them")
    out.add_argument("--html", metavar="FILE", help="write a page with plots")
    usual = f"FIGURE<=NUMBER, over the usual ones: {', '.join(DEFAULT)}; 'none' drops those"
    out.add_argument("--slo", action="append", default=[], metavar="LIMIT", help=usual)


def _add_server(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--url", help="a server that runs: ws://HOST:PORT/v1/realtime")
    add("--api-key", metavar="KEY", help="if it asks for one")
    add("--model", help="handed to it as it is")
    add("--pid", type=whole(1, 2**31), help="its process, to watch CPU and memory")
    add("--config", type=Path, metavar="FILE", help="start one with this TOML file")
    add("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of it")
    add("--scripted", action="store_true", help="null engines in place of models")
    add(
        "--server-core", type=whole(0, 4095), metavar="N", help="its only core; callers keep off it"
    )


def _add_callers(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--speech", type=Path, metavar="DIR", help="recordings and transcripts.json (the store's)")
    add("--hums", type=Path, metavar="DIR", help="the same for --backchannels (embedded voice)")
    arrivals = "over the ramp, or all at once (%(default)s)"
    add("--wire", choices=WIRES, default=WIRES[0], help="how they call (%(default)s)")
    add("--arrivals", choices=("spread", "burst"), default="spread", help=arrivals)
    add("--ramp", type=number(0, 3600), metavar="S", help="all arrive within (N/10, at most 10)")
    add("--processes", type=whole(1, 256), default=1, metavar="N", help="that callers share (1)")
    add(
        "--jitter", type=number(0, 5000), default=0.0, metavar="MS", help="frames late by up to (0)"
    )
    add(
        "--think", type=number(0, 60_000), default=1000.0, metavar="MS", help="between turns (1000)"
    )
    add("--patience", type=number(1, 600), default=10.0, metavar="S", help="for a reply (10)")
    add("--max-tokens", type=whole(1, 100_000), metavar="N", help="of a reply (server's)")
    add("--silence-ms", type=whole(50, 10_000), metavar="MS", help="that ends a turn (server's)")
    add("--seed", type=whole(0, 2**31), default=1, metavar="N", help="of all that is drawn (1)")


def whole(least: int, most: int) -> Callable[[str], int]:
    """An option's type: a whole number between two."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            told = f"{text!r}: give a whole number from {least} to {most}"
            raise argparse.ArgumentTypeError(told)
        return value

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    """An option's type: a number between two."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            told = f"{text!r}: give a number from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(told)
        return value

    return read


def tell_errors(command: str, work: Callable[[], int]) -> int:
    """Do the work, and tell in a line what a person can put right. The exit status."""
    # Whoever ends us is told what there is by then, and a server of ours ends with us; also where
    # keys are ignored, as they are in what a script runs in its background.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return work()
    except SloError as error:
        status, told = MISUSED, str(error)
    except (LoadError, HouseError, SpeechError, AddressError, RecordingError, EngineError) as error:
        status, told = BROKEN, str(error)
    except KeyboardInterrupt:
        status, told = INTERRUPTED, "stopped before there was anything to report"
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.stderr.write(f"voice {command}: {told}\n")
    return status


def wanted_server(parsed: argparse.Namespace, most_calls: int | None = None) -> Wanted:
    """The server that the options name. One that is started for callers by phone waits for them to
    speak."""
    waits = ["phone.greeting="] if parsed.url is None and parsed.wire != WIRES[0] else []
    return Wanted(
        parsed.url,
        parsed.pid,
        parsed.config,
        [*waits, *parsed.set],
        parsed.scripted,
        parsed.server_core,
        most_calls,
    )


@dataclass(frozen=True, slots=True)
class Speech:
    """Folders of recordings: what callers say, and what they hum."""

    clips: Path
    hums: Path | None


@contextmanager
def speech_of(parsed: argparse.Namespace) -> Iterator[Speech]:
    """The recordings, looked at before a server is started for them. Raises SpeechError."""
    check_outputs(parsed)
    models = load_config(environment=os.environ).models_path
    clips = parsed.speech or ModelStore(models).path("speech")
    read_transcripts(clips)
    with tempfile.TemporaryDirectory(prefix="antiphon-load-") as temporary:
        hums = parsed.hums
        if hums is not None:
            read_transcripts(hums)
        elif parsed.backchannels > 0:
            from loadtest.murmurs import write_murmurs

            hums = Path(temporary)
            asyncio.run(write_murmurs(hums))
        yield Speech(clips, hums)


def check_outputs(parsed: argparse.Namespace) -> None:
    """Before anything runs, so that nothing runs in vain. Raises RecordingError."""
    for name in (parsed.json, parsed.html):
        if name and name != "-":
            check_writable(Path(name))


def options_of(
    parsed: argparse.Namespace, server: House, speech: Speech, callers: int, seconds: float
) -> Options:
    """One run, as the options want it."""
    ramp_s = min(callers / 10, 10.0) if parsed.ramp is None else parsed.ramp
    cores = os.sched_getaffinity(0) - {parsed.server_core}
    return Options(
        callers=callers,
        seconds=seconds,
        url=server.url,
        speech=str(speech.clips),
        ramp_s=0.0 if parsed.arrivals == "burst" else ramp_s,
        arrivals=parsed.arrivals,
        wire=parsed.wire,
        processes=parsed.processes,
        habits=Habits(
            barge_ins=parsed.barge_ins,
            backchannels=parsed.backchannels,
            hang_ups=parsed.hang_ups,
            pauses=parsed.pauses,
            silent=parsed.silent,
            loss=parsed.loss,
            jitter_ms=parsed.jitter,
            think_ms=(parsed.think * 0.5, parsed.think * 1.5),
            patience_s=parsed.patience,
        ),
        seed=parsed.seed,
        pid=server.pid,
        api_key=parsed.api_key,
        model=parsed.model,
        silence_ms=parsed.silence_ms,
        max_tokens=parsed.max_tokens,
        backchannels=None if speech.hums is None else str(speech.hums),
        caller_cores=tuple(cores) if parsed.server_core is not None and cores else (),
    )


def tell_start(command: str) -> None:
    """A server may take a while to load its models, which nobody should have to guess."""
    console = Console(stderr=True, highlight=False)
    console.print(f"starting: {command} …", style="dim", markup=False, soft_wrap=True)


def make_run(options: Options, title: str, hopeless: Callable[[Run], str] = lambda _run: "") -> Run:
    """Make a run, and show how it goes: live where a person looks on, else a line now and then.
    It is given up once ``hopeless`` says why."""
    console = Console(stderr=True)
    live = Live(title)
    if not console.is_terminal:
        return asyncio.run(run(options, _Lines(live, console), hopeless))
    with Screen(live, console=console, auto_refresh=False, transient=True) as screen:

        def look(made: Run) -> None:
            live.run = made
            screen.refresh()

        screen.refresh()
        return asyncio.run(run(options, look, hopeless))


class _Lines:
    """Progress where nothing can be drawn over."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._console = console
        self._next_s = _TOLD_EVERY_S

    def __call__(self, made: Run) -> None:
        at_s = made.samples[-1].at_s if made.samples else 0.0
        if at_s >= self._next_s:
            self._next_s += _TOLD_EVERY_S
            self._live.run = made
            self._console.print(self._live, soft_wrap=True)


def command_line() -> str:
    """What was typed, without keys."""
    words = ["voice", *sys.argv[1:]]
    for index, word in enumerate(words):
        if word == "--api-key" and index + 1 < len(words):
            words[index + 1] = "KEY"
        elif word.startswith("--api-key="):
            words[index] = "--api-key=KEY"
    return shlex.join(words)


def write_json(where: str, value: object) -> None:
    """Write all figures; ``-`` prints them. Raises RecordingError."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
    if where == "-":
        sys.stdout.write(text)
    else:
        write(where, text)


def write(where: str, text: str) -> None:
    """Write a file of the report. Raises RecordingError: a disk may be full by now."""
    try:
        Path(where).write_text(text, "utf-8")
    except OSError as error:
        raise RecordingError(f"{where} cannot be written: {error.strerror}.") from error
