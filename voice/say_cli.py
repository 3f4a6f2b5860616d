"""``voice say``: a text, or a whole book, read aloud to a file."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import math
import os
import shlex
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

import uvloop
from rich.console import Console

from engines.ports import EngineError, Tts
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import Chapter, chapters
from pipelines.narration.pieces import Narration, pieces, size_of
from voice.app import open_speaking
from voice.background import give_way, stopped_by_signals
from voice.config import Config, load
from voice.config_options import add_config_options
from voice.progress import clock
from voice.saying.output import Target, target
from voice.saying.partial import Partial
from voice.saying.progress import Pace, Shown
from voice.saying.run import FileRun, Told, to_stdout
from voice.saying.text import SayError, is_from, text_of

_SLOWEST, _FASTEST = 0.25, 4.0
_INTERRUPTED: Final = 130

DETAILS: Final = """\
examples:
  voice say "Good morning." -o morning.mp3
  voice say book.md -o book.mp3               one file; its chapters are in book.mp3.ffmetadata
  voice say book.md --chapters -o book        book/01-the-beginning.mp3 and so on
  pandoc -t markdown book.epub | voice say - -o book.opus
  fortune | voice say - -o - | ffplay -autoexit -nodisp -

Chapters begin at Markdown headings or at lines such as "Chapter One". What is interrupted goes on
with the same command and --resume, and becomes the same file. RTF is how many seconds of work a
second of speech takes. Lengths of pauses: the section [narration] of the configuration. The exit
status is 0; 1 where it failed; 2 for misuse; 130 where it was interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice say``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = DETAILS
    add = parser.add_argument
    text = "what is to be said: words, a file of plain text or Markdown, or - for standard input"
    add("text", nargs="?", metavar="TEXT|FILE|-", help=text)
    out = "the file, by its name .mp3 .opus .flac .wav .aac or .pcm; - for standard output"
    add("-o", "--out", metavar="OUT", help=out)
    add(
        "--format",
        choices=["mp3", "opus", "flac", "wav", "aac", "pcm"],
        help="where the name tells none (mp3)",
    )
    add("--chapters", action="store_true", help="a file for each chapter, in the folder OUT")
    add("--resume", action="store_true", help="go on where an earlier run was interrupted")
    add("--voice", metavar="NAME", help="one that the engine has (agent.voice)")
    add("--speed", type=_speed, default=1.0, metavar="X", help="from 0.25 to 4 (1)")
    add(
        "--language",
        metavar="TAG",
        help="how numbers and the like are read: en-GB (agent.language)",
    )
    add_config_options(parser)


def run(parsed: argparse.Namespace) -> int:
    """Say it. The exit status: 0; 1 where it failed, 2 for misuse, 130 where it was interrupted.

    Raises ConfigError, and EngineError."""
    try:
        with stopped_by_signals():
            return _say(parsed)
    except SayError as error:
        sys.stderr.write(f"voice say: {error}\n")
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush
        sys.stderr.write("voice say: what reads the sound has ended\n")
        return 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for."""

    config: Config
    narration: Narration
    text: str
    where: Target
    spoken: list[Chapter]
    resume: bool

    @property
    def is_whole(self) -> bool:
        """All files are there, and nothing that is not finished."""
        outputs = self.where.outputs(self.spoken)
        return all(each.path.exists() for each in outputs) and not self.where.partial.exists()


def _say(parsed: argparse.Namespace) -> int:
    wanted = _wanted(parsed)
    give_way()
    console = Console(stderr=True, highlight=False)
    _tell_engines(console)
    if wanted.where.path is None:
        return _stream(wanted, console)
    if wanted.resume and wanted.is_whole:
        told = f"{wanted.where.path}: is whole already; without --resume it is made anew"
        console.print(told, markup=False, soft_wrap=True)
        return 0
    with _partial(wanted, console) as partial:
        return _write(wanted, partial, console)


def _wanted(parsed: argparse.Namespace) -> _Wanted:
    config = load(parsed.config, os.environ, parsed.set)
    where = target(
        parsed.out, parsed.format, by_chapter=parsed.chapters, to_terminal=sys.stdout.isatty()
    )
    if parsed.resume and where.path is None:
        raise SayError("--resume needs a file to go on with: -o speech.mp3", 2)
    narration = Narration(
        parsed.voice or config.agent.voice,
        parsed.speed,
        parsed.language or config.agent.language,
        settings=config.narration,
    )
    text = text_of(parsed.text)
    if where.path and is_from(parsed.text, where.path):
        raise SayError(f"{where.path}: is the text itself: give another name by -o", 2)
    return _Wanted(config, narration, text, where, _spoken(text, narration), parsed.resume)


def _spoken(text: str, narration: Narration) -> list[Chapter]:
    """The chapters that have something to be said."""
    found = [
        chapter
        for chapter in chapters(blocks(text))
        if any(piece.spoken for piece in pieces([chapter], narration))
    ]
    if not found:
        raise SayError("there is nothing to be said: the text has no words, only marks")
    return found


def _stream(wanted: _Wanted, console: Console) -> int:
    async def say(tts: Tts) -> Told:
        shown = Shown(console, Pace(size_of(wanted.spoken)))
        with shown.bar.drawn():
            told = await to_stdout(wanted.spoken, wanted.narration, tts, wanted.where.form, shown)
        _conclude(shown, told, "standard output")
        return told

    try:
        return _status(_run(wanted.config, say), wanted)
    except KeyboardInterrupt:
        console.print("stopped")
        return _INTERRUPTED


def _write(wanted: _Wanted, partial: Partial, console: Console) -> int:
    outputs = wanted.where.outputs(wanted.spoken)

    async def say(tts: Tts) -> Told:
        finished = [output.chapters for output in outputs[: partial.state.outputs]]
        before = sum(map(size_of, finished)) + partial.state.done
        shown = Shown(console, Pace(size_of(wanted.spoken), before))
        with shown.bar.drawn():
            told = await FileRun(wanted.narration, wanted.where.form, partial, shown).say(
                outputs, tts
            )
        _conclude(shown, told, str(wanted.where.path))
        return told

    told = _run(wanted.config, say)
    partial.remove()
    return _status(told, wanted)


def _run(config: Config, say: Callable[[Tts], Awaitable[Told]]) -> Told:
    async def work() -> Told:
        async with open_speaking(config) as tts:
            await tts.warm_up()
            return await say(tts)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())


def _status(told: Told, wanted: _Wanted) -> int:
    if told.files:
        return 0
    name = wanted.config.tts.engine
    raise SayError(f"the voice ({name}) has no sound for any of it: has it another language?")


@contextmanager
def _partial(wanted: _Wanted, console: Console) -> Iterator[Partial]:
    """What is kept of an unfinished run; who is told of it, if the run ends before it has."""
    folder = wanted.where.partial
    try:
        partial = Partial(folder, _identity(wanted), resume=wanted.resume)
    except OSError as error:
        raise _unwritable(wanted, error) from error
    try:
        yield partial
    except KeyboardInterrupt:
        console.print("stopped.", _how_to_go_on(partial), markup=False, soft_wrap=True)
        raise SystemExit(_INTERRUPTED) from None
    except OSError as error:
        raise _unwritable(wanted, error, _how_to_go_on(partial)) from error
    except EngineError as error:
        raise SayError(f"{error}. {_how_to_go_on(partial)}".rstrip()) from error
    finally:
        partial.leave()


def _unwritable(wanted: _Wanted, error: OSError, hint: str = "") -> SayError:
    why = error.strerror or str(error)
    return SayError(f"{wanted.where.path}: cannot be written: {why}. {hint}".rstrip())


def _how_to_go_on(partial: Partial) -> str:
    if not partial.begun:
        return ""
    words = ["voice", *sys.argv[1:]]
    command = shlex.join(words if "--resume" in words else [*words, "--resume"])
    return f"What there is, is kept in {partial.folder}; this goes on with it: {command}"


def _identity(wanted: _Wanted) -> dict[str, str]:
    """What a resumed run must have the same, by the names that people have for it."""
    narration, tts = wanted.narration, wanted.config.tts
    options = {name: value for name, value in tts.options.items() if name != "api_key"}
    return {
        "text": _digest(wanted.text),
        "voice": str(narration.voice),
        "speed": str(narration.speed),
        "language": str(narration.language),
        "engine": f"{tts.engine} {_digest(json.dumps(options, sort_keys=True, default=str))}",
        "[narration]": _digest(json.dumps(asdict(narration.settings))),
        "--chapters": str(wanted.where.by_chapter),
        "format": wanted.where.form,
        "version of antiphon": version("antiphon"),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _conclude(shown: Shown, told: Told, name: str) -> None:
    pace = shown.pace
    if not told.files:
        return
    files = f"{told.files} files in {name}" if told.files > 1 else name
    took = f"{clock(pace.sound_ms / 1000)} of speech in {pace.took_s:.1f} s"
    shown.tell(f"{files}: {took}" + (f", {pace.rate}" if pace.factor else ""))
    if told.marks:
        shown.tell(f"{told.marks}: where its chapters begin, for ffmpeg -i ... -map_metadata 1")
    if told.silent:
        first = textwrap.shorten(told.first_silent, 60)
        shown.tell(f"{told.silent} phrases have no sound in this voice, the first: {first}")


def _tell_engines(console: Console) -> None:
    """What an engine has to say, for people: that it has one voice only, say."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(record.getMessage(), markup=False, soft_wrap=True)

    logging.basicConfig(level=logging.WARNING, handlers=[Lines()], force=True)
    logging.getLogger("engines.tts").setLevel(logging.INFO)


def _speed(word: str) -> float:
    try:
        speed = float(word)
    except ValueError:
        speed = math.nan
    if not _SLOWEST <= speed <= _FASTEST:
        raise argparse.ArgumentTypeError(f"must be a number from {_SLOWEST} to {_FASTEST:g}")
    return speed
