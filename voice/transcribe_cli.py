"""``voice transcribe``: recordings to text by the configuration's engines, without a server."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import errno
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
import platformdirs
from rich.console import Console

from engines.diarization.turns import Diarizer
from engines.models import ModelStore
from engines.ports import EngineError
from pipelines.diarization import Speakers
from voice.app import check_engines, make_diarizer, open_hearing
from voice.background import give_way, stopped_by_signals
from voice.config import Config, EngineConfig, load
from voice.config_options import add_config_options
from voice.transcribing.batch import Batch
from voice.transcribing.formats import SUFFIXES, digest
from voice.transcribing.one_file import Asked, Task
from voice.transcribing.progress import Run, shown
from voice.transcribing.report import INTERRUPTED, Deaf, Report
from voice.transcribing.sources import Found, find, name_outputs
from voice.transcribing.unfinished import HIDDEN
from voice.wire.audio_api import TranscriptionForm

KEPT_IN: Final = ".unfinished"
"""In the folder of the output; hidden, so that no later run takes it for recordings."""

_MOST_SPEAKERS: Final = 100

_EPILOG: Final = """\
exit status: 0 every file is whole, 1 some are not (they are listed at the end), 2 misuse,
130 stopped. Ctrl-C keeps what has been heard: the same command with --resume goes on with it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice transcribe``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add = parser.add_argument
    files = "a recording, audio or video, or a folder of them; what a file is, its content tells"
    add("files", nargs="+", type=Path, metavar="FILE|FOLDER", help=files)
    add(
        "--format",
        action="append",
        choices=tuple(SUFFIXES),
        help="of the transcript; may be repeated, with --output (text)",
    )
    out = "write each transcript into this folder; without it, that of one file is printed"
    add("--output", type=Path, metavar="DIR", help=out)
    add("--language", metavar="CODE", help="what is spoken, as en or de (detected, if it can be)")
    words = "the time of each word, in json and verbose_json; subtitles go by them as well"
    add("--words", action="store_true", help=words)
    who = "tell who speaks: in text, srt, vtt and diarized_json"
    add("--diarize", action="store_true", help=who)
    many = "how many speak (found out), for --diarize"
    add("--speakers", type=_count, metavar="N", help=many)
    add("--resume", action="store_true", help="go on where a run of this command was stopped")
    add("--quiet", action="store_true", help="tell of failures only")
    engines = parser.add_argument_group("what hears")
    add = engines.add_argument
    add("--asr", metavar="ENGINE", help="the recogniser, over the configuration's: whisper, …")
    add_config_options(parser)
    parser.set_defaults(misused=parser.error)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_SPEAKERS:
        told = f"{text!r}: give a whole number from 1 to {_MOST_SPEAKERS}"
        raise argparse.ArgumentTypeError(told)
    return int(text)


def run(parsed: argparse.Namespace) -> int:
    """Hear the files. The exit status."""
    wanted = _wanted(parsed)
    give_way()
    console = Console(stderr=True, highlight=False)
    console.file = cast("IO[str]", Deaf(console.file))
    report = Report(console, quiet=wanted.quiet, resume=parsed.resume)
    try:
        with stopped_by_signals():
            asyncio.run(_transcribe(wanted, report))
        return report.finish()
    except KeyboardInterrupt:
        report.stopped()
        return INTERRUPTED


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    files: Sequence[Path]
    output: Path | None
    suffixes: Sequence[str]
    asked: Asked
    config: Config
    quiet: bool


def _wanted(parsed: argparse.Namespace) -> Wanted:
    """Ends the program for what cannot be. Raises ConfigError."""
    forms = list(dict.fromkeys(parsed.format or ["text"]))
    misused: Callable[[str], None] = parsed.misused
    if parsed.output is None and (len(parsed.files) > 1 or os.path.isdir(parsed.files[0])):
        misused("say where the transcripts of several files go: --output DIR")
    if parsed.output is None and len(forms) > 1:
        misused("say where several formats go: --output DIR")
    apart = parsed.diarize or parsed.speakers is not None or "diarized_json" in forms
    config = _config(parsed)
    language = parsed.language or config.agent.language
    words = parsed.words or apart
    asked = Asked(
        [_form(form, language, words=parsed.words, apart=apart) for form in forms],
        _settings(config, language, words=words),
        language,
        words,
        parsed.resume,
        Speakers(parsed.speakers) if apart else None,
    )
    suffixes = [SUFFIXES[form] for form in forms]
    return Wanted(parsed.files, parsed.output, suffixes, asked, config, parsed.quiet)


def _config(parsed: argparse.Namespace) -> Config:
    """Options of the configuration's recogniser are none of another's."""
    config = load(parsed.config, os.environ, parsed.set)
    if parsed.asr is None or parsed.asr == config.asr.engine:
        return config
    own = load(settings=[each for each in parsed.set if each.startswith("asr.")]).asr.options
    return dataclasses.replace(config, asr=EngineConfig(parsed.asr, own))


def _form(form: str, language: str | None, *, words: bool, apart: bool) -> TranscriptionForm:
    return TranscriptionForm(
        "",
        language,
        response_format=cast("Any", form),
        timestamp_granularities=("segment", "word") if words else ("segment",),
        diarize=apart,
    )


def _settings(config: Config, language: str | None, *, words: bool) -> dict[str, str]:
    """What the words depend on, by what people call it."""
    return {
        "recogniser": config.asr.engine,
        "setting of the recogniser": _hidden(config.asr),
        "voice detector": config.vad.engine,
        "setting of the voice detector": _hidden(config.vad),
        "language": language or "any",
        "choice": "--words or --diarize" if words else "neither --words nor --diarize",
    }


def _hidden(engine: EngineConfig) -> str:
    """Options may hold keys."""
    data = msgspec.json.encode(engine.options, order="deterministic")
    return HIDDEN + hashlib.blake2b(data, digest_size=8).hexdigest()


async def _transcribe(wanted: Wanted, report: Report) -> None:
    """Raises ConfigError and EngineError where there is nothing to hear with, OSError where the
    output cannot be."""
    _check_output(wanted.output)
    async with open_hearing(wanted.config) as (vad, asr), _diarizer(wanted) as diarizer:
        with report.while_("looking for recordings"):
            found = await _find(wanted.files)
        kept_in = _kept_in(wanted.output)
        tasks = _tasks(wanted, found, kept_in)
        report.begin(found, tasks, kept_in)
        if not tasks:
            return
        with report.while_(f"loading {wanted.config.asr.engine}"):
            await asr.warm_up()
        if diarizer is not None:
            with report.while_(f"loading {wanted.config.diarization.engine}"):
                await diarizer.warm_up()
        names = [(task.source.shown, task.source.seems_s) for task in tasks]
        with shown(report.console, quiet=wanted.quiet) as show:
            course = Run(names, asyncio.get_running_loop().time, show)
            report.hear()
            batch = Batch(vad, asr, wanted.asked, course, report.ended, diarizer)
            await batch.run(tasks)


@asynccontextmanager
async def _diarizer(wanted: Wanted) -> AsyncIterator[Diarizer | None]:
    """What tells speakers apart, where that is asked for. Raises EngineError where it is not
    there."""
    if wanted.asked.speakers is None:
        yield None
        return
    diarizer = make_diarizer(wanted.config, ModelStore(wanted.config.models_path))
    if diarizer is None:
        told = "there is none (diarization.engine is none): speakers cannot be told apart"
        raise EngineError("diarization", "unavailable", told)
    check_engines(wanted.config, ("diarization",))
    try:
        yield diarizer
    finally:
        await diarizer.close()


async def _find(files: Sequence[Path]) -> Found:
    wanted = True
    try:
        return await asyncio.to_thread(find, files, lambda: wanted)
    finally:
        wanted = False


def _check_output(folder: Path | None) -> None:
    """Raises OSError: nobody wants to be told after hours."""
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is a file: --output wants a folder", folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _kept_in(output: Path | None) -> Path:
    """The folder of what is heard of files that are not whole yet."""
    if output is None:
        return platformdirs.user_cache_path("antiphon") / "unfinished"
    return output / KEPT_IN


def _tasks(wanted: Wanted, found: Found, kept_in: Path) -> list[Task]:
    if wanted.output is None:
        return [
            Task(each, (), kept_in / f"{digest(os.path.realpath(each.path))}.jsonl")
            for each in found.sources
        ]
    names = name_outputs(found.sources, wanted.output, wanted.suffixes)
    return [
        Task(
            source,
            [name.with_name(f"{name.name}{suffix}") for suffix in wanted.suffixes],
            kept_in / f"{digest(str(name.relative_to(wanted.output)))}.jsonl",
        )
        for source, name in zip(found.sources, names, strict=True)
    ]
