"""The decoder as the event loop sees it: each voice hands in its frames and awaits its samples;
what is handed in at about the same time is decoded together."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.batching.policy import BatchPolicy
from engines.batching.runner import BatchRunner
from engines.batching.schedule import now_ms
from engines.ports import EngineError, FloatArray, Load

if TYPE_CHECKING:
    from engines.tts.snac import SnacDecoder
    from engines.workers import Workers

Codes: TypeAlias = NDArray[np.int64]
Item: TypeAlias = "tuple[SnacStream, Codes | None]"

_FIRST_WITHIN_MS: Final = 5.0
"""Until a voice is heard, each of its frames is wanted this soon."""
_SILENT_AFTER_MS: Final = 170.0
"""A voice that has handed in nothing for two frames' time is not waited for."""
_SLACK_MS: Final = 2.0
_NOTHING: Final[FloatArray] = np.empty(0, np.float32)


class SnacStream:
    """One voice. Made by ``SnacStreams.open``."""

    def __init__(self, streams: SnacStreams, slot: int, seed: int) -> None:
        self.slot = slot
        self.seed = seed
        self.closed = False
        self.handed_in_at = float("-inf")
        self.waits = False
        self._streams = streams
        self._frames = 0
        self._samples = 0
        self._broken = ""

    async def decode(self, frame: Sequence[int], deadline_ms: float) -> FloatArray:
        """Hand in the next 7 codes: the samples that are due now, in [-1, 1], maybe none.

        ``deadline_ms`` of the loop's clock is when they are to be played; the first ones are
        wanted within 5 ms. Raises EngineError: ``bad_request`` for what is no frame, which may
        then be handed in anew; anything else ends the voice.
        """
        try:
            codes = self._streams.decoder.check(frame)
        except ValueError as error:
            raise EngineError("snac", "bad_request", str(error)) from error
        self._frames += 1
        return await self._step(codes, deadline_ms)

    async def finish(self, deadline_ms: float) -> FloatArray:
        """The rest of the voice: with what came before, 2048 samples for each frame."""
        decoder = self._streams.decoder
        pieces = [_NOTHING]
        for _ in range(decoder.tail_steps if self._frames else 0):
            pieces.append(await self._step(None, deadline_ms))
            deadline_ms += 1000.0 * len(pieces[-1]) / decoder.sample_rate
        self._break("it has ended: open a new one")
        return np.concatenate(pieces)

    def is_speaking(self, now: float) -> bool:
        """It hands in, so a batch may wait for it."""
        return self.waits or now - self.handed_in_at < _SILENT_AFTER_MS

    async def _step(self, codes: Codes | None, deadline_ms: float) -> FloatArray:
        if self.closed or self._broken:
            why = self._broken or "it was left"
            raise EngineError("snac", "failed", f"this voice takes no more: {why}")
        now = now_ms()
        if not self._samples:
            deadline_ms = min(deadline_ms, now + _FIRST_WITHIN_MS)
        # Said beforehand: a voice that has lost a frame must not go on, however it was lost.
        self._broken = "a frame of it is not decoded yet, or was lost: await each one"
        self.handed_in_at, self.waits = now, True
        try:
            audio = await self._streams.submit((self, codes), deadline_ms)
        finally:
            self.waits = False
        self.handed_in_at = now_ms()
        self._broken = ""
        self._samples += len(audio)
        return audio

    def _break(self, why: str) -> None:
        self._broken = why
        self.handed_in_at = float("-inf")
        self._streams.changed()


class SnacStreams:
    """Decodes many voices on one device. Create and use it on one running loop.

    ``workers`` is that device's single thread; whoever made it closes it, after this.
    """

    def __init__(self, decoder: SnacDecoder, *, window_ms: float = 15.0, workers: Workers) -> None:
        self.decoder = decoder
        self._open: set[SnacStream] = set()
        self._running: list[SnacStream] = []
        self._lock = threading.Lock()
        self._runner: BatchRunner[Item, FloatArray] = BatchRunner(
            "snac",
            self._run,
            BatchPolicy(max_batch=decoder.slots, window_ms=window_ms, slack_ms=_SLACK_MS),
            expected=self._speaking,
            workers=workers,
        )
        self.submit = self._runner.submit
        self.changed = self._runner.changed

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[SnacStream, None]:
        """A slot for one voice, whose noise is that of ``seed``.

        Raises EngineError (``unavailable``) where none is free. It is given back on leaving,
        but not before a step that it may be part of is over.
        """
        stream = SnacStream(self, self.decoder.open(seed), seed)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.remove(stream)
            self._leave(stream)
            self.changed()

    def load(self) -> Load:
        """What the decoder is doing now."""
        return replace(self._runner.load(), slots=self.decoder.slots, busy=self.decoder.open_slots)

    async def close(self) -> None:
        """Fail what waits, and wait for the step that runs."""
        self._runner.close()
        await self._runner.wait_closed()

    def _speaking(self) -> int:
        now = now_ms()
        return sum(stream.is_speaking(now) for stream in self._open)

    def _leave(self, stream: SnacStream) -> None:
        with self._lock:
            stream.closed = True
            if stream not in self._running:
                self.decoder.close(stream.slot)

    def _run(self, items: list[Item]) -> list[FloatArray]:
        """In the device's thread. A voice that was left after its item was taken from the queue
        is passed over; one that is left meanwhile keeps its slot until the step is over."""
        with self._lock:
            items_left = [item for item in items if not item[0].closed]
            self._running = [stream for stream, _ in items_left]
        try:
            slots = [stream.slot for stream in self._running]
            audio = self.decoder.step(slots, [codes for _, codes in items_left])
            heard = dict(zip(self._running, audio, strict=True))
        except RuntimeError as error:  # of the device: out of memory, lost
            raise EngineError(
                "snac", "failed", f"cannot decode {len(items)} frames: {error}"
            ) from error
        finally:
            self._end_run()
        return [heard.get(stream, _NOTHING) for stream, _ in items]

    def _end_run(self) -> None:
        with self._lock:
            for stream in self._running:
                if stream.closed:
                    self.decoder.close(stream.slot)
            self._running = []
