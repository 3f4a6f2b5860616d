"""The callers of the comparison: the same recording over and over, in real time, to any of them.

Antiphon is called over its Realtime wire, JSON with base64 at 24 kHz; the peers over the plainest
wire that there is, audio in binary messages at the rate that their VAD wants. That is to their
advantage. Messages are made once for all callers, and of what comes only the audio is looked at.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import numpy as np
import soxr

from engines.audio import Samples
from loadtest.peers.script import IN_RATE, OUT_RATE, PATH, SILENCE_S
from loadtest.websocket import Address, Inbox, handshake, text_frame

FRAME_MS: Final = 20
PREBUFFER_S: Final = 0.060
_BETWEEN_REPLIES_S: Final = 0.5
_DELTA: Final = b'"delta":"'


class Wire(Protocol):
    """How audio goes to a server and comes back."""

    rate: int

    def hello(self) -> bytes:
        """What is sent first."""

    def frame(self, pcm: bytes) -> bytes:
        """A caller's audio as it goes over the line."""

    def heard_s(self, message: bytes) -> float:
        """Seconds of audio in a message of the server's."""


class RealtimeWire:
    """The OpenAI Realtime protocol."""

    rate = 24_000

    def hello(self) -> bytes:
        turns = {"type": "server_vad", "silence_duration_ms": round(1000 * SILENCE_S)}
        session = {"type": "realtime", "audio": {"input": {"turn_detection": turns}}}
        return text_frame(json.dumps({"type": "session.update", "session": session}).encode())

    def frame(self, pcm: bytes) -> bytes:
        audio = base64.b64encode(pcm)
        return text_frame(b'{"type":"input_audio_buffer.append","audio":"' + audio + b'"}')

    def heard_s(self, message: bytes) -> float:
        if b'"response.output_audio.delta"' not in message[:80]:
            return 0.0
        begin = message.index(_DELTA) + len(_DELTA)
        return (message.index(b'"', begin) - begin) * 3 / 8 / self.rate


class PlainWire:
    """16-bit audio in binary messages, and nothing else."""

    rate = IN_RATE

    def hello(self) -> bytes:
        return b""

    def frame(self, pcm: bytes) -> bytes:
        size = len(pcm)
        head = struct.pack("!BB", 0x82, 0x80 | size) if size < 126 else _long_head(size)
        return head + b"\0\0\0\0" + pcm

    def heard_s(self, message: bytes) -> float:
        return len(message) / 2 / OUT_RATE


def _long_head(size: int) -> bytes:
    return struct.pack("!BBH", 0x82, 0x80 | 126, size)


@dataclass(frozen=True, slots=True)
class Program:
    """A turn and the time in which it is answered. ``frames`` (n, samples) at 16 kHz; the caller
    falls silent ``speech_s`` after the first sample of it."""

    samples: Samples
    speech_s: float

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / IN_RATE

    def messages(self, wire: Wire) -> list[bytes]:
        """All of it as it goes over this wire, 20 ms each."""
        samples = self.samples
        if wire.rate != IN_RATE:
            floats = soxr.resample(samples.astype(np.float32), IN_RATE, wire.rate)
            samples = np.clip(np.rint(floats), -32_768, 32_767).astype(np.int16)
        size = wire.rate * FRAME_MS // 1000
        whole = len(samples) // size * size
        return [wire.frame(samples[at : at + size].tobytes()) for at in range(0, whole, size)]


@dataclass(slots=True)
class Heard:
    """What one caller got: when audio came and how much of it, in seconds; how late (s) it sent;
    whether it lost its call."""

    arrivals: list[tuple[float, float]] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    lost: bool = False

    def answers(self, began: float, program: Program, until: float) -> list[float | None]:
        """For each turn that ended before ``until``: seconds from its last sound to the first
        audio behind it; None where none came before the next turn."""
        at = np.array([arrival for arrival, _ in self.arrivals])
        waits: list[float | None] = []
        ended = began + program.speech_s
        while ended + program.seconds - program.speech_s <= until:
            first = int(np.searchsorted(at, ended))
            wait = float(at[first] - ended) if first < len(at) else float("inf")
            waits.append(wait if wait < program.seconds - program.speech_s else None)
            ended += program.seconds
        return waits

    def gaps(self) -> int:
        """How often a player that holds back 60 ms runs dry inside a reply."""
        gaps, dry_at = 0, float("-inf")
        for at, seconds in self.arrivals:
            if at > dry_at + _BETWEEN_REPLIES_S:
                dry_at = at + PREBUFFER_S
            elif at > dry_at:
                gaps, dry_at = gaps + 1, at
            dry_at += seconds
        return gaps


class Caller(asyncio.Protocol):
    """One call. ``opened`` is done once the server has answered."""

    def __init__(self, wire: Wire, messages: Sequence[bytes], port: int) -> None:
        self.heard = Heard()
        self.began = 0.0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire = wire
        self._messages = messages
        self._address = Address("127.0.0.1", port, PATH)
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox()
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(handshake(self._address, {}))

    def connection_lost(self, _exc: Exception | None) -> None:
        self.heard.lost = self._timer is not None
        self._stop()
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the server hung up on the handshake"))

    def start(self, at: float) -> None:
        """Speak from this loop time on: message n is sent at ``at`` + n frames."""
        self.began = at
        self._timer = self._loop.call_at(at, self._speak)

    def hang_up(self) -> None:
        """Leave without a word."""
        self._stop()
        if self._transport is not None:
            self._transport.abort()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _speak(self) -> None:
        assert self._transport is not None
        due = self.began + self._sent * FRAME_MS / 1000
        self.heard.late_s.append(self._loop.time() - due)
        self._transport.write(self._messages[self._sent % len(self._messages)])
        self._sent += 1
        self._timer = self._loop.call_at(due + FRAME_MS / 1000, self._speak)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            answer = self._inbox.answer(data)
            if answer is None:
                return
            if answer.status != 101:
                self.opened.set_exception(ConnectionError(f"HTTP {answer.status}: {answer.body!r}"))
                return
            assert self._transport is not None
            self._transport.write(self._wire.hello())
            self.opened.set_result(None)
            data = b""
        now = self._loop.time()
        for _, message in self._inbox.messages(data):
            if seconds := self._wire.heard_s(message):
                self.heard.arrivals.append((now, seconds))
