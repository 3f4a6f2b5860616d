"""One request being spoken: piece after piece from tokens to audio, watched, ahead of its reader.

A speech model fails now and then, and a listener cannot unhear. So a piece in which a fault shows
is made again, with other lots, only while nobody has heard any of it; otherwise it ends, fading,
with the last frame that was right, and the next sentence follows: half a sentence is better than
the same one begun twice. Where the last attempt fails too, the clean part of it is said.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.ports import EngineError, Load
from engines.tokens.ports import TokenRequest, TokenSource
from engines.tts.orpheus_buffer import SpeechBuffer
from engines.tts.orpheus_text import seconds_of
from engines.tts.orpheus_tokens import FRAME_SAMPLES, Frame, FrameParser, ids_of
from engines.tts.orpheus_watch import Watch

_log = logging.getLogger(__name__)


class CodecStream(Protocol):
    """Frames of one voice in, its samples out: ``engines.tts.snac.SnacStream``."""

    async def decode(self, frame: Sequence[int], deadline_ms: float) -> NDArray[np.float32]: ...
    async def finish(self, deadline_ms: float) -> NDArray[np.float32]: ...


class Codec(Protocol):
    """Decodes several voices at once: ``engines.tts.snac.SnacStreams``."""

    def open(self, seed: int) -> AbstractAsyncContextManager[CodecStream]: ...
    def load(self) -> Load: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a few seconds. ``request`` makes the request for its tokens at an attempt."""

    text: str
    request: Callable[[int], TokenRequest]


class Speech:
    """Speaks pieces into a buffer. ``retries``: how often a piece may be made again; ``watched``:
    whether faults are looked for at all; ``made`` is told of tokens as they come."""

    def __init__(
        self,
        source: TokenSource,
        codec: Codec,
        buffer: SpeechBuffer,
        *,
        retries: int,
        watched: bool,
        made: Callable[[int], None],
    ) -> None:
        self._source = source
        self._codec = codec
        self._buffer = buffer
        self._retries = retries
        self._watched = watched
        self._made = made

    async def speak(self, pieces: Sequence[Piece]) -> None:
        """Until all is in the buffer, or an error is, for its reader."""
        try:
            await self._speak(pieces)
        except Exception as error:  # noqa: BLE001 - it is raised where the audio is read
            self._buffer.end(error)
        else:
            self._buffer.end()

    async def _speak(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            await self._speak_piece(piece)
        if pieces and not self._buffer.written:
            raise EngineError(
                "orpheus",
                "bad_response",
                f"the model made no audio of {pieces[0].text[:80]!r}: is it an Orpheus model?",
            )

    async def _speak_piece(self, piece: Piece) -> None:
        for attempt in range(self._retries + 1):
            start = self._buffer.written
            fault = await self._attempt(piece, attempt)
            if not fault:
                return
            _log.warning("attempt %d at %r %s", attempt + 1, piece.text[:80], fault)
            if self._buffer.written > start:
                return

    async def _attempt(self, piece: Piece, attempt: int) -> str:
        """The fault that ended it, if any. Its audio is in the buffer, unless it can be made
        again."""
        request, buffer, start = piece.request(attempt), self._buffer, self._buffer.written
        watch, fault = Watch(seconds_of(piece.text)), ""
        async with (
            self._codec.open(request.seed) as decoder,
            aclosing(self._frames(request)) as frames,
        ):
            async for frame in frames:
                if self._watched and (fault := watch.look(frame)):
                    break
                buffer.put(await decoder.decode(frame, buffer.due_ms))
            if self._watched and not fault:
                fault = watch.finish()
            if fault and attempt < self._retries and buffer.read <= start:
                buffer.cut(start)
                return fault
            await frames.aclose()
            buffer.put(await decoder.finish(buffer.due_ms))
        if fault:
            buffer.cut(start + watch.clean * FRAME_SAMPLES, fade=True)
        return fault

    async def _frames(self, request: TokenRequest) -> AsyncGenerator[Frame, None]:
        """The frames of a piece. While the buffer is full, the source is left: no source can
        pause, but each can go on from the tokens there are, whose keys and values it has kept.
        One that heeds no limit is left too, or it would never end."""
        made: list[int] = []
        while len(made) < request.max_tokens:
            left = request.max_tokens - len(made)
            leg = replace(request, prompt=(*request.prompt, *made), max_tokens=left)
            parser = FrameParser()
            async with self._source.open(leg) as chunks:
                async for chunk in chunks:
                    left -= len(chunk)
                    self._made(len(chunk))
                    for frame in parser.feed(chunk):
                        made += ids_of(frame)
                        yield frame
                    if left <= 0:
                        return
                    if self._buffer.full:
                        break
                else:
                    return
            await self._buffer.wait_room()
