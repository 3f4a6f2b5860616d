"""Whom the engines and the processor have worked for: seconds by tenant.

An engine's time belongs to those whose requests are open: each moment is shared evenly among
them, however many there are, so that all tenants' seconds together are the time that the engine
was held, and an engine in several places counts as many times as requests keep busy. On a GPU
these are GPU-seconds. The server's CPU is read from the kernel: what its loop used is shared
evenly among the open calls, and what its other threads used (embedded models) in proportion to
the engines' time in the same while. What nobody was there for is nobody's.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from engines.ports import Load, Measured, Sighted

NOBODY: Final = ""


class Meter:
    """Books time on tenants. A plain object: whoever calls says what time it is, in seconds."""

    def __init__(self) -> None:
        self.engine_s: dict[tuple[str, str], float] = {}
        """By tenant and kind of engine."""
        self.cpu_s: dict[str, float] = {}
        """By tenant."""
        self._tenants: dict[str, str] = {}
        self._held: dict[str, _Held] = {}
        self._booked: dict[str, float] = {}

    @contextmanager
    def call(self, call: str, tenant: str) -> Iterator[None]:
        """For as long as the context lasts, what is done for this call is done for the tenant."""
        self._tenants[call] = tenant
        try:
            yield
        finally:
            del self._tenants[call]

    def tenant_of(self, call: str) -> str:
        """Whose call this is."""
        return self._tenants.get(call, NOBODY)

    def watch(self, kind: str, places: int = 0) -> None:
        """There is an engine of this kind, in so many processes of its own; 0: in this one."""
        self._held[kind] = _Held(max(1, places), embedded=not places)

    def begin(self, kind: str, tenant: str, now: float) -> None:
        """A request has been opened."""
        self.settle(kind, now)
        self._held[kind].open[tenant] += 1

    def end(self, kind: str, tenant: str, now: float) -> None:
        """It is over."""
        self.settle(kind, now)
        held = self._held[kind].open
        held[tenant] -= 1
        if not held[tenant]:
            del held[tenant]

    def settle(self, kind: str, now: float) -> None:
        """Book what has passed since this engine was last looked at."""
        held = self._held[kind]
        passed, held.settled_at = now - held.settled_at, now
        requests = held.open.total()
        if not requests:
            return
        each = passed * min(1.0, held.places / requests)
        for tenant, count in held.open.items():
            seconds = each * count
            self.engine_s[tenant, kind] = self.engine_s.get((tenant, kind), 0.0) + seconds
            if held.embedded:
                self._booked[tenant] = self._booked.get(tenant, 0.0) + seconds

    def book_cpu(self, loop_s: float, others_s: float, now: float) -> None:
        """So much CPU the loop and the other threads have used since this was last told."""
        for kind in self._held:
            self.settle(kind, now)
        self._share(loop_s, Counter(self._tenants.values()))
        booked, self._booked = self._booked, {}
        self._share(others_s, booked)

    def _share(self, seconds: float, parts: Mapping[str, float]) -> None:
        if not seconds:
            return
        whole = sum(parts.values())
        if not whole:
            parts, whole = {NOBODY: 1.0}, 1.0
        for tenant, part in parts.items():
            self.cpu_s[tenant] = self.cpu_s.get(tenant, 0.0) + seconds * part / whole


class _Held:
    """The open requests of an engine, by tenant."""

    def __init__(self, places: int, *, embedded: bool) -> None:
        self.places = places
        self.embedded = embedded
        self.open: Counter[str] = Counter()
        self.settled_at = 0.0


async def watch_cpu(meter: Meter, every_s: float = 0.5) -> None:
    """Book the CPU that this process uses, until cancelled."""
    loop, clock = asyncio.get_running_loop(), CpuClock()
    while True:
        await asyncio.sleep(every_s)
        meter.book_cpu(*clock.read(), loop.time())


class CpuClock:
    """The CPU that this process has used. Made and read on the loop's thread."""

    def __init__(self) -> None:
        self._loop_s, self._all_s = time.thread_time(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Seconds of this thread, and of all others, since the last time."""
        loop_s, all_s = time.thread_time(), time.process_time()
        mine, whole = loop_s - self._loop_s, all_s - self._all_s
        self._loop_s, self._all_s = loop_s, all_s
        return mine, max(0.0, whole - mine)


class MeteredEngine:
    """An engine whose requests are booked on whoever's call they are for."""

    def __init__(self, engine: Any, kind: str, meter: Meter) -> None:
        self.engine = engine
        self.sees_images = isinstance(engine, Sighted) and engine.sees_images
        self._kind = kind
        self._meter = meter

    async def warm_up(self) -> None:
        """As the engine does."""
        await self.engine.warm_up()

    async def close(self) -> None:
        """As the engine does."""
        await self.engine.close()

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncGenerator[AsyncIterator[Any], None]:
        """As the engine does."""
        meter, kind, now = self._meter, self._kind, asyncio.get_running_loop().time
        tenant = meter.tenant_of(request.call)
        meter.begin(kind, tenant, now())
        try:
            async with self.engine.open(request) as stream:
                yield stream
        finally:
            meter.end(kind, tenant, now())


class MeasuredEngine(MeteredEngine):
    """One that can also say what it is doing."""

    def load(self) -> Load:
        """As the engine does."""
        load: Load = self.engine.load()
        return load


def metered(engine: Any, kind: str, meter: Meter, places: int = 0) -> Any:
    """The same engine, its time booked by ``meter``; ``places`` as in ``Meter.watch``."""
    meter.watch(kind, places)
    wrapper = MeasuredEngine if isinstance(engine, Measured) else MeteredEngine
    return wrapper(engine, kind, meter)
