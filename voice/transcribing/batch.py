"""Many files as one batch: chunks of several are under way at once, those of earlier files first.

So a recogniser has enough to do at the end of a file, too, and files become whole one after the
other. What goes wrong with a file is its own affair; the others go on.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from engines.diarization.turns import Diarizer
from engines.ports import Asr, EngineError, Load, Measured, Vad
from pipelines.media.reading import MediaError
from voice.transcribing.one_file import Asked, Means, Outcome, Task, hear_file
from voice.transcribing.progress import Run
from voice.transcribing.sources import SourceError, reason_of
from voice.transcribing.unfinished import UnfinishedError

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 4
_LEAST_UNDER_WAY: Final = 24


class Batch:
    """``ended`` is called with each file's number and outcome as soon as it has one."""

    def __init__(
        self,
        vad: Vad,
        asr: Asr,
        asked: Asked,
        run: Run,
        ended: Callable[[int, Outcome], None],
        diarizer: Diarizer | None = None,
    ) -> None:
        slots = (asr.load() if isinstance(asr, Measured) else Load()).slots
        self._vad = vad
        self._asr = asr
        self._asked = asked
        self._run = run
        self._ended = ended
        self._diarizer = diarizer
        self._room = InOrder(max(_LEAST_UNDER_WAY, 2 * slots))
        self._at_once = max(_FILES_AT_ONCE, slots)

    async def run(self, tasks: Sequence[Task]) -> None:
        """Hear all of them. Cancelled, it leaves what was heard where it is kept."""
        waiting = iter(enumerate(tasks))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._at_once, len(tasks))):
                group.create_task(self._work(waiting))

    async def _work(self, waiting: Iterator[tuple[int, Task]]) -> None:
        for number, task in waiting:
            reach = partial(self._run.reach, number)
            means = Means(self._vad, self._asr, self._room.of(number), reach, self._diarizer)
            outcome = await self._outcome(task, means)
            self._run.end(number, None if outcome.failure else outcome.lasts_s)
            self._ended(number, outcome)

    async def _outcome(self, task: Task, means: Means) -> Outcome:
        try:
            return await hear_file(task, self._asked, means)
        except UnfinishedError as error:
            return Outcome(str(error))
        except (OSError, MediaError, SourceError) as error:
            return Outcome(reason_of(error, task.source.path))
        except EngineError as error:
            return Outcome(str(error))
        except Exception as error:
            logger.exception("%s", task.source.shown)
            return Outcome(f"this is a bug of ours: {error!r}")


class InOrder:
    """Room for so many chunks at once. Where more want in, those of the earliest file go first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    def of(self, number: int) -> PlaceOf:
        """The place of the file with this number."""
        return PlaceOf(self, number)

    async def take(self, number: int) -> None:
        """Wait for room."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (number, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()  # it came in the same moment
            raise

    def give(self) -> None:
        """Somebody else may have it."""
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class PlaceOf:
    """A ``pipelines.places.Place``. Nobody takes it away."""

    def __init__(self, room: InOrder, number: int) -> None:
        self._room = room
        self._number = number

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """See ``pipelines.places``."""
        await self._room.take(self._number)
        try:
            yield
        finally:
            self._room.give()
