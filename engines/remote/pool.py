"""One engine at several places: who asks goes to one of them, and on to another if it is lost.

Speech recognition and language models keep a call at one place, chosen by rendezvous hashing:
when a place goes, only its own calls move. No place ever depends on it, since every request
carries all that it needs. A voice goes wherever there is most room, and work on
files where least is open.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import zmq

from engines.audio import Pcm
from engines.batching.tally import Tally
from engines.ports import ChatRequest, EngineError, Load, Priority
from engines.remote.client import ProcessLost, RemoteEngine, RemoteStream
from engines.remote.endpoints import SCHEME, fault_of
from engines.remote.spec import EngineSpec, Patience, Place, ProcessSpec
from engines.remote.supervision import EngineProcess, ProcessStatus, State

_TRIES: Final = 2


class Attached:
    """A process that somebody else keeps alive, reached through ``remote``."""

    restarts = 0

    def __init__(self, remote: RemoteEngine) -> None:
        self.remote = remote

    @property
    def status(self) -> ProcessStatus:
        remote = self.remote
        state: State = "ready" if remote.alive else "down"
        return ProcessStatus(
            remote.endpoint,
            remote.pid,
            state,
            remote.load(),
            remote.beat_age_s,
            self.restarts,
            remote.endpoint,
        )

    async def start(self) -> None:
        await self.remote.warm_up()

    async def close(self) -> None:
        await self.remote.close()


class EnginePool:
    """An engine of the kind of ``spec``: a process at each of ``places``, started by ``warm_up``
    and ended by ``close``, and those that others keep at ``endpoints``, which several gateways
    may share.
    """

    def __init__(
        self,
        spec: EngineSpec,
        places: Sequence[Place] = (),
        *,
        endpoints: Sequence[str] = (),
        patience: Patience | None = None,
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._patience = patience or Patience()
        self._to_start = places
        self._to_join = endpoints
        self._changed = asyncio.Event()
        self._places: list[EngineProcess | Attached] = []
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._folder: Path | None = None

    async def warm_up(self) -> None:
        """Start all processes at once and wait until each is warm.

        Raises EngineError, the process's own where one cannot be used.
        """
        self._settle()
        try:
            async with asyncio.TaskGroup() as tasks:
                for place in self._places:
                    tasks.create_task(place.start())
        except BaseExceptionGroup as failures:
            await self._close_places()
            raise _first(failures) from None

    def open(self, request: Any) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """The port's. What is lost with a process is asked again of another, once.

        A voice's request gives the same audio there, so only what was not yet heard is passed
        on; a recogniser starts again; a language model only where it has said nothing yet.
        Raises EngineError, ``unavailable`` where no process is there in time.
        """
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: Any) -> AsyncGenerator[AsyncIterator[Any], None]:
        answer = _Answer(self, request, await self.begin(request))
        try:
            yield answer
        finally:
            answer.close()

    async def close(self) -> None:
        """End the processes that were started here."""
        await self._close_places()
        if self._context is not None:
            self._context.term()
            self._context = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _close_places(self) -> None:
        await asyncio.gather(*(place.close() for place in self._places))

    def load(self) -> Load:
        """The sum over the processes that are there; the slowest one's step. While none is there
        the bound is that of all, so that nobody is let in for want of one."""
        remotes = [place.remote for place in self._places]
        there = [remote for remote in remotes if remote.alive] or remotes
        loads = [remote.load() for remote in there]
        bounded = all(load.slots for load in loads)
        return Load(
            slots=sum(load.slots for load in loads) if bounded else 0,
            busy=sum(load.busy for load in loads),
            speaking=sum(load.speaking for load in loads),
            batch=sum(load.batch for load in loads),
            step_ms=max((load.step_ms for load in loads), default=0.0),
            queued=sum(load.queued for load in loads),
            oldest_ms=max((load.oldest_ms for load in loads), default=0.0),
            batches=Tally.of_all(load.batches for load in loads),
            tokens=sum(load.tokens for load in loads),
        )

    @property
    def processes(self) -> tuple[ProcessStatus, ...]:
        """What each place is doing."""
        return tuple(place.status for place in self._places)

    async def begin(self, request: Any, avoid: RemoteEngine | None = None) -> RemoteStream:
        """Open ``request`` at the place that is best for it, waiting for one if none is there;
        whoever gets the stream must close it. Raises EngineError."""
        remote = self._choose(request, avoid)
        if remote is None:
            remote = await self._wait_place(request)
        return remote.begin(request)

    def _choose(self, request: Any, avoid: RemoteEngine | None) -> RemoteEngine | None:
        remotes = [place.remote for place in self._places if place.remote.alive]
        others = [remote for remote in remotes if remote is not avoid] or remotes
        if len(others) < 2:
            return others[0] if others else None
        if request.priority is Priority.BATCH:  # has room of its own, beside that for calls
            return min(others, key=lambda remote: remote.busy)
        if self._spec.kind == "tts" or not request.call:
            return _emptiest(others)
        return max(others, key=lambda remote: (remote.free != 0, _weight(request.call, remote)))

    async def _wait_place(self, request: Any) -> RemoteEngine:
        try:
            async with asyncio.timeout(self._patience.place_s):
                while (remote := self._choose(request, None)) is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            states = ", ".join(f"{status.name} {status.state}" for status in self.processes)
            raise EngineError(
                self.name,
                "unavailable",
                f"none of its processes was there within {self._patience.place_s:g} s"
                f" ({states or 'none was started'}): see their logs, or try again later",
            ) from None
        return remote

    def _settle(self) -> None:
        """Make the places. Raises EngineError."""
        self._context = zmq.Context()
        if self._to_start:
            self._folder = Path(tempfile.mkdtemp(prefix="antiphon-"))  # nobody else may enter it
        for number, place in enumerate(self._to_start):
            endpoint = f"{SCHEME}{self._folder}/{number}"
            if fault_of(endpoint):
                told = f"{self._folder} is too long for a socket: set TMPDIR shorter"
                raise EngineError(self.name, "failed", told)
            spec = ProcessSpec(self._spec, place.name, endpoint, self._patience)
            remote = self._remote(spec.endpoint, f"{self.name} at {place.name}")
            self._places.append(EngineProcess(spec, place, remote))
        for endpoint in self._to_join:
            self._places.append(Attached(self._remote(endpoint, f"{self.name} at {endpoint}")))

    def _remote(self, endpoint: str, name: str) -> RemoteEngine:
        assert self._context is not None
        return RemoteEngine(
            self._spec.kind,
            endpoint,
            name,
            context=self._context,
            patience=self._patience,
            changed=self._changed.set,
        )


class _Answer(AsyncIterator[Any]):
    """The items of one request, through the loss of a process if need be."""

    def __init__(self, pool: EnginePool, request: Any, stream: RemoteStream) -> None:
        self._pool = pool
        self._request = request
        self._stream = stream
        self._tries = 1
        self._heard = 0  # samples of audio, or items
        self._skip = 0

    async def __anext__(self) -> Any:
        while True:
            try:
                item = await self._stream.__anext__()
            except ProcessLost as lost:
                await self._begin_again(lost)
                continue
            fresh = self._fresh(item) if self._skip else item
            if fresh is not None:
                self._heard += _size(fresh)
                return fresh

    def close(self) -> None:
        self._stream.close()

    async def _begin_again(self, lost: ProcessLost) -> None:
        llm = isinstance(self._request, ChatRequest)
        if self._tries == _TRIES or (llm and self._heard):
            raise lost
        self._tries += 1
        self._stream.close()
        self._stream = await self._pool.begin(self._request, self._stream.engine)
        self._skip = self._heard

    def _fresh(self, item: Any) -> Any | None:
        """What of ``item`` has not been heard before the loss."""
        known = min(self._skip, _size(item))
        self._skip -= known
        if known == _size(item):
            return None
        return Pcm(item.samples[known:], item.rate)


def _size(item: Any) -> int:
    return len(item) if isinstance(item, Pcm) else 1


def _emptiest(remotes: Sequence[RemoteEngine]) -> RemoteEngine:
    """That with most room; where one has no bound, or has not told of it yet, the least busy."""
    free = [remote.free for remote in remotes]
    room = [-remote.busy if None in free else remote.free or 0 for remote in remotes]
    return remotes[room.index(max(room))]


def _weight(call: str, remote: RemoteEngine) -> bytes:
    """Of this place for this call, the same in every gateway."""
    return blake2b(f"{call}\0{remote.name}".encode(errors="replace"), digest_size=8).digest()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
