"""An engine for child processes: it counts, so that nothing can be lost or doubled unseen.

Audio is the ramp 0, 1, 2, ... however it is cut; ``COUNTING_CHUNK`` of the environment cuts it
differently at each place.
"""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np

from engines.audio import Pcm
from engines.ports import EngineError, Load, TextDelta, Transcript, Usage


@dataclass(frozen=True)
class Options:
    gives: str = "audio"
    items: int = 100
    slots: int = 4
    breaks: str = ""
    while_there: str = ""  # a file: nothing breaks without it
    worker: str = ""  # a file for the pid of a child, which never ends by itself


def create(options, models):
    return Counting(options)


class Counting:
    def __init__(self, options):
        self._options = options
        self._busy = 0

    async def warm_up(self):
        print("libraries print what they like")  # noqa: T201
        options = self._options
        if options.worker:
            worker = subprocess.Popen(["sleep", "infinity"])  # noqa: ASYNC220
            with open(options.worker, "w") as file:  # noqa: ASYNC230
                file.write(str(worker.pid))
        if not options.while_there or os.access(options.while_there, os.F_OK):
            await self._break(options.breaks)

    async def _break(self, how):
        if how == "refuses":
            raise EngineError("counting", "unauthorized", "the key is wrong: get another one")
        if how == "bug":
            raise KeyError("forgotten")
        if how == "dies":
            os._exit(7)
        if how == "hangs":
            await asyncio.Event().wait()

    async def close(self):
        pass

    def load(self):
        return Load(slots=self._options.slots, busy=self._busy, step_ms=1.5)

    @asynccontextmanager
    async def open(self, request):
        self._busy += 1
        items = self._items()
        try:
            yield items
        finally:
            await items.aclose()
            self._busy -= 1

    async def _items(self):
        chunk = int(os.environ.get("COUNTING_CHUNK", "10"))
        for number in range(self._options.items):
            await asyncio.sleep(0)
            if self._options.gives == "audio":
                start = number * chunk
                yield Pcm(np.arange(start, start + chunk).astype(np.int16), 24_000)
            elif self._options.gives == "text":
                yield TextDelta(f" {number}")
            elif self._options.gives == "place":
                yield Transcript(os.environ["COUNTING_PLACE"])
            else:
                await asyncio.Event().wait()
        if self._options.gives == "text":
            yield Usage(output_tokens=self._options.items)
