"""A caller on a telephone, for programs: over any carrier's wire, as that carrier would put him on.

    async with dial("ws://127.0.0.1:8080/phone", Twilio()) as call:
        await call.say(samples)
        await call.wait_heard_s(1.0)
        call.press("5")

Samples are int16, one channel, at the carrier's rate (``Twilio.rate``), both ways. ``Telephone``
is the same without a network: messages in, messages out, on a clock passed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from clients.phone_carriers import Exotel, Plivo, Telnyx, Twilio
from clients.phone_exchanges import Asterisk, AudioSocket, FreeSwitch, Genesys, Vonage
from clients.phone_playout import Playout
from clients.phone_words import CarrierError, Message, Samples, Words

__all__ = [
    "CARRIERS",
    "Asterisk",
    "AudioSocket",
    "CarrierError",
    "Exotel",
    "FreeSwitch",
    "Genesys",
    "PhoneCall",
    "Plivo",
    "Telephone",
    "Telnyx",
    "Twilio",
    "Vonage",
    "dial",
]

CARRIERS: Final[dict[str, Callable[[], Words]]] = {
    "twilio": Twilio,
    "telnyx": Telnyx,
    "plivo": Plivo,
    "exotel": Exotel,
    "vonage": Vonage,
    "genesys": Genesys,
    "freeswitch": FreeSwitch,
    "asterisk": Asterisk,
    "audiosocket": AudioSocket,
}
_READ_BYTES: Final = 4_096


def _check_int16(samples: Samples) -> None:
    if samples.dtype != np.int16:
        raise TypeError(
            f"the samples are {samples.dtype}: give int16. Floats from -1 to 1 become it by"
            " (samples * 32767).astype(np.int16)"
        )


class Telephone:
    """One call as a carrier sees it: what the caller does goes out, what the server says plays in
    real time. ``now`` is in seconds, and never goes back. All methods that take or give a message
    give what is to be sent at once."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.playout = Playout(words.rate)
        self.keys = ""
        self.hung_up = False
        self.clears: list[float] = []

    def hello(self) -> list[Message]:
        """The call is put through."""
        return self.words.hello()

    def say(self, samples: Samples) -> list[Message]:
        """The caller's next ``frame_ms`` of audio. Raises TypeError where it is not int16."""
        _check_int16(samples)
        return self.words.media(samples)

    def press(self, digits: str) -> list[Message]:
        """The caller presses keys."""
        return [message for digit in digits for message in self.words.key(digit)]

    def hang_up(self) -> list[Message]:
        """The caller hangs up."""
        return self.words.bye()

    def take(self, message: Message, now: float) -> list[Message]:
        """The server says something. Raises CarrierError where a carrier would not have understood
        it."""
        told = self.words.read(message)
        said = [*self.tick(now), *told.answers]
        if told.audio is not None:
            self.playout.put(told.audio, now)
        if told.mark is not None:
            self.playout.mark(told.mark, now)
            said += self.tick(now)
        if told.clear:
            said += self._clear(now)
        self.keys += told.keys
        self.hung_up |= told.hang_up
        return said

    def tick(self, now: float) -> list[Message]:
        """Time has gone on: the marks that were reached."""
        return [m for mark in self.playout.due(now) for m in self.words.played(mark)]

    @property
    def deadline(self) -> float | None:
        """When ``tick`` has something to give."""
        return self.playout.deadline

    def _clear(self, now: float) -> list[Message]:
        self.clears.append(now)
        waiting = self.playout.clear(now)
        back = waiting if self.words.returns_cleared else []
        return [*self.words.cleared(), *(m for mark in back for m in self.words.played(mark))]


class Line(Protocol):
    """What carries messages."""

    async def send(self, message: Message) -> None: ...

    def __aiter__(self) -> AsyncIterator[Message]: ...


class _WebSocketLine:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, message: Message) -> None:
        await self._socket.send(message)

    async def __aiter__(self) -> AsyncIterator[Message]:
        try:
            async for message in self._socket:
                yield message
        except ConnectionClosed:
            return


class _TcpLine:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: Message) -> None:
        self._writer.write(message if isinstance(message, bytes) else message.encode())
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[Message]:
        try:
            while piece := await self._reader.read(_READ_BYTES):
                yield piece
        except OSError:
            return


class PhoneCall:
    """One open call. The caller is silent where he has nothing to say; frames leave on an absolute
    schedule, each when its last sample has been spoken."""

    def __init__(self, line: Line, telephone: Telephone) -> None:
        self.telephone = telephone
        self.ended = asyncio.Event()
        self._line = line
        self._loop = asyncio.get_running_loop()
        self.start = self._loop.time()
        self._frame = telephone.words.rate * telephone.words.frame_ms // 1000
        self._queue = np.zeros(0, np.int16)
        self._spoken = asyncio.Event()
        self._told = asyncio.Event()
        self._outbox: list[Message] = []
        self._stirred = asyncio.Condition()

    async def say(self, samples: Samples) -> None:
        """Speak, at the carrier's rate, after what there is still to say; wait until it is said.
        Raises TypeError where the samples are not int16."""
        _check_int16(samples)
        self._queue = np.concatenate([self._queue, samples])
        self._spoken.clear()
        await self._spoken.wait()

    def press(self, digits: str) -> None:
        """Press keys, beside what is being said."""
        self._outbox += self.telephone.press(digits)

    async def hang_up(self) -> None:
        """Hang up, as a caller does; leaving the context closes the line."""
        await self._send(self.telephone.hang_up())

    @property
    def heard_s(self) -> float:
        """Seconds of sound that have been played to the caller."""
        return self.telephone.playout.heard_s(self._loop.time())

    def heard(self) -> Samples:
        """All that came out of the telephone since the call began, silence and all."""
        return self.telephone.playout.heard(self.start, self._loop.time())

    async def wait_heard_s(self, seconds: float) -> None:
        """Wait until so much has been played in all."""
        async with self._stirred:
            await self._stirred.wait_for(lambda: self.heard_s >= seconds or self.ended.is_set())
        if self.heard_s < seconds:
            raise CarrierError(f"the line was closed after {self.heard_s:.2f} s of sound")

    async def _speak(self) -> None:
        """The caller's side, until the line is closed."""
        sent = 0
        while not self.ended.is_set():
            sent += 1
            await self._wait_until(self.start + sent * self._frame / self.telephone.words.rate)
            frame, self._queue = self._queue[: self._frame], self._queue[self._frame :]
            silence = np.zeros(self._frame - len(frame), np.int16)
            pressed, self._outbox = self._outbox, []
            await self._send([*self.telephone.say(np.concatenate([frame, silence])), *pressed])
            if not len(self._queue):
                self._spoken.set()
            async with self._stirred:
                self._stirred.notify_all()

    async def _wait_until(self, due: float) -> None:
        """Wait, and return the marks that are reached meanwhile."""
        while (now := self._loop.time()) < due:
            mark = self.telephone.deadline
            wait_s = min(due, mark if mark is not None else due) - now
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), max(0.0, wait_s))
            self._told.clear()
            await self._send(self.telephone.tick(self._loop.time()))

    async def _listen(self) -> None:
        async for message in self._line:
            await self._send(self.telephone.take(message, self._loop.time()))
            self._told.set()
            if self.telephone.hung_up:
                break
        self.ended.set()
        self._spoken.set()
        async with self._stirred:
            self._stirred.notify_all()

    async def _send(self, messages: list[Message]) -> None:
        try:
            for message in messages:
                await self._line.send(message)
        except (ConnectionClosed, OSError):
            self.ended.set()


@asynccontextmanager
async def dial(
    url: str, words: Words, headers: Mapping[str, str] | None = None
) -> AsyncIterator[PhoneCall]:
    """Put a call through to a server: ``ws://`` or ``wss://`` with a path, or ``tcp://host:port``.
    Leaving the context hangs up."""
    async with _line(url, words, headers or {}) as line:
        telephone = Telephone(words)
        for message in telephone.hello():
            await line.send(message)
        call = PhoneCall(line, telephone)
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(call._listen()), tasks.create_task(call._speak())]
            try:
                yield call
            finally:
                for task in both:
                    task.cancel()


@asynccontextmanager
async def _line(url: str, words: Words, headers: Mapping[str, str]) -> AsyncIterator[Line]:
    parts = urlsplit(url)
    if parts.scheme == "tcp":
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            yield _TcpLine(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return
    spoken = [Subprotocol("media")] if words.name == "asterisk" else None
    async with connect_websocket(url, subprotocols=spoken, additional_headers=headers) as socket:
        yield _WebSocketLine(socket)
