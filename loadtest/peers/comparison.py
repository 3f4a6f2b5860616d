"""The runs of the comparison, and their table."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop

from engines.audio import Samples
from engines.models import ModelStore
from engines.vad import silero
from engines.vad.ears import levels_db
from loadtest.peers.calling import Caller, PlainWire, Program, RealtimeWire, Wire
from loadtest.peers.environments import PEERS, Bot, command_of, make
from loadtest.peers.script import IN_RATE, SILENCE_S
from loadtest.speech import recordings
from pipelines.conversation.endpoint import Border, Endpointer, EndpointSettings

ANSWER_S: Final = 3.0
REST_S: Final = 1.5
"""Silence behind an answer, before the next turn."""

LATEST_MS: Final = 10.0
"""A caller whose messages are later than this (p99) measures itself."""

_WINDOW: Final = 512


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is measured: how it is started, and how it is called."""

    name: str
    version: str
    command: tuple[str, ...]
    variables: dict[str, str] | None
    wire: Wire


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs, one after the other. Raises PeerError."""
    program = make_program()
    candidates = [_candidate(name, Path(options.cache)) for name in options.only]
    runs = []
    for sessions in options.sessions:
        for candidate in candidates:
            sys.stderr.write(f"{candidate.name}: {sessions} sessions …\n")
            with _elsewhere(options.core):
                figures = _run(candidate, program, sessions, options)
            named = {"server": f"{candidate.name} {candidate.version}", "sessions": sessions}
            runs.append(named | figures)
    return runs


def _run(
    candidate: Candidate, program: Program, sessions: int, options: argparse.Namespace
) -> dict[str, Any]:
    with (
        Bot(candidate.command, candidate.variables, options.core) as bot,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(measure(bot, candidate.wire, program, sessions, options.seconds))


def _candidate(name: str, root: Path) -> Candidate:
    for peer in PEERS:
        if peer.name == name:
            command, variables = command_of(peer, make(peer, root))
            return Candidate(name, peer.version, tuple(command), dict(variables), PlainWire())
    serve = (sys.executable, "-m", "voice.cli", "serve", "--scripted", "--port", "0")
    quiet = ("--set", "server.log_level=warning")
    return Candidate(name, "", (*serve, *quiet), None, RealtimeWire())


@contextmanager
def _elsewhere(core: int) -> Iterator[None]:
    """Callers share no core with the server, where there are two."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {core} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def make_program() -> Program:
    """The first of the store's recordings that is one turn for the VAD, and time to answer it."""
    for recording in recordings(ModelStore().path("speech")):
        samples = recording.pcm.samples
        last = last_sound(samples)
        quiet = np.zeros(round(IN_RATE * (ANSWER_S + REST_S)), np.int16)
        turn = np.concatenate([samples[:last], quiet])
        whole = len(turn) // (5 * _WINDOW) * 5 * _WINDOW  # windows and frames of 20 ms alike
        program = Program(turn[:whole], last / IN_RATE)
        if turns_in(program.samples) == 1:
            return program
    raise SystemExit("none of the recordings is one turn: see `voice models pull speech`")


def last_sound(samples: Samples) -> int:
    """Where the last 10 ms end that are within 25 dB of the loudest, at 16 kHz."""
    size = IN_RATE // 100
    blocks = samples[: len(samples) // size * size].astype(np.float64).reshape(-1, size)
    powers = np.square(blocks).mean(axis=1)
    return size * (int(np.flatnonzero(powers > powers.max() / 10**2.5)[-1]) + 1)


def turns_in(samples: Samples) -> int:
    """How many turns the VAD finds in audio at 16 kHz."""
    vad = silero.create(silero.Options(), ModelStore())
    endpointer = Endpointer(EndpointSettings(silence_ms=round(1000 * SILENCE_S)))
    slots, found = np.array([vad.open()]), 0
    for at in range(0, len(samples) - _WINDOW + 1, _WINDOW):
        window = samples[None, at : at + _WINDOW].astype(np.float32) / np.float32(32_768)
        border = endpointer.hear(float(vad.step(slots, window)[0]), levels_db(window)[0])
        found += border is Border.STOPPED
    return found


async def measure(
    bot: Bot, wire: Wire, program: Program, sessions: int, seconds: float
) -> dict[str, Any]:
    """All figures of one run."""
    loop = asyncio.get_running_loop()
    messages = program.messages(wire)
    callers = [await _call(bot.port, wire, messages) for _ in range(sessions)]
    began = loop.time() + 0.1
    for index, caller in enumerate(callers):
        caller.start(began + program.seconds * index / sessions)
    await asyncio.sleep(program.seconds + 0.1)  # all of them speak, and the process is warm
    before, cpu_s = loop.time(), bot.cpu_s
    await asyncio.sleep(max(seconds, 2 * program.seconds))
    elapsed, cpu_s = loop.time() - before, bot.cpu_s - cpu_s
    memory_mb, until = bot.rss_mb, loop.time()
    lost = sum(caller.heard.lost for caller in callers)
    for caller in callers:
        caller.hang_up()
    return {
        **_waits(callers, program, until),
        "cpu_ms_per_session_second": round(1000 * cpu_s / elapsed / sessions, 2),
        "core_share": round(cpu_s / elapsed, 3),
        "memory_mb": round(memory_mb, 1),
        "gaps": sum(caller.heard.gaps() for caller in callers),
        "lost": lost,
        **_lateness(callers),
    }


async def _call(port: int, wire: Wire, messages: list[bytes]) -> Caller:
    loop = asyncio.get_running_loop()
    _, caller = await loop.create_connection(
        lambda: Caller(wire, messages, port), "127.0.0.1", port
    )
    await asyncio.wait_for(caller.opened, 20)
    return caller


def _waits(callers: Sequence[Caller], program: Program, until: float) -> dict[str, Any]:
    waits = [
        wait for caller in callers for wait in caller.heard.answers(caller.began, program, until)
    ]
    known = [1000 * wait for wait in waits if wait is not None]
    after = {f"p{p}": round(float(np.percentile(known, p)), 1) for p in (50, 95)} if known else {}
    over = {name: round(value - 1000 * SILENCE_S, 1) for name, value in after.items()}
    return {
        "turns": len(waits),
        "unanswered": len(waits) - len(known),
        "after_speech_ms": after,
        "overhead_ms": over,
    }


def _lateness(callers: Sequence[Caller]) -> dict[str, Any]:
    late_ms = 1000 * np.percentile([late for each in callers for late in each.heard.late_s], 99)
    return {
        "sender_late_ms_p99": round(float(late_ms), 2),
        "valid": bool(late_ms <= LATEST_MS),
    }


def table(runs: Sequence[dict[str, Any]]) -> str:
    """The runs for a person, as a table in Markdown."""
    head = (
        "| sessions | server | CPU ms a session-second | overhead p50 / p95 ms"
        " | after speech p50 / p95 ms | gaps | unanswered | lost | memory MB |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(map(_row, runs))


def _row(run: dict[str, Any]) -> str:
    def pair(shares: dict[str, float]) -> str:
        return f"{shares['p50']:.0f} / {shares['p95']:.0f}" if shares else "no answer"

    mark = "" if run["valid"] else " (its callers were late: not valid)"
    cells = (
        run["sessions"],
        run["server"].strip() + mark,
        run["cpu_ms_per_session_second"],
        pair(run["overhead_ms"]),
        pair(run["after_speech_ms"]),
        run["gaps"],
        f"{run['unanswered']} of {run['turns']}",
        run["lost"],
        f"{run['memory_mb']:.0f}",
    )
    return f"| {' | '.join(map(str, cells))} |\n"
