"""One run: callers in processes of their own, a server that is watched, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct, field

from loadtest.figures import Sample
from loadtest.habits import Habits, is_silent
from loadtest.records import (
    Arrival,
    CallRecord,
    Plan,
    Progress,
    Record,
    Trouble,
    TurnRecord,
    decode,
    encode,
)
from loadtest.scrape import Metrics
from loadtest.ticker import SLOTS, Lateness
from loadtest.watching import Watch
from loadtest.websocket import address_of

DRAIN_S: Final = 5.0
"""So long turns that are open at the end are waited for."""

_LEAD_S: Final = 0.3
_LOOK_EVERY_S: Final = 1.0
_LONGEST_LINE: Final = 16 * 2**20
_LAST_WORDS_S: Final = 5.0
_DEAD_S: Final = 3.0
"""A server that nobody has a line to for so long is gone."""


class LoadError(Exception):
    """A run that could not be made. The message says what to do."""


class Options(Struct, frozen=True, kw_only=True):
    """What is asked of a run. ``url``: of the server; ``pid``: its process, where it is watched;
    ``ramp_s``: over which callers arrive; ``seconds``: measured after that."""

    callers: int
    seconds: float
    url: str
    speech: str
    ramp_s: float = 0.0
    arrivals: Literal["spread", "burst"] = "spread"
    wire: str = "realtime"
    processes: int = 1
    habits: Habits = field(default_factory=Habits)
    seed: int = 1
    pid: int | None = None
    api_key: str | None = None
    model: str | None = None
    silence_ms: int | None = None
    max_tokens: int | None = None
    backchannels: str | None = None
    caller_cores: tuple[int, ...] = ()


class Run(Struct, kw_only=True):
    """What came of it, as it goes on and at its end. ``before`` and ``after``: the server's
    metrics when measuring began and when it ended; ``first``: when the first caller came.
    ``given_up``: why it was ended before its time."""

    options: Options
    began: datetime
    turns: list[TurnRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    first: Metrics = field(default_factory=dict)
    before: Metrics = field(default_factory=dict)
    after: Metrics = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    interrupted: bool = False
    given_up: str = ""
    elapsed_s: float = 0.0

    def measured(self) -> list[TurnRecord]:
        """The turns that began when all callers were there."""
        return [turn for turn in self.turns if turn.at_s >= self.options.ramp_s]

    def late(self) -> Lateness:
        """How late the frames of all callers were."""
        late = Lateness()
        for progress in self.progress.values():
            late.counts.update(progress.late)
        return late

    def own_cpu_s(self) -> float:
        """CPU that the callers have taken."""
        return sum(progress.cpu_s for progress in self.progress.values())

    def total(self, name: Literal["open", "talking", "speaking", "session_s"]) -> float:
        """A figure of the last progress of all processes."""
        return float(sum(getattr(progress, name) for progress in self.progress.values()))


def arrivals(options: Options) -> list[Arrival]:
    """When each caller dials, and in which slot of a frame's time it speaks: spread evenly over
    the ramp, or all of them at once, in step."""
    draw, made = random.Random(options.seed), []
    for number in range(options.callers):
        at_s, slot = 0.0, 0
        if options.arrivals == "spread":
            # Within its share of the ramp anywhere, so that no two runs' callers march in step.
            at_s = (number + draw.random()) * options.ramp_s / options.callers
            slot = number % SLOTS
        made.append(Arrival(number, round(at_s, 4), slot, is_silent(number, options.habits.silent)))
    return made


async def run(
    options: Options, look: Callable[[Run], None], hopeless: Callable[[Run], str] = lambda _run: ""
) -> Run:
    """Make the run; ``look`` is called once a second, and ``hopeless``, which may say why it need
    not go on. A key that interrupts it ends it early, and what there is by then is given. Raises
    LoadError."""
    made = Run(options=options, began=datetime.now(UTC))
    crowd = _Processes(options, made)
    try:
        await crowd.open()
        await _watched(made, crowd, look, hopeless)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not crowd.began:
            raise
        task.uncancel()
        made.interrupted = True
    finally:
        await crowd.close()
    made.elapsed_s = max((progress.at_s for progress in made.progress.values()), default=0.0)
    return made


async def _watched(
    made: Run, crowd: _Processes, look: Callable[[Run], None], hopeless: Callable[[Run], str]
) -> None:
    options = made.options
    watch = Watch(address_of(options.url).http, options.pid, options.api_key)
    start = time.monotonic() + _LEAD_S
    crowd.begin(start)
    empty_since: float | None = None
    while not await crowd.wait_done(_LOOK_EVERY_S):
        at_s = time.monotonic() - start
        made.samples.append(await watch.sample(at_s, made.total))
        made.first = made.first or watch.metrics
        if not made.before and at_s >= options.ramp_s:
            made.before = watch.metrics
        if at_s <= options.ramp_s + options.seconds:
            made.after = watch.metrics or made.after
        look(made)
        made.given_up = hopeless(made)
        empty_since = _since(empty_since, at_s, made)
        if made.given_up:
            return
        if watch.gone:
            made.troubles.append(f"the server's process ended {at_s:.0f} s after the beginning")
            return
        if empty_since is not None and at_s - empty_since > _DEAD_S:
            told = f"nobody has reached the server since {empty_since:.0f} s after the beginning"
            made.troubles.append(told)
            return


def _since(before: float | None, at_s: float, made: Run) -> float | None:
    """Since when there has been no line, where callers have tried."""
    if made.total("open") or not made.calls:
        return None
    return at_s if before is None else before


class _Processes:
    """The processes of callers of one run."""

    def __init__(self, options: Options, made: Run) -> None:
        self.began = False
        self._options = options
        self._made = made
        self._processes: list[asyncio.subprocess.Process] = []
        self._readers: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start them all, and wait until each has its recordings ready. Raises LoadError."""
        plans = self._plans()
        self._processes = [await self._start() for _ in plans]
        for process, plan in zip(self._processes, plans, strict=True):
            _write(process, encode(plan) + b"\n")
        for process in self._processes:
            assert process.stdout is not None
            line = await process.stdout.readline()
            if not line:
                raise LoadError("a process of callers ended before it began: see above")
            record = decode(line)
            if isinstance(record, Trouble):
                raise LoadError(record.message)

    def begin(self, start: float) -> None:
        """The run begins at this monotonic time."""
        self.began = True
        for number, process in enumerate(self._processes):
            _write(process, f"{start}\n".encode())
            self._readers.append(asyncio.create_task(self._read(number, process)))

    async def wait_done(self, seconds: float) -> bool:
        """Wait for so long; whether all of them are done."""
        done, _ = await asyncio.wait(self._readers, timeout=seconds)
        for reader in done:
            reader.result()
        return len(done) == len(self._readers)

    async def close(self) -> None:
        """Tell them to stop, hear what they have to say, and end those that go on."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        if self._readers:
            await asyncio.wait(self._readers, timeout=_LAST_WORDS_S)
        for reader in self._readers:
            reader.cancel()
        for process in self._processes:
            try:
                async with asyncio.timeout(_LAST_WORDS_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        cores = set(self._options.caller_cores)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loadtest.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        )

    def _plans(self) -> list[Plan]:
        options, everyone = self._options, arrivals(self._options)
        count = min(options.processes, options.callers)
        return [
            Plan(
                url=options.url,
                speech=options.speech,
                wire=options.wire,
                arrivals=everyone[first::count],
                habits=options.habits,
                end_s=options.ramp_s + options.seconds,
                drain_s=DRAIN_S,
                seed=options.seed,
                api_key=options.api_key,
                model=options.model,
                backchannels=options.backchannels,
                silence_ms=options.silence_ms,
                max_tokens=options.max_tokens,
            )
            for first in range(count)
        ]

    async def _read(self, number: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self._keep(number, decode(line))
        if number not in self._made.progress or not self._made.progress[number].last:
            self._made.troubles.append(
                f"a process of callers ended before its time: exit status {await process.wait()}"
            )

    def _keep(self, number: int, record: Record) -> None:
        if isinstance(record, TurnRecord):
            self._made.turns.append(record)
        elif isinstance(record, CallRecord):
            self._made.calls.append(record)
        elif isinstance(record, Progress):
            self._made.progress[number] = record
        else:
            self._made.troubles.append(record.message)


def _write(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(line)
