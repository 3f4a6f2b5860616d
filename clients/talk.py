"""``voice talk``: call the server with recordings, in real time, and say how it went.

The recordings are spoken one after the other over a line that stays open, silence in between,
each once the reply to the one before has been heard. All times are the caller's own: from the
last speech sample of a recording (by energy, see ``recordings.speech_end``) to each event's
arrival.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from clients.caller import Caller, Clip, call_up
from clients.realtime import CallError
from clients.recordings import (
    RecordingError,
    check_writable,
    read_recording,
    write_recording,
)
from clients.turns import STAGES

DEFAULT_URL = "ws://127.0.0.1:8080/v1/realtime"
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
FOOTNOTE = (
    "* The last loud one. The server's VAD may have heard the end before, so that speech stopped"
    " can come sooner than the silence that was set."
)


class UsageError(Exception):
    """Options that do not go together. The message says what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``voice talk``; where ``--demo`` is among them, ``run`` wants its clips."""
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="what the caller says: a recording")
    add("--demo", action="store_true", help="speak recordings of the model store")
    address = "the server (%(default)s); HOST:PORT will do"
    add("--url", default=DEFAULT_URL, help=address)
    add("--api-key", metavar="KEY", help="if the server asks for one")
    add("--model", help="handed to the server as it is")
    add("--voice", help="the voice of the replies")
    add("--instructions", metavar="TEXT", help="what the agent is told to be")
    add("--silence-ms", type=int, metavar="MS", help="the silence that ends a turn")
    waiting = "wait so long for a reply, once all is said and heard (%(default)g s)"
    add("--timeout", type=_seconds, default=30.0, metavar="S", help=waiting)
    add("--out", type=Path, metavar="WAV", help="write what the caller heard")
    add("--stereo", action="store_true", help="in --out, the caller left and the agent right")
    add("--json", action="store_true", help="print one JSON object a turn")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait: give seconds, more than 0")
    return seconds


def run(args: argparse.Namespace, demo: Sequence[Path] = ()) -> int:
    """Make the call; ``demo`` are the recordings of ``--demo``. The exit status: 0 if every turn
    was answered, 1 if not, 2 for misuse."""
    try:
        _check(args)
        clips = [Clip(path.name, read_recording(path)) for path in (*args.files, *demo)]
        answered = asyncio.run(_talk(clips, args))
    except (UsageError, RecordingError) as error:
        return _complain(error, MISUSED)
    except CallError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0 if answered else FAILED


def _check(args: argparse.Namespace) -> None:
    """Before the call, so that none is made in vain."""
    if args.files and args.demo:
        raise UsageError("Name recordings, or pass --demo: not both.")
    if not (args.files or args.demo):
        raise UsageError("Nothing to say: name a recording, or pass --demo.")
    if args.stereo and not args.out:
        raise UsageError("--stereo says how to write a recording: say where with --out WAV.")
    if args.out:
        check_writable(args.out)


def _complain(error: Exception, status: int) -> int:
    sys.stderr.write(f"voice talk: {error}\n")
    return status


async def _talk(clips: list[Clip], args: argparse.Namespace) -> bool:
    """Speak all clips. Whether each was answered."""
    failed = 0
    with _progress() as progress:
        async with call_up(args.url, _session(args), args.api_key, args.model) as caller:
            try:
                for clip in clips:
                    turn = await _speak(caller, clip, args.timeout, progress)
                    failed += turn["status"] != "completed" or bool(turn["problems"])
                    _report(turn, as_json=args.json)
            finally:
                if args.out:
                    said, heard = caller.recording()
                    write_recording(args.out, *([said, heard] if args.stereo else [heard]))
    if not args.json:
        Console().print(Text(FOOTNOTE, style="dim"))
    return not failed


async def _speak(
    caller: Caller, clip: Clip, timeout_s: float, progress: Progress
) -> dict[str, Any]:
    bar = progress.add_task(clip.name, total=clip.seconds, doing="speaking")

    def watch(doing: str, seconds: float) -> None:
        progress.update(bar, completed=min(seconds, clip.seconds), doing=doing)

    turn = await caller.speak(clip, timeout_s, watch)
    progress.remove_task(bar)
    return turn.summary(caller.player)


def _session(args: argparse.Namespace) -> dict[str, Any]:
    """The part of a session that the options name."""
    pcm = {"type": "audio/pcm", "rate": 24_000}
    detection: dict[str, Any] = {"type": "server_vad"}
    if args.silence_ms is not None:
        detection["silence_duration_ms"] = args.silence_ms
    heard = {"format": pcm, "turn_detection": detection, "transcription": {"model": "whisper-1"}}
    spoken = {"format": pcm} | ({"voice": args.voice} if args.voice else {})
    told = {"instructions": args.instructions} if args.instructions else {}
    return {"output_modalities": ["audio"], "audio": {"input": heard, "output": spoken}, **told}


# --- what is seen ---------------------------------------------------------------------------


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[doing]:<10}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _report(turn: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(turn, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        return
    console = Console()
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", justify="right")
    words.add_column()
    words.add_row("caller", Text(turn["transcript"] or "(nothing understood)"))
    words.add_row("agent", Text(turn["reply"] or "(no reply)"))
    for problem in turn["problems"]:
        words.add_row("problem", Text(problem, style="red"))
    console.print(Text(turn["file"], style="bold"), words, _timings(turn), sep="\n")


def _timings(turn: dict[str, Any]) -> Table:
    """Milliseconds after the last speech sample, stage by stage, in the order they came."""
    table = Table("ms after the last speech sample*", box=None, header_style="dim", pad_edge=False)
    table.add_column("", justify="right")
    delays = turn["delays_ms"]
    for stage in sorted(STAGES, key=lambda name: (delays[name] is None, delays[name] or 0)):
        table.add_row(stage.replace("_", " "), "–" if delays[stage] is None else f"{delays[stage]}")
    many = "1 gap" if turn["gaps"] == 1 else f"{turn['gaps']} gaps"
    gaps = f", {many} of {turn['gap_ms']} ms in all" if turn["gaps"] else ", no gap"
    table.add_row("audio heard", f"{turn['audio_seconds']:.2f} s{gaps}")
    return table
