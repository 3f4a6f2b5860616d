"""Who speaks when, by pyannote.audio 4 (MIT), in a process of its own that gives way to all else.

Without further settings its models are two that come with the package index: the segmentation of
pyannote's authors (MIT) and Resemblyzer's voices (Apache-2.0). ``pipeline`` names a better one,
such as ``pyannote/speaker-diarization-community-1`` (CC-BY-4.0; its conditions are to be accepted
at the hub), or a folder with its files.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from engines.audio import Pcm
from engines.diarization.assembly import RATE, Recipe
from engines.diarization.turns import Diarization, DiarizationRequest, Diarizer, SpeakerTurn
from engines.diarization.worker import MODULE, Answer, Failed, Job, Setup
from engines.extras import how_to_install
from engines.models import ModelStore
from engines.ports import EngineError

logger = logging.getLogger(__name__)

_NAME: Final = "pyannote"
COMMAND: Final = (sys.executable, "-P", "-m", MODULE)
"""``-P``: no module of the folder that a command is run in."""

_MOST_LINE: Final = 1 << 26
"""Bytes of an answer: ten hours of turns are 3 MB."""


@dataclass(frozen=True, slots=True)
class Options:
    """``pipeline``: a folder or a name at the hub, in place of ``segmentation`` and ``embedding``,
    which are names of the model store or folders. ``device`` is one of torch's; ``threads`` 0
    leaves torch's own number, which on a busy machine costs several times the CPU, since threads
    spin while they wait for each other; ``niceness`` is how far all other processes go before.

    ``step``: the part of a window (5 s) between two; twice as much takes half the time.
    ``compile`` is for GPUs alone. ``onset``: how sure segmentation must be that somebody speaks;
    ``likeness``: how unlike two voices of one speaker may be (a cosine distance): with less there
    are more speakers. Both are of the models named here, and a ``pipeline`` has its own.
    """

    pipeline: str = ""
    segmentation: str = "pyannote-segmentation"
    embedding: str = "resemblyzer"
    device: str = "cpu"
    threads: Annotated[int, Meta(ge=0)] = 1
    niceness: Annotated[int, Meta(ge=0, le=19)] = 10
    step: Annotated[float, Meta(ge=0.02, le=1.0)] = 0.1
    segmentation_batch: Annotated[int, Meta(ge=1)] = 32
    embedding_batch: Annotated[int, Meta(ge=1)] = 32
    compile: bool = True
    onset: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    likeness: Annotated[float, Meta(gt=0, le=2)] = 0.26


def create(options: Options, models: ModelStore) -> Diarizer:
    """The diarizer; its process starts with the first recording, or at ``warm_up``. Raises
    EngineError where a package or a model is missing."""
    if importlib.util.find_spec("pyannote") is None or not importlib.util.find_spec(
        "pyannote.audio"
    ):
        told = f"telling speakers apart needs pyannote.audio: {how_to_install('diarize')}"
        raise EngineError(_NAME, "unavailable", told)
    return Pyannote(_setup(options, models))


def _setup(options: Options, models: ModelStore) -> Setup:
    pipeline, segmentation, embedding = "", "", ""
    if options.pipeline:
        pipeline = models.locate(options.pipeline)
    else:
        # What lies there is unpickled: the store has looked at each file's hash.
        segmentation = str(models.path(options.segmentation) / "pytorch_model.bin")
        embedding = str(models.path(options.embedding) / "pretrained.pt")
    recipe = Recipe(
        pipeline=pipeline,
        segmentation=segmentation,
        embedding=embedding,
        device=options.device,
        threads=options.threads,
        step=options.step,
        segmentation_batch=options.segmentation_batch,
        embedding_batch=options.embedding_batch,
        compile=options.compile,
        onset=options.onset,
        likeness=options.likeness,
    )
    return Setup(recipe, options.niceness)


class Pyannote:
    """A ``Diarizer``: one recording after the other. Can be paused in the middle of one."""

    def __init__(self, setup: Setup, command: Sequence[str] = COMMAND) -> None:
        """``command`` starts a process that speaks as ``engines.diarization.worker`` does."""
        self._setup = setup
        self._command = command
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._paused = False

    async def warm_up(self) -> None:
        """Start the process and load the models (10 s or so). Raises EngineError."""
        async with self._turn:
            await self._started()

    async def close(self) -> None:
        """End the process."""
        self._kill()
        async with self._turn:
            await self._end()

    @asynccontextmanager
    async def open(self, request: DiarizationRequest) -> AsyncIterator[AsyncIterator[Diarization]]:
        """One diarization. Left before it has come, its process is ended, and another started for
        the next. Raises EngineError: ``bad_request``, ``unavailable``, ``failed``."""
        if request.pcm.rate != RATE:
            told = f"the audio has {request.pcm.rate} samples a second, the models hear {RATE}"
            raise EngineError(_NAME, "bad_request", f"{told}: resample it first")
        least, most = _bounds(request)
        async with aclosing(self._diarizations(request.pcm, least, most)) as diarizations:
            yield diarizations

    def pause(self) -> None:
        """Let the process stand still, whatever it is at."""
        self._paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._paused = False
        self._signal(signal.SIGCONT)

    async def _diarizations(
        self, pcm: Pcm, least: int, most: int | None
    ) -> AsyncGenerator[Diarization, None]:
        async with self._turn:
            with _file_of(pcm) as path:
                process = await self._started()
                answer = await self._ask(process, Job(path, least, most))
        if isinstance(answer, Failed):
            raise EngineError(_NAME, answer.code, answer.message)
        turns, exclusive = (
            tuple(SpeakerTurn(*turn) for turn in turns)
            for turns in (answer.turns, answer.exclusive)
        )
        yield Diarization(turns, exclusive)

    async def _started(self) -> asyncio.subprocess.Process:
        """The process with the models loaded."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MOST_LINE,
        )
        answer = await self._ask(process, self._setup)
        if isinstance(answer, Failed):
            await self._end()
            raise EngineError(_NAME, answer.code, answer.message)
        return process

    async def _ask(self, process: asyncio.subprocess.Process, what: Setup | Job) -> Answer:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if self._paused:
                self._signal(signal.SIGSTOP)
            process.stdin.write(msgspec.json.encode(what) + b"\n")
            with suppress(ConnectionError):  # it has ended: told below
                await process.stdin.drain()
            line = await process.stdout.readline()
        except BaseException:
            await asyncio.shield(self._end())
            raise
        if not line:
            status = await process.wait()
            told = f"its process ended in the middle of its work (status {status}): see the log"
            why = f"{told}; -9 is often a lack of memory" if status == -signal.SIGKILL else told
            raise EngineError(_NAME, "failed", why)
        return msgspec.json.decode(line, type=Answer)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


def _bounds(request: DiarizationRequest) -> tuple[int, int | None]:
    """The least and the most speakers. Raises EngineError (``bad_request``)."""
    least = request.speakers if request.speakers is not None else request.least
    most = request.speakers if request.speakers is not None else request.most
    if least < 1 or (most is not None and most < least):
        told = f"{least} to {'any number of' if most is None else most} speakers cannot be"
        raise EngineError(_NAME, "bad_request", f"{told}: ask for 1 or more")
    return least, most


@contextmanager
def _file_of(pcm: Pcm) -> Iterator[str]:
    """A file with the samples and nothing else: the one that they are mapped from, or a copy."""
    mapped = _mapped_from(pcm)
    if mapped is not None:
        yield mapped
        return
    with tempfile.NamedTemporaryFile(prefix="antiphon-", suffix=".pcm") as copy:
        try:
            copy.write(np.ascontiguousarray(pcm.samples).data)
            copy.flush()
        except OSError as error:
            told = f"cannot write {copy.name} ({error}): make room in {Path(copy.name).parent}"
            raise EngineError(_NAME, "failed", told) from error
        yield copy.name


def _mapped_from(pcm: Pcm) -> str | None:
    samples = pcm.samples
    if not isinstance(samples, np.memmap) or samples.filename is None:
        return None
    path = str(samples.filename)
    whole = os.path.getsize(path) == samples.nbytes
    return path if whole else None
