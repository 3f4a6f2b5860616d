"""A recogniser that tells how loud a clip is, so that each piece of a file has a text of its own:
``asr.engine = "tests.fakes.levels"``."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines.ports import AsrRequest, EngineError, Segment, Transcript, Word


@dataclass(frozen=True)
class Options:
    """``heard``: a file that each text is added to as it is heard. ``hangs_on``: a text that is
    not heard to its end while there is a file ``hangs``, which is told on stdout; ``fails_on``: one
    that is never heard; ``doubts``: one that is doubted."""

    heard: str = ""
    hangs_on: str = ""
    hangs: str = "/"
    fails_on: str = ""
    doubts: str = ""


class Levels:
    def __init__(self, options: Options) -> None:
        self.options = options

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        yield self._hear(request)

    async def _hear(self, request: AsrRequest) -> AsyncIterator[Transcript]:
        text = f"w{int(np.abs(request.pcm.samples).max()) // 100}"
        if text == self.options.hangs_on and self._hangs():
            sys.stdout.write("hangs\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        if text == self.options.fails_on:
            raise EngineError("levels", "failed", "fails as it was told to")
        self._note(text)
        lasts = int(request.pcm.duration_ms)
        words = (Word(text, 400, lasts - 200, 0.9),) if request.word_times else ()
        doubt = "loop" if text == self.options.doubts else ""
        segment = Segment(text, 0, lasts, words=words)
        yield Transcript(text, request.language or "en", (segment,), doubt)

    def _hangs(self) -> bool:
        return Path(self.options.hangs).exists()

    def _note(self, text: str) -> None:
        if self.options.heard:
            with Path(self.options.heard).open("a") as file:
                file.write(f"{text}\n")


def create(options: Options, models: object) -> Levels:
    return Levels(options)
