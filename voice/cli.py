"""The ``voice`` command."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import uvloop

from clients import talk
from engines.models import ModelStore
from engines.ports import EngineError
from voice import models_cli
from voice.config import Config, ConfigError, load
from voice.server import serve

SPEECH: Final = "speech"
"""The model store's name for the clips that ``voice talk --demo`` plays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except (ConfigError, EngineError, OSError) as error:
        sys.stderr.write(f"voice: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("voice", description="A real-time voice agent server.")
    parser.add_argument("--version", action="version", version=f"antiphon {version('antiphon')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "serve", "take calls", _add_serve_arguments, _serve)
    _add(commands, "talk", "call a server with recordings", talk.add_arguments, _talk)
    _add(commands, "models", "fetch and check models", models_cli.add_arguments, models_cli.run)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
) -> None:
    parser = commands.add_parser(name, help=text, description=text)
    add_arguments(parser)
    parser.set_defaults(run=run)


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file")
    parser.add_argument("--host", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen at (8080); 0 for any")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="one setting, over the file and the environment; may be repeated",
    )
    parser.add_argument(
        "--scripted", action="store_true", help="null engines in place of models, for load tests"
    )


def _serve(parsed: argparse.Namespace) -> int:
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
    flags = [f"server.{name}={getattr(parsed, name)}" for name in ("host", "port")]
    given = [flag for flag in flags if not flag.endswith("=None")]
    return load(parsed.config, os.environ, [*parsed.set, *given], scripted=parsed.scripted)


def _talk(parsed: argparse.Namespace) -> int:
    if getattr(parsed, "demo", False):
        parsed.files = sorted(map(str, ModelStore().path(SPEECH).glob("*.wav")))[:3]
    return talk.run(parsed)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
