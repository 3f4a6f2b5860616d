"""The ``voice`` command.

A command imports what it needs once it is called for, so that help comes at once, and so that a
key that ends the program finds ``main`` already running.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from voice.config import Config

SPEECH: Final = "speech"
"""The model store's name for the clips that ``voice talk --demo`` plays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    _open_streams()
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # for engines of the user's own; last, so that it hides nothing
    try:
        parsed = _parser(words).parse_args(words)
        return int(parsed.run(parsed))
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    except Exception as error:
        if not _is_told(error):
            raise
        sys.stderr.write(f"voice: {_told(error)}\n")
        return 1


def _open_streams() -> None:
    """Those that are closed. Each takes its own number, the lowest that is free: a file that had it
    would get what libraries print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _is_told(error: Exception) -> bool:
    """Whether this is no bug: a line says it all."""
    from engines.ports import EngineError
    from voice.config import ConfigError
    from voice.journal import JournalError

    return isinstance(error, ConfigError | EngineError | JournalError | OSError)


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    return str(error)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of all commands, and of the options of the one that is the first of ``words``."""
    from importlib.metadata import version

    from voice.parser import Parser

    parser = Parser("voice", description="A real-time voice agent server.")
    parser.add_argument("--version", action="version", version=f"antiphon {version('antiphon')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    called = next((word for word in words if not word.startswith("-")), "")
    for name, (text, complete) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == called:
            complete(command)
    return parser


def _complete_serve(parser: argparse.ArgumentParser) -> None:
    from voice.config_options import add_address_options, add_config_options

    add_config_options(parser)
    add_address_options(parser)
    parser.add_argument(
        "--scripted", action="store_true", help="null engines in place of models, for load tests"
    )
    parser.set_defaults(run=_serve)


def _serve(parsed: argparse.Namespace) -> int:
    import asyncio

    import uvloop

    from voice.server import serve

    config = _config(parsed)
    logging.basicConfig(
        level=config.server.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    for talkative in ("uvicorn.error", "httpx"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(config, _tell))
    return 0


def _config(parsed: argparse.Namespace) -> Config:
    from voice.app import check_engines
    from voice.config import load
    from voice.config_options import address_settings

    return load(
        parsed.config,
        os.environ,
        [*parsed.set, *address_settings(parsed)],
        scripted=parsed.scripted,
        check_engines=check_engines,
    )


def _complete_talk(parser: argparse.ArgumentParser) -> None:
    from clients import talk

    talk.add_arguments(parser)
    parser.set_defaults(run=_talk)


def _talk(parsed: argparse.Namespace) -> int:
    from clients import talk

    return talk.run(parsed, _demo() if parsed.demo and not parsed.files else ())


def _demo() -> list[Path]:
    """A few recordings of the model store."""
    from engines.models import ModelStore

    return sorted(ModelStore(_models_dir()).path(SPEECH).glob("*.wav"))[:3]


def _complete_models(parser: argparse.ArgumentParser) -> None:
    from voice import models_cli

    models_cli.add_arguments(parser, _models_dir())
    parser.set_defaults(run=models_cli.run)


def _complete_by(name: str) -> Callable[[argparse.ArgumentParser], None]:
    """By ``add_arguments`` and ``run`` of the module of this name."""

    def complete(parser: argparse.ArgumentParser) -> None:
        module = import_module(f"voice.{name}")
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)

    return complete


def _models_dir() -> Path | None:
    """Where the environment says that models are kept, as it does to a server."""
    from voice.config import load

    return load(environment=os.environ).models_path


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_COMMANDS: Final[dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "serve": ("take calls", _complete_serve),
    "talk": ("call a server with recordings", _complete_talk),
    "transcribe": ("write down what is said in recordings", _complete_by("transcribe_cli")),
    "say": ("read a text or a book aloud, to a file", _complete_by("say_cli")),
    "index": ("make a folder of documents known to calls", _complete_by("index_cli")),
    "replay": ("show, draw or check the journal of a call", _complete_by("replay_cli")),
    "load": ("call a server with many callers at once, and measure it", _complete_by("load_cli")),
    "capacity": ("find how many callers a server holds", _complete_by("capacity_cli")),
    "models": ("fetch and check models", _complete_models),
    "build": ("make a checkpoint ready for a GPU", _complete_by("build_cli")),
    "engine": ("run one engine for several servers", _complete_by("engine_cli")),
    "doctor": ("what is here, and what the configuration lacks", _complete_by("doctor_cli")),
}

if __name__ == "__main__":
    sys.exit(main())
