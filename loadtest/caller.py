"""A caller that costs next to nothing, so that what is measured is the server.

Frames are encoded once for all callers and sent on an absolute schedule; of what comes back,
only the audio's arrival is looked at. ``voice load`` has callers that behave like people.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from loadtest.websocket import TEXT, Address, Inbox, handshake, text_frame

FRAME_MS: Final = 20
RATE: Final = 24_000
FRAME_SAMPLES: Final = RATE * FRAME_MS // 1000

_AUDIO: Final = b'"type":"response.output_audio.delta"'
_DELTA: Final = b'"delta":"'
_DONE: Final = b'"type":"response.done"'
_ERROR: Final = b'"type":"error"'
_STARTED: Final = b'"type":"input_audio_buffer.speech_started"'


def append_frame(pcm: bytes) -> bytes:
    """One frame of the caller's audio as it goes over the socket."""
    audio = base64.b64encode(pcm).decode()
    return text_frame(f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}'.encode())


@dataclass(slots=True)
class Heard:
    """What one caller got: when (loop seconds) audio came, how much of it (ms), what ended."""

    audio_at: list[float] = field(default_factory=list)
    audio_ms: list[float] = field(default_factory=list)
    turns_at: list[float] = field(default_factory=list)
    responses: int = 0
    errors: list[bytes] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    lost: bool = False


class Caller(asyncio.Protocol):
    """One call: plays a program of frames, over and over, from ``start`` on."""

    def __init__(self, program: Sequence[bytes], session: bytes, on_open: Callable[[], None]):
        self.heard = Heard()
        self.began = 0.0
        self._program = program
        self._session = session
        self._on_open = on_open
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox()
        self._open = False
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        host, port = transport.get_extra_info("peername")[:2]
        self._transport.write(handshake(Address(host, port, "/v1/realtime?model=load"), {}))

    def connection_lost(self, _exc: Exception | None) -> None:
        self.heard.lost = True
        if self._timer is not None:
            self._timer.cancel()

    def start(self, at: float) -> None:
        """Play from this loop time on: frame n is sent at ``at`` + n frames."""
        self.began = at
        self._timer = self._loop.call_at(at, self._play)

    def hang_up(self) -> None:
        """Leave without a word."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _play(self) -> None:
        assert self._transport is not None
        due = self.began + self._sent * FRAME_MS / 1000
        self.heard.late_s.append(self._loop.time() - due)
        self._transport.write(self._program[self._sent % len(self._program)])
        self._sent += 1
        self._timer = self._loop.call_at(due + FRAME_MS / 1000, self._play)

    def data_received(self, data: bytes) -> None:
        if not self._open:
            answer = self._inbox.answer(data)
            if answer is None:
                return
            if answer.status != 101:
                self.heard.errors.append(answer.body)
                return
            self._open, data = True, b""
            assert self._transport is not None
            self._transport.write(text_frame(self._session))
            self._on_open()
        for opcode, message in self._inbox.messages(data):
            if opcode == TEXT:
                self._take(message)

    def _take(self, message: bytes) -> None:
        top = message[:200]
        if _AUDIO in top:
            begin = message.index(_DELTA) + len(_DELTA)
            encoded = message.index(b'"', begin) - begin
            self.heard.audio_at.append(self._loop.time())
            self.heard.audio_ms.append(encoded * 3 / 4 / 2 / RATE * 1000)
        elif _DONE in top:
            self.heard.responses += 1
        elif _STARTED in top:
            self.heard.turns_at.append(self._loop.time())
        elif _ERROR in top:
            self.heard.errors.append(message)
