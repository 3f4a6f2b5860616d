"""The clips of files, heard several at a time by a copy of the model that has little priority.

A decoder reads all of its weights for each token, so clips that are decoded together cost less
than one after the other. Nobody waits for a file, but callers do: they have the other copy, and the
threads of this one get what those leave of the processors, so that no clip of a call ever waits for
a batch to end. This copy is loaded with the first clip of a file.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from engines.asr.listening import RATE, Clip, Hearing
from engines.ports import Priority

T = TypeVar("T")

Kind: TypeAlias = tuple[float, str]
"""The temperature of an attempt, and the words before it: one call of the decoder has one of
each."""

_LEAST_URGENT: Final = 19

_MOST_SAMPLES: Final = 48 * RATE
"""Of a batch, all filled up to the longest: what a decoder looks at takes 1.2 MB a second with
Whisper base, and more with larger ones."""


class Attempts(Protocol):
    """A clip on its way to a hearing. ``kind`` is that of the next attempt; ``hearing`` is what
    came of them, once it is settled."""

    @property
    def kind(self) -> Kind: ...

    @property
    def hearing(self) -> Hearing | None: ...


Tried = TypeVar("Tried", bound=Attempts)


class Ensemble(Protocol[Tried]):
    """A model that hears several clips at a time, and is used by several threads at once."""

    def begin(self, clip: Clip) -> Tried:
        """Raises EngineError where it cannot be heard."""
        ...

    def go_on(self, clips: Sequence[Tried]) -> None:
        """One more attempt at each; all are of one kind. Raises EngineError."""
        ...


@dataclass(eq=False, slots=True)
class Waiting(Generic[Tried]):
    """A clip whose hearing somebody waits for, until it is ``left``."""

    clip: Clip
    arrival: int
    attempts: Tried | None = None
    told: Future[Hearing] = field(default_factory=Future)
    left: bool = False

    @property
    def kind(self) -> Kind:
        return self.attempts.kind if self.attempts else (0.0, self.clip.prompt)

    def fail(self, error: BaseException) -> None:
        """Tell whoever waits."""
        if not self.left and not self.told.done():
            self.told.set_exception(error)


class Together(Generic[Tried]):
    """A recogniser (``engines.asr.listening``) that takes ``slots`` clips at once: ``threads``
    hear ``batch`` of them each, and as many more wait to be chosen from.

    ``load`` makes the model: it is called once, in a thread of least urgency, whose threads
    inherit that. Raises EngineError.
    """

    def __init__(
        self, name: str, load: Callable[[], Ensemble[Tried]], threads: int, batch: int
    ) -> None:
        self.slots = 2 * threads * batch
        self._load = load
        self._batch = batch
        self._model: Ensemble[Tried] | None = None
        self._loading, self._choosing = threading.Lock(), threading.Lock()
        self._waiting: list[Waiting[Tried]] = []
        self._arrivals = itertools.count()
        self._pool = ThreadPoolExecutor(threads, f"{name}-files")

    async def warm_up(self) -> None:
        """Nothing: the first clip loads the model."""

    async def hear(self, clip: Clip, priority: Priority) -> Hearing:  # noqa: ARG002
        """Hear it with others. What nobody waits for any more goes no further than the batch that
        it is in."""
        each = Waiting[Tried](clip, next(self._arrivals))
        self._put(each)
        try:
            return await asyncio.wrap_future(each.told)
        except asyncio.CancelledError:
            each.left = True
            raise

    async def close(self) -> None:
        """Free the model, once the batches that it may still be hearing are done."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._model = None

    def _put(self, each: Waiting[Tried]) -> None:
        """One more waits, and one more look at those who do is due."""
        with self._choosing:
            self._waiting.append(each)
        self._pool.submit(self._hear_next)

    def _hear_next(self) -> None:
        batch = self._take()
        try:
            self._hear([each for each in batch if self._has_begun(each)])
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            for each in batch:
                each.fail(error)

    def _take(self) -> list[Waiting[Tried]]:
        with self._choosing:
            batch = chosen([each for each in self._waiting if not each.left], self._batch)
            self._waiting = [e for e in self._waiting if not e.left and e not in batch]
        return batch

    def _has_begun(self, each: Waiting[Tried]) -> bool:
        """False where it cannot be heard, which is no fault of the others."""
        model = self._loaded()
        try:
            each.attempts = each.attempts or model.begin(each.clip)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            each.fail(error)
        return each.attempts is not None

    def _hear(self, batch: Iterable[Waiting[Tried]]) -> None:
        tried = {each: each.attempts for each in batch if each.attempts}
        if tried:
            self._loaded().go_on(list(tried.values()))
        for each, attempts in tried.items():
            if each.left:
                continue
            if (hearing := attempts.hearing) is not None:
                each.told.set_result(hearing)
            else:
                self._put(each)

    def _loaded(self) -> Ensemble[Tried]:
        with self._loading:
            if self._model is None:
                self._model = unurgently(self._load)
            return self._model


def chosen(waiting: Sequence[Waiting[Tried]], most: int) -> list[Waiting[Tried]]:
    """Who goes next, ``most`` at a time: the one that has waited longest, and those of its kind
    that are nearest to it in length, since all are filled up to the longest."""
    if not waiting:
        return []
    first = min(waiting, key=lambda each: each.arrival)
    alike = [each for each in waiting if each.kind == first.kind]
    length = len(first.clip.samples)
    alike.sort(key=lambda each: (abs(len(each.clip.samples) - length), each.arrival))
    longest = np.maximum.accumulate([len(each.clip.samples) for each in alike])
    fitting = np.count_nonzero(longest * np.arange(1, len(alike) + 1) <= _MOST_SAMPLES)
    return alike[: max(1, min(most, int(fitting)))]


def unurgently(call: Callable[[], T]) -> T:
    """``call()`` in a thread of least urgency, which the threads that it starts take after. Only
    Linux has that for single threads."""
    told: Future[T] = Future()

    def run() -> None:
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LEAST_URGENT)
        try:
            told.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            told.set_exception(error)

    thread = threading.Thread(target=run, name="loading")
    thread.start()
    thread.join()
    return told.result()
