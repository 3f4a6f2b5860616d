"""A process full of callers: it reads its plan, calls, and tells of each turn as it ends.

    python -m loadtest.worker

Standard input: the plan, one line of JSON; once it has answered with its first progress, the
monotonic time at which the run begins. Its end means stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import uvloop

from loadtest.clips import SpeechError, read_clips, silence
from loadtest.habits import Character, Network
from loadtest.line import Line, Refused, Target, dial
from loadtest.phone_wires import TwilioWire
from loadtest.records import (
    Arrival,
    CallRecord,
    Plan,
    Progress,
    Record,
    Trouble,
    decode_plan,
    encode,
)
from loadtest.talker import Repertoire, Talker
from loadtest.ticker import Ticker
from loadtest.websocket import address_of
from loadtest.wires import PATH, RealtimeWire, Wire

_TOLD_EVERY_S: Final = 0.5
_LONGEST_WAIT_S: Final = 10.0
_URGENCY: Final = -10
"""Where that is allowed."""


def main() -> int:
    """Call as the plan on standard input says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reporting process says when to stop
    plan = decode_plan(_read_line())
    try:
        repertoire = load(plan)
    except (SpeechError, OSError) as error:
        _tell(Trouble(message=str(error)))
        return 1
    _tell(Progress(at_s=0.0, open=0, talking=0, speaking=0, cpu_s=0.0, session_s=0.0))
    loaded_s = time.process_time()
    start = float(_read_line() or b"nan")
    with contextlib.suppress(OSError):
        os.nice(_URGENCY)  # a caller's frame is due now, whatever else wants the core
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a line is a file
    gc.collect()
    gc.freeze()  # what is loaded is not looked through again in the middle of a run
    if start == start:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(call(plan, repertoire, start, _tell, loaded_s))
    return 0


def load(plan: Plan) -> Repertoire:
    """All that is said, as it goes over the wire. Raises SpeechError."""
    wire: Wire = RealtimeWire(plan.silence_ms, plan.max_tokens)
    if plan.wire == "twilio":
        wire = TwilioWire()
    clips = read_clips(Path(plan.speech), wire)
    murmurs = read_clips(Path(plan.backchannels), wire) if plan.backchannels else []
    return Repertoire(wire, clips, silence(wire), murmurs)


async def call(
    plan: Plan,
    repertoire: Repertoire,
    start: float,
    tell: Callable[[Record], None],
    loaded_s: float = 0.0,
) -> None:
    """Make all calls of the plan; returns when the last turn is over, or when told to stop.
    ``loaded_s``: CPU that was taken before."""
    crowd = Crowd(plan, repertoire, start, tell, loaded_s)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)
    try:
        await crowd.run(stop)
    finally:
        asyncio.get_running_loop().remove_reader(0)


class Crowd:
    """All callers of one process."""

    def __init__(
        self,
        plan: Plan,
        repertoire: Repertoire,
        start: float,
        tell: Callable[[Record], None],
        loaded_s: float = 0.0,
    ) -> None:
        self._plan = plan
        self._repertoire = repertoire
        self._start = start
        self._tell = tell
        self._ticker = Ticker()
        self._lines: dict[Line, Talker] = {}
        self._since: dict[Line, float] = {}
        self._session_s = 0.0
        self._loaded_s = loaded_s
        self._stopping = False
        headers = {"Authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
        address = address_of(plan.url)
        if address.path == PATH:
            address = replace(address, path=repertoire.wire.path)
        if plan.model:
            joint = "&" if "?" in address.path else "?"
            address = replace(address, path=f"{address.path}{joint}model={quote(plan.model)}")
        self._target = Target(address, repertoire.wire, headers)

    async def run(self, stop: asyncio.Event) -> None:
        """From the first arrival to the last reply."""
        await asyncio.sleep(max(0.0, self._start - time.monotonic()))
        self._ticker.start()
        async with asyncio.TaskGroup() as tasks:
            callers = [tasks.create_task(self._live(each)) for each in self._plan.arrivals]
            with contextlib.suppress(TimeoutError):
                await self._watch(stop)
            self._stopping = True
            for line in tuple(self._lines):
                line.leave()
            for caller in callers:
                caller.cancel()
        self._ticker.stop()
        self._tell(self._progress(last=True))

    async def _watch(self, stop: asyncio.Event) -> None:
        """Tell of the progress, until all is over."""
        last = self._start + self._plan.end_s
        while (now := time.monotonic()) < last + self._plan.drain_s:
            if now >= last and all(talker.idle for talker in self._lines.values()):
                return
            self._tell(self._progress())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TOLD_EVERY_S):
                    await stop.wait()
                    return

    async def _live(self, arrival: Arrival) -> None:
        """One caller: calls, and calls again after each hang-up."""
        seed = f"{self._plan.seed} {arrival.number}"
        character = Character(self._plan.habits, len(self._repertoire.clips), seed)
        network = Network(self._plan.habits, seed)
        await asyncio.sleep(max(0.0, self._start + arrival.at_s - time.monotonic()))
        while not self._stopping:
            wait_s = await self._call(arrival, character, network)
            if not self._plan.redial or time.monotonic() > self._start + self._plan.end_s:
                return
            await asyncio.sleep(wait_s)

    async def _call(self, arrival: Arrival, character: Character, network: Network) -> float:
        """One call, from dialling to its end. How long this caller waits before the next."""
        plan, began = self._plan, time.monotonic()
        talker = Talker(
            arrival.number,
            self._repertoire,
            plan.habits,
            character,
            start=self._start,
            until=self._start + plan.end_s,
            silent=arrival.silent,
        )
        talker.tell = self._tell
        at_s = round(began - self._start, 3)
        record = CallRecord(call=arrival.number, at_s=at_s, end="failed", silent=arrival.silent)
        try:
            line, answer_s = await dial(self._target, talker, network)
        except Refused as refused:
            record.end = "refused" if refused.status else "failed"
            record.status, record.why = refused.status, str(refused)
            record.answer_ms = round((time.monotonic() - began) * 1000, 1)
            self._tell(record)
            return min(max(refused.retry_s, 1.0), _LONGEST_WAIT_S)
        record.status, record.answer_ms = 101, round(answer_s * 1000, 1)
        await self._hold(line, talker, arrival.slot, record)
        return character.redial_s()

    async def _hold(self, line: Line, talker: Talker, slot: int, record: CallRecord) -> None:
        """Stay on the line until somebody hangs up."""
        began = time.monotonic()
        self._lines[line], self._since[line] = talker, began
        talker.on_ready = lambda: self._ticker.join(slot, line.tick)
        if talker.is_ready:
            talker.on_ready()
        try:
            await line.closed
        finally:
            self._ticker.leave(slot, line.tick)
            now = time.monotonic()
            talker.stop(now)
            del self._lines[line], self._since[line]
            self._session_s += now - began
            record.seconds = round(now - began, 3)
            record.frames, record.phantoms = line.frames, talker.phantoms
            record.errors, record.why = talker.errors, line.why
            record.end = "lost"
            if line.left or self._stopping:
                record.end, record.why = "done" if self._stopping else "hung_up", ""
            self._tell(record)

    def _progress(self, *, last: bool = False) -> Progress:
        now = time.monotonic()
        talkers = self._lines.values()
        return Progress(
            at_s=round(now - self._start, 3),
            open=len(talkers),
            talking=sum(talker.talking for talker in talkers),
            speaking=sum(talker.player.playing(now) for talker in talkers),
            cpu_s=time.process_time() - self._loaded_s,
            session_s=self._session_s + sum(now - since for since in self._since.values()),
            late=dict(self._ticker.late.counts),
            last=last,
        )


def _read_line() -> bytes:
    """Without a buffer, so that what follows is still there for the loop to notice."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return bytes(line)


def _tell(record: Record) -> None:
    try:
        _write(encode(record) + b"\n")
    except BrokenPipeError:
        os._exit(1)  # nobody is left to report to


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]


if __name__ == "__main__":
    sys.exit(main())
