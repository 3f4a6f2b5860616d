"""``voice capacity``: how many callers a server holds, found, confirmed and written down."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from clients.recordings import check_writable
from loadtest.capacity import Capacity, check, find, toml
from loadtest.capacity_page import capacity_page, print_capacity, print_try
from loadtest.command import (
    BROKEN,
    INTERRUPTED,
    INVALID,
    KEPT,
    Speech,
    add_common,
    command_line,
    make_run,
    number,
    options_of,
    speech_of,
    tell_errors,
    wanted_server,
    whole,
    write,
    write_json,
)
from loadtest.figures import known_names
from loadtest.house import house, most_calls_setting
from loadtest.report import Report, broken_for_good, report
from loadtest.slo import check_names, limits
from loadtest.table import callers as in_words

_BARGE_INS = 0.2
"""More than in a load test, so that short runs have some."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``voice capacity``."""
    parser.description = (
        "Find how many callers a server holds, confirm it, and write it down. As it is set this"
        " takes 5 to 10 minutes: 7 to 12 tries of --seconds, each after up to 10 s in which the"
        " callers arrive, and one or more of --confirm. --gate N takes one of --confirm alone."
    )
    add = parser.add_argument
    gate = "do not search: whether N callers are held, by the exit status"
    add("--gate", type=whole(1, 100_000), metavar="N", help=gate)
    add("--first", type=whole(1, 100_000), default=4, metavar="N", help="callers to try first (4)")
    add("--most", type=whole(1, 100_000), default=512, metavar="N", help="to try at most (512)")
    add("--seconds", type=number(2, 1e6), default=20.0, metavar="S", help="each try (20)")
    add("--confirm", type=number(2, 1e6), default=60.0, metavar="S", help="the last one (60)")
    add("--out", default="capacity.toml", metavar="FILE", help="what is written (%(default)s)")
    add_common(parser)
    parser.set_defaults(barge_ins=_BARGE_INS)


def run(parsed: argparse.Namespace) -> int:
    """Search, or check. The exit status: 0; 1 where nothing could be run, or the limits are not
    kept (by N callers, or by a single one); 2 for misuse; 3 where the callers were too slow to
    tell; 130 where it was interrupted."""
    return tell_errors("capacity", lambda: _capacity(parsed))


def _capacity(parsed: argparse.Namespace) -> int:
    check_names(limits(parsed.slo), known_names())
    if parsed.gate is None:
        check_writable(Path(parsed.out))
    console = Console(stderr=parsed.json == "-", highlight=False)
    with speech_of(parsed) as speech:

        def attempt(callers: int, confirming: bool) -> Report:
            return _attempt(parsed, speech, callers, confirming=confirming)

        tell = partial(print_try, console)
        if parsed.gate is not None:
            found = check(parsed.gate, attempt, tell)
        else:
            found = find(parsed.first, parsed.most, attempt, tell)
    print_capacity(console, found)
    _write(parsed, found, console)
    return _status(found)


def _attempt(
    parsed: argparse.Namespace, speech: Speech, callers: int, *, confirming: bool
) -> Report:
    """One run, against a server of its own where none is named."""
    seconds = parsed.confirm if confirming else parsed.seconds
    wanted, title = limits(parsed.slo), "confirming" if confirming else "trying"
    with house(wanted_server(parsed, most_calls=callers)) as server:
        options = options_of(parsed, server, speech, callers, seconds)
        return report(
            make_run(options, f"{title} {in_words(callers)}", partial(broken_for_good, wanted)),
            wanted,
            command=command_line(),
            server=server.described,
            scripted=server.scripted,
        )


def _write(parsed: argparse.Namespace, found: Capacity, console: Console) -> None:
    """What it was all for first."""
    if parsed.gate is None and found.confirmed is not None:
        write(parsed.out, toml(found, most_calls_setting(), parsed.out))
        told = f'{parsed.out}: written; a configuration takes it by include = ["{parsed.out}"]'
        console.print(told, markup=False, soft_wrap=True)
    if parsed.html:
        write(parsed.html, capacity_page(found))
    if parsed.json:
        write_json(parsed.json, found)


def _status(found: Capacity) -> int:
    if found.interrupted:
        return INTERRUPTED
    if found.callers:
        return KEPT
    return BROKEN if all(made.report.valid for made in found.tries) else INVALID
