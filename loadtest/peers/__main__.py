"""Antiphon beside other frameworks, at the same work: ``python -m loadtest.peers``.

Each serves the same callers on one core with a real Silero VAD and engines that cost nothing and
answer at once with the same words; callers run on the other cores. The first time, the
frameworks are installed into environments of their own (0.5 GB each, minutes). Printed are

- CPU of the server a session and second, by the kernel's accounting;
- *after speech*: from the recording's last sound to the first audio of the answer, at the caller,
  the 200 ms of silence that end a turn included; *overhead*: without them;
- gaps in the audio for a player that holds back 60 ms, turns without an answer, calls lost.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from engines.ports import EngineError
from loadtest.peers.comparison import compare, table
from loadtest.peers.environments import PEERS, PeerError, cache


def main() -> int:
    """Run the comparison; the exit status is 1 where a run was not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.peers", description=(__doc__ or "").partition("\n")[0]
    )
    names = ["antiphon", *(peer.name for peer in PEERS)]
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    cores = sorted(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=cores[0], help="the server's core")
    parser.add_argument("--cache", default=cache(), help="where environments are kept")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.sessions) < 1 or options.seconds <= 0:
        parser.error("--sessions and --seconds begin at 1")
    if options.core not in cores:
        parser.error(f"--core {options.core}: there are {', '.join(map(str, cores))}")
    try:
        runs = compare(options)
    except (PeerError, EngineError, ConnectionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(runs, indent=2) + "\n" if options.json else table(runs))
    return 0 if all(run["valid"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
