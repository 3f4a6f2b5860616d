"""The options by which a command is told a configuration, as ``voice serve`` is."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """``--config FILE`` and ``--set SECTION.KEY=VALUE``: ``parsed.config`` and ``parsed.set`` are
    for ``voice.config.load``."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="one setting, over the file and the environment; may be repeated",
    )


def add_address_options(parser: argparse.ArgumentParser) -> None:
    """``--host`` and ``--port``, for ``address_settings``."""
    parser.add_argument("--host", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen at (8080); 0 for any")


def address_settings(parsed: argparse.Namespace) -> Iterable[str]:
    """``--host`` and ``--port``, where they are given, as ``--set`` has them."""
    given = ((name, getattr(parsed, name)) for name in ("host", "port"))
    return [f"server.{name}={value}" for name, value in given if value is not None]
