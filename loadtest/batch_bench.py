"""What the batch policy is worth: ``python -m loadtest.batch_bench``.

A simulation, in virtual time and the same at each run with one ``--seed``: so many sockets take
turns, each a stream of speech whose frames of 85.33 ms a generator makes faster than real time,
with jitter and now and then several at once; one device decodes them, and a batch of b takes
``--fixed-ms`` + b * ``--row-ms``; each listener's player starts ``--prebuffer-ms`` after its first
audio. `BatchPolicy` against first come, first served, where a batch closes when it is full or
15 ms after its first frame came.

A stream's first frame has a deadline of now + 5 ms, each later one the moment when the player
needs it. A generator pauses while it is 2 s ahead of its listener.

Then, in real time: what `BatchRunner` adds to a call in the device thread for a single stream.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import mean
from typing import Final, Protocol

import numpy as np

from engines.batching.policy import BatchPolicy
from engines.batching.runner import BatchRunner
from engines.ports import Priority
from engines.workers import Workers

STREAMS: Final = (1, 8, 24, 64)
FRAME_MS: Final = 2048 / 24
WINDOW_MS: Final = 15.0
MAX_BATCH: Final = 64
FIRST_WITHIN_MS: Final = 5.0
SLACK_MS: Final = 2.0
AHEAD_MS: Final = 2000.0


@dataclass(frozen=True)
class Setting:
    """The device, the players and how long it goes on."""

    fixed_ms: float
    row_ms: float
    prebuffer_ms: float
    seconds: float
    seed: int

    def cost_ms(self, batch: int) -> float:
        """What the device takes for a batch."""
        return self.fixed_ms + self.row_ms * batch


class Policy(Protocol):
    """What the simulated device asks of a policy; both under test have it."""

    expected: int

    def add(self, item: Frame, now: float, deadline: float) -> int: ...

    def take(self, now: float) -> list[Frame]: ...

    def ran(self, count: int, took_ms: float) -> None: ...

    @property
    def deadline(self) -> float | None: ...


class FirstComeFirstServed:
    """A queue with a timeout, as servers commonly batch. It knows no deadline and no socket."""

    def __init__(self) -> None:
        self.expected = 0
        self._waiting: deque[tuple[float, Frame]] = deque()

    def add(self, item: Frame, now: float, deadline: float) -> int:
        """Queue an item; its deadline is nothing to this one."""
        del deadline
        self._waiting.append((now, item))
        return 0

    @property
    def deadline(self) -> float | None:
        """When the next batch closes."""
        if not self._waiting:
            return None
        full = len(self._waiting) >= MAX_BATCH
        return float("-inf") if full else self._waiting[0][0] + WINDOW_MS

    def take(self, now: float) -> list[Frame]:
        """The batch that is due."""
        due = self.deadline
        if due is None or due > now:
            return []
        return [self._waiting.popleft()[1] for _ in range(min(MAX_BATCH, len(self._waiting)))]

    def ran(self, count: int, took_ms: float) -> None:
        """What a batch took is nothing to this one."""


def deadlines_first() -> BatchPolicy[Frame]:
    """The policy under test, which does not know yet what the device takes."""
    return BatchPolicy(max_batch=MAX_BATCH, window_ms=WINDOW_MS, slack_ms=SLACK_MS)


# --- what is simulated ----------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """One frame of a turn, handed in to be decoded."""

    turn: Turn
    handed_in_at: float


@dataclass
class Turn:
    """One stream of speech and its listener, whose player runs out at ``needed_at``.

    Its frames are decoded one after the other: ``made_at`` is of those that are not yet.
    """

    socket: random.Random
    frames: int
    makes: Iterator[tuple[float, int]]
    needed_at: float | None = None
    made: int = 0
    decoded: int = 0
    made_at: deque[float] = field(default_factory=deque)

    def ahead_ms(self, now: float) -> float:
        """How long the listener could go on if all that was made were decoded now."""
        decoded_ms = 0.0 if self.needed_at is None else self.needed_at - now
        return decoded_ms + len(self.made_at) * FRAME_MS


def generation(draw: random.Random, frames: int) -> Iterator[tuple[float, int]]:
    """Pauses in ms, and how many frames come after each: at 1.3 to 2 times real time, a fifth of
    all deliveries late by up to 40 ms, a tenth of them two or three at once."""
    speed = draw.uniform(1.3, 2.0)
    while frames:
        count = min(frames, draw.choice((2, 3)) if draw.random() < 0.1 else 1)
        late = draw.uniform(0, 40) if draw.random() < 0.2 else 0.0
        yield count * FRAME_MS / speed * draw.uniform(0.85, 1.15) + late, count
        frames -= count


@dataclass
class Figures:
    """What came of one run. ``underruns_ms``: of frames that were made in time and waited or
    ran too long; ``starved_ms``: of frames that were made too late for any policy."""

    seconds: float
    first_waits_ms: list[float] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)
    underruns_ms: list[float] = field(default_factory=list)
    starved_ms: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    busy_ms: float = 0.0


class Simulation:
    """Events in virtual time: frames come, the device is done, a batch is due, a turn begins."""

    def __init__(self, setting: Setting, policy: Policy, streams: int) -> None:
        self.figures = Figures(setting.seconds)
        self._setting = setting
        self._policy = policy
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._speaking = 0
        self._busy = False
        for socket in range(streams):
            # Each socket draws for itself, so that both policies hear the same turns.
            self._begin_later(random.Random(f"{setting.seed} {socket}"), heard=0.0)

    def run(self) -> Figures:
        """To the end of the time."""
        while self._events[0][0] < self._setting.seconds * 1000:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
            self._serve()
        return self.figures

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (when, self._numbers, happen))

    def _begin_later(self, draw: random.Random, heard: float) -> None:
        """A socket's next turn, up to two seconds after its listener has heard the last."""
        self._at(heard + draw.uniform(0, 2000), lambda: self._begin(draw))

    def _begin(self, draw: random.Random) -> None:
        frames = draw.randint(20, 100)
        self._speaking += 1
        self._make(Turn(draw, frames, generation(draw, frames)))

    def _make(self, turn: Turn) -> None:
        """The generator goes on to its next delivery."""
        pause, count = next(turn.makes)
        pause += max(0.0, turn.ahead_ms(self._now) - AHEAD_MS)
        self._at(self._now + pause, lambda: self._deliver(turn, count))

    def _deliver(self, turn: Turn, count: int) -> None:
        idle = not turn.made_at
        turn.made_at.extend([self._now] * count)
        turn.made += count
        if idle:
            self._hand_in(turn)
        if turn.made < turn.frames:
            self._make(turn)

    def _hand_in(self, turn: Turn) -> None:
        deadline = self._now + FIRST_WITHIN_MS if turn.needed_at is None else turn.needed_at
        self._policy.add(Frame(turn, self._now), self._now, deadline)

    def _serve(self) -> None:
        """Start the batch that is due, or wake when one will be."""
        if self._busy:
            return
        self._policy.expected = self._speaking
        if batch := self._policy.take(self._now):
            self._start(batch)
        elif (due := self._policy.deadline) is not None:
            self._at(due, lambda: None)

    def _start(self, batch: list[Frame]) -> None:
        self._busy = True
        for frame in batch:
            waited = self._now - frame.handed_in_at
            self.figures.waits_ms.append(waited)
            if frame.turn.needed_at is None:
                self.figures.first_waits_ms.append(waited)
        took = self._setting.cost_ms(len(batch))
        self.figures.batches.append(len(batch))
        self.figures.busy_ms += took
        self._at(self._now + took, lambda: self._end(batch, took))

    def _end(self, batch: list[Frame], took: float) -> None:
        self._busy = False
        self._policy.ran(len(batch), took)
        for frame in batch:
            self._play(frame.turn)
            if frame.turn.made_at:
                self._hand_in(frame.turn)

    def _play(self, turn: Turn) -> None:
        made_at = turn.made_at.popleft()
        if turn.needed_at is None:
            turn.needed_at = self._now + self._setting.prebuffer_ms
        if self._now > turn.needed_at:
            in_time = made_at + self._setting.cost_ms(1) <= turn.needed_at
            underruns = self.figures.underruns_ms if in_time else self.figures.starved_ms
            underruns.append(self._now - turn.needed_at)
            turn.needed_at = self._now
        turn.needed_at += FRAME_MS
        turn.decoded += 1
        if turn.decoded == turn.frames:
            self._speaking -= 1
            self._begin_later(turn.socket, turn.needed_at)


# --- what one stream alone waits, in real time ----------------------------------------------


async def added_wait_us(calls: int) -> tuple[list[float], list[float]]:
    """Microseconds of calls through the runner and straight into its device thread, in turn."""
    workers = Workers("bench")
    policy: BatchPolicy[tuple[int, asyncio.Future[int]]] = BatchPolicy(
        max_batch=MAX_BATCH, window_ms=WINDOW_MS, slack_ms=SLACK_MS
    )
    runner = BatchRunner("bench", list, policy, expected=lambda: 1, workers=workers)
    through, straight = [], []
    for number in range(calls):
        began = time.perf_counter()
        await runner.submit(number, asyncio.get_running_loop().time() * 1000 + 100)
        between = time.perf_counter()
        await workers.run(Priority.FINAL, list, [number])
        through.append(1e6 * (between - began))
        straight.append(1e6 * (time.perf_counter() - between))
    runner.close()
    await runner.wait_closed()
    workers.close()
    await workers.wait_closed()
    return through, straight


# --- what is printed ------------------------------------------------------------------------


def row(streams: int, name: str, figures: Figures) -> str:
    """One line of the table."""
    first, every = (
        " / ".join(f"{np.percentile(waits, q):.1f}" for q in (50, 95))
        for waits in (figures.first_waits_ms, figures.waits_ms)
    )
    underruns, starved = (
        f"{len(gaps)}, {sum(gaps):.0f} ms" for gaps in (figures.underruns_ms, figures.starved_ms)
    )
    per_second = len(figures.batches) / figures.seconds
    busy = figures.busy_ms / figures.seconds / 10
    return (
        f"| {streams} | {name} | {first} | {every} | {underruns} | {starved} | {per_second:.0f} "
        f"| {mean(figures.batches):.1f} | {busy:.0f} % |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fixed-ms", type=float, default=3.0, help="a batch takes this")
    parser.add_argument("--row-ms", type=float, default=0.1, help="and this for each of its rows")
    parser.add_argument("--prebuffer-ms", type=float, default=60.0, help="of the players")
    parser.add_argument("--seconds", type=float, default=120.0, help="of virtual time a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=3000, help="through the device thread")
    options = vars(parser.parse_args())
    calls = options.pop("calls")
    setting = Setting(**options)
    print(
        "| sockets | policy | first chunk waits, p50 / p95 ms | all wait, p50 / p95 ms "
        "| underruns | generator late | batches a second | mean batch | device busy |"
    )
    print("|---" * 9 + "|")
    for streams in STREAMS:
        fifo = Simulation(setting, FirstComeFirstServed(), streams).run()
        ours = Simulation(setting, deadlines_first(), streams).run()
        print(row(streams, "first come, first served", fifo))
        print(row(streams, "deadlines", ours))
    through, straight = asyncio.run(added_wait_us(calls))
    for name, times in (("through the runner", through), ("straight", straight)):
        p50, p99 = np.percentile(times, (50, 99))
        print(f"one stream, {name}: p50 {p50:.0f} us, p99 {p99:.0f} us")


if __name__ == "__main__":
    main()
