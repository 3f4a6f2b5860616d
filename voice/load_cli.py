"""``voice load``: callers in real time, made of recordings, and what the server made of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from loadtest.command import (
    BROKEN,
    INTERRUPTED,
    INVALID,
    KEPT,
    add_common,
    command_line,
    make_run,
    number,
    options_of,
    speech_of,
    tell_errors,
    tell_start,
    wanted_server,
    whole,
    write,
    write_json,
)
from loadtest.figures import known_names
from loadtest.house import house
from loadtest.page import page
from loadtest.report import Report, report
from loadtest.slo import Limit, check_names, limits
from loadtest.table import callers, print_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice load``."""
    add = parser.add_argument
    add("-n", "--callers", type=whole(1, 100_000), default=4, metavar="N", help="at once (4)")
    seconds = "measured, once all callers are there (60)"
    add("--seconds", type=number(1, 1e6), default=60.0, metavar="S", help=seconds)
    add("--gate", action="store_true", help="exit status 1 where a limit is not kept: for CI")
    add_common(parser)


def run(parsed: argparse.Namespace) -> int:
    """Make the run and tell of it. The exit status: 0; 1 where nothing could be run or, with
    ``--gate``, a limit is not kept; 2 for misuse; 3 where the run is not valid; 130 where it was
    interrupted."""
    return tell_errors("load", lambda: _load(parsed))


def _load(parsed: argparse.Namespace) -> int:
    wanted = limits(parsed.slo)
    check_names(wanted, known_names())
    with speech_of(parsed) as speech, house(wanted_server(parsed), tell_start) as server:
        options = options_of(parsed, server, speech, parsed.callers, parsed.seconds)
        made = make_run(options, callers(parsed.callers))
        told = report(
            made,
            wanted,
            command=command_line(),
            server=server.described,
            scripted=server.scripted,
        )
    _publish(parsed, told)
    return _status(told, wanted if parsed.gate else ())


def _publish(parsed: argparse.Namespace, told: Report) -> None:
    print_report(Console(stderr=parsed.json == "-", highlight=False), told)
    if parsed.html:
        write(parsed.html, page(told))
    if parsed.json:
        write_json(parsed.json, told)


def _status(told: Report, gate: Sequence[Limit]) -> int:
    if told.interrupted:
        return INTERRUPTED
    if not told.valid:
        return INVALID
    return BROKEN if gate and told.breaches else KEPT
