"""The options by which a command is told a configuration, as ``voice serve`` is."""

from __future__ import annotations

import argparse
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
