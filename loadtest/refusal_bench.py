"""What it is like to be refused, and what the refused cost those who are in.

    python -m loadtest.refusal_bench --calls 64

Starts ``voice serve --scripted`` on one core, which admits as many calls as there are callers, and
calls it from another. Then as many others try to get in, all the time: first spread over a second,
each coming again a second later; then all at once, each second. Printed are

- *answer*: from the first byte of the way to the server (the TCP connection is part of it) to the
  whole HTTP 503;
- *overhead* of the calls that are in, as ``server_bench`` measures it, without and with the others;
- gaps in the audio of the calls that are in.

A run whose own sending is more than 10 ms late at p99 is marked as not valid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import uvloop

from loadtest.caller import FRAME_MS, Caller
from loadtest.server_bench import clip, connect, gaps_of, make_program, overheads_of
from loadtest.server_process import Server

AGAIN_S: Final = 1.0
"""Refused callers come back this soon, which is sooner than they are told."""

_HANDSHAKE: Final = (
    b"GET /v1/realtime?model=load HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: YW50aXBob24gbG9hZHRlcw==\r\n\r\n"
)


def main() -> int:
    """Run the benchmark; the exit status is that of its validity."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=64, help="calls that are admitted")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each of three parts")
    parser.add_argument("--server-core", type=int, default=0)
    options = parser.parse_args()
    arguments = ["--scripted", "--set", f"admission.max_calls={options.calls}"]
    with Server(arguments, options.server_core) as server:
        if (os.cpu_count() or 1) > 1:
            os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {options.server_core})
        program, decisions = make_program(clip())
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(measure(server, program, decisions, options))
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    return 0 if figures["valid"] else 1


@dataclass(slots=True)
class Answers:
    """What the refused were told: after how many ms, and by which status."""

    ms: list[float] = field(default_factory=list)
    statuses: list[bytes] = field(default_factory=list)


class Refused(asyncio.Protocol):
    """One attempt to get in; ``began`` is when it set out, in loop seconds."""

    def __init__(self, answers: Answers, began: float) -> None:
        self._answers = answers
        self._began = began
        self._got = bytearray()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(_HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        self._got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._answers.ms.append(1000 * (self._loop.time() - self._began))
        self._answers.statuses.append(b"lost" if exc else bytes(self._got[9:12]))


async def measure(
    server: Server, program: list[bytes], decisions: list[float], options: argparse.Namespace
) -> dict[str, Any]:
    """All figures of one run."""
    loop, calls = asyncio.get_running_loop(), options.calls
    callers = await connect(server, program, calls)
    turn_s = len(program) * FRAME_MS / 1000
    for index, caller in enumerate(callers):
        caller.start(loop.time() + turn_s * index / calls)
    await asyncio.sleep(2 * turn_s)
    figures: dict[str, Any] = {"calls": calls}
    for name, gap_s in (("alone", None), ("spread", AGAIN_S / calls), ("burst", 0.0)):
        began, answers = loop.time(), Answers()
        if gap_s is None:
            await asyncio.sleep(options.seconds)
        else:
            await _attempt(server.port, answers, calls, gap_s, began + options.seconds)
        figures[name] = _part(callers, decisions, answers, began, loop.time() - began)
    late_ms = [1000 * late for caller in callers for late in caller.heard.late_s]
    figures["sender_late_ms_p99"] = round(float(np.percentile(late_ms, 99)), 2)
    figures["valid"] = figures["sender_late_ms_p99"] <= 10.0
    for caller in callers:
        caller.hang_up()
    return figures


async def _attempt(port: int, answers: Answers, count: int, gap_s: float, until: float) -> None:
    """So many callers, each of whom tries again every second; ``gap_s`` lies between two."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        while (began := loop.time()) < until:
            for index in range(count):
                tasks.create_task(_try(port, answers, began + gap_s * index))
            await asyncio.sleep(began + AGAIN_S - loop.time())


async def _try(port: int, answers: Answers, at: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(at - loop.time())
    began = loop.time()
    await loop.create_connection(lambda: Refused(answers, began), "127.0.0.1", port)


def _part(
    callers: Sequence[Caller],
    decisions: Sequence[float],
    answers: Answers,
    began: float,
    elapsed: float,
) -> dict[str, Any]:
    overheads = [ms for caller in callers for ms in overheads_of(caller, decisions, began, elapsed)]
    if not overheads:
        raise SystemExit("no turn was answered in the measured time: give it more --seconds")
    statuses = [status.decode() for status in answers.statuses]
    return {
        "turns": len(overheads),
        "overhead_ms": _percentiles(overheads),
        "answers": {status: statuses.count(status) for status in sorted(set(statuses))},
        "answer_ms": _percentiles(answers.ms) if answers.ms else {},
        "gaps_so_far": sum(gaps_of(caller) for caller in callers),
        "lost": sum(caller.heard.lost for caller in callers),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    points = {f"p{p}": float(np.percentile(values, p)) for p in (50, 95, 99)}
    return {name: round(value, 1) for name, value in (points | {"max": max(values)}).items()}


if __name__ == "__main__":
    sys.exit(main())
