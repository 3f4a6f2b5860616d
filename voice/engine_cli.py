"""``voice engine``: one engine in a process that stands alone, for the servers of this machine.

A server that is given the endpoint (``placement.tts = "ipc:///run/antiphon/tts"``) uses it, and
so may several of them. The command line and the configuration are those of ``voice serve``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from typing import cast

import uvloop

from engines.models import ModelStore
from engines.placement import inventory, plan
from engines.remote.endpoints import fault_of
from engines.remote.process import run as serve
from engines.remote.reports import Progress, Ready, Report
from engines.remote.spec import EngineSpec, Kind, Place, ProcessSpec
from voice.app import engine_path
from voice.config import ENGINES, ConfigError, load
from voice.config_options import add_config_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice engine``."""
    parser.add_argument("kind", choices=ENGINES, help="which section of the configuration")
    parser.add_argument("endpoint", help="where it can be found: ipc:// and the path of a socket")
    parser.add_argument(
        "--place", help="where it runs: a MIG profile, a UUID, gpu0 or cpu; as it is, otherwise"
    )
    add_config_options(parser)


def run(parsed: argparse.Namespace) -> int:
    """Serve the engine until a signal ends it. The exit status: 1 where it cannot be used.

    Raises ConfigError, and EngineError where there is no such place.
    """
    if fault := fault_of(parsed.endpoint):
        raise ConfigError(f"{parsed.endpoint}: {fault}")
    config = load(parsed.config, os.environ, parsed.set)
    logging.basicConfig(
        level=config.server.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    section = getattr(config, parsed.kind)
    place = _place(parsed.kind, parsed.place)
    os.environ.update(place.environment)  # before anyone imports what looks for a GPU
    root = str(ModelStore(config.models_path).root)
    engine = EngineSpec(
        cast("Kind", parsed.kind), engine_path(parsed.kind, section.engine), section.options, root
    )
    spec = ProcessSpec(engine, place.name, parsed.endpoint)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(spec, lambda report: _tell(report, spec)))


def _place(kind: str, name: str | None) -> Place:
    if name is None:
        return Place("here")
    [place] = plan({kind: [name]}, inventory()).places[kind]
    return place


def _tell(report: Report, spec: ProcessSpec) -> None:
    if isinstance(report, Ready):
        sys.stdout.write(f"READY {spec.endpoint}\n")
        sys.stdout.flush()
    elif isinstance(report, Progress):
        sys.stdout.write(f"{spec.engine.kind}  {spec.engine.name}  {report.text}\n")
        sys.stdout.flush()
    else:
        sys.stderr.write(f"voice: {report.engine}: {report.message}\n")
