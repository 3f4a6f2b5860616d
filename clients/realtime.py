"""A client of the Realtime door, for programs that call it: typed events over one WebSocket.

    async with connect("ws://127.0.0.1:8080/v1/realtime") as call:
        await call.configure({"instructions": "Be brief."})
        await call.say("Hello?")
        async for event in call:
            ...

It works against any server of the OpenAI Realtime protocol (GA).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.http11 import Response

from clients.addresses import websocket_of
from voice.wire.realtime import decode_server_event, encode
from voice.wire.realtime_client import (
    ClientEvent,
    ConversationItemCreateEvent,
    InputAudioBufferAppendEvent,
    ResponseCreateEvent,
    SessionUpdateEvent,
)
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_objects import InputTextContent, RealtimeMessageItem
from voice.wire.realtime_server import ServerEvent

log = logging.getLogger(__name__)

RATE = 24_000
FRAME_MS = 20
# Ten minutes of audio in one message is no reply that a caller could be waiting for.
_MAX_MESSAGE_BYTES = 32 * 2**20
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class CallError(Exception):
    """A call that could not be made, or that broke. The message says what to do."""


class RealtimeCall:
    """One open call. Iterate over it for what the server says, until the call ends."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, event: ClientEvent) -> None:
        """Say one event. Raises CallError once the call has ended."""
        try:
            await self._socket.send(encode(event))
        except ConnectionClosed as closed:
            raise CallError(_farewell(closed)) from closed

    async def configure(self, session: dict[str, Any]) -> None:
        """Change the session by part of a session object; ``session.updated`` answers."""
        await self.send(SessionUpdateEvent({"type": "realtime", **session}))

    async def append(self, samples: NDArray[np.int16]) -> None:
        """Say audio, 24 kHz mono, as one event."""
        await self.send(InputAudioBufferAppendEvent(samples.astype("<i2", copy=False).tobytes()))

    async def say(self, text: str) -> None:
        """Write to the agent, and ask for its reply."""
        item = RealtimeMessageItem("user", [InputTextContent(text)])
        await self.send(ConversationItemCreateEvent(item))
        await self.send(ResponseCreateEvent())

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        """What the server says. Ends with a proper close, raises CallError on any other end."""
        try:
            async for message in self._socket:
                if event := _understood(message):
                    yield event
        except ConnectionClosed as closed:
            raise CallError(_farewell(closed)) from closed


class Microphone:
    """A line that stays open: what there is to say, and silence otherwise.

    Frames leave on an absolute schedule, each when its last sample would have been recorded, so
    a late frame does not delay those after it. ``now`` of a sample is thus exact.
    """

    def __init__(self, call: RealtimeCall, frame_ms: int = FRAME_MS) -> None:
        self._call = call
        self._frame = RATE * frame_ms // 1000
        self._queue = np.zeros(0, np.int16)
        self._said: list[NDArray[np.int16]] = []
        self._sent = 0
        self._start: float | None = None

    @property
    def start(self) -> float:
        """The loop's time at which the line was opened."""
        if self._start is None:
            self._start = asyncio.get_running_loop().time()
        return self._start

    @property
    def busy(self) -> bool:
        """Whether there is something left to say."""
        return len(self._queue) > 0

    def say(self, samples: NDArray[np.int16]) -> float:
        """Queue 24 kHz mono. The loop's time at which its first sample is spoken."""
        begin = self.start + (self._sent + len(self._queue)) / RATE
        self._queue = np.concatenate([self._queue, samples])
        return begin

    async def tick(self) -> float:
        """Wait for the next frame's time, send it, and give the loop's time."""
        loop = asyncio.get_running_loop()
        due = self.start + (self._sent + self._frame) / RATE
        await asyncio.sleep(due - loop.time())
        frame, self._queue = self._queue[: self._frame], self._queue[self._frame :]
        frame = np.pad(frame, (0, self._frame - len(frame)))
        self._sent += self._frame
        self._said.append(frame)
        await self._call.append(frame)
        return loop.time()

    def recording(self) -> NDArray[np.int16]:
        """All that has been said since the line was opened, silence included."""
        return np.concatenate(self._said) if self._said else np.zeros(0, np.int16)


@asynccontextmanager
async def connect(
    url: str, api_key: str | None = None, model: str | None = None, timeout_s: float = 10.0
) -> AsyncIterator[RealtimeCall]:
    """Call the server at ``url``: ws://HOST:PORT/v1/realtime, or less of it as ``websocket_of`` of
    ``clients.addresses`` completes it.

    Raises CallError where nobody answers or the call is refused. Hangs up on leaving.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    url, host = _address(url)
    target = f"{url}{'&' if '?' in url else '?'}model={quote(model)}" if model else url
    try:
        socket = await connect_websocket(
            target,
            additional_headers=headers,
            open_timeout=timeout_s,
            max_size=_MAX_MESSAGE_BYTES,
            # Base64 of noise does not shrink, and deflating it costs both sides a core.
            compression=None,
            # A proxy of the environment must not be asked for this machine.
            proxy=None if host in _LOOPBACK else True,
        )
    except (OSError, InvalidHandshake) as error:
        raise CallError(_explanation(error, url, bool(api_key))) from error
    async with socket:
        yield RealtimeCall(socket)


def _address(url: str) -> tuple[str, str]:
    """The address of the WebSocket that is meant, and its host."""
    try:
        parts = websocket_of(url)
    except ValueError:
        told = f"{url} is no address: it should look like ws://HOST:PORT/v1/realtime."
        raise CallError(told) from None
    return parts.geturl(), parts.hostname or ""


def _understood(message: str | bytes) -> ServerEvent | None:
    """None for an event of a later protocol. Raises CallError for what is no event at all."""
    try:
        return decode_server_event(message)
    except WireError as error:
        if error.param == "type" and error.code == "invalid_value":
            log.debug("passed over an event that is not known here: %s", message[:200])
            return None
        raise CallError(f"The server sent what is no Realtime event. {error.message}") from error


def _explanation(error: Exception, url: str, has_key: bool) -> str:
    if isinstance(error, InvalidStatus):
        return _refusal(error.response, url, has_key)
    if isinstance(error, TimeoutError):
        return f"No answer from {url} in time: is the server overloaded, or the address wrong?"
    if isinstance(error, ConnectionRefusedError):
        return f"Nothing listens at {url}: start the server with `voice serve`."
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
        plain = url.replace("wss://", "http://", 1)
        return f"{url} does not speak TLS: a server without a proxy before it is called by {plain}."
    return f"Could not call {url}: {error}."


def _refusal(response: Response, url: str, has_key: bool) -> str:
    status = response.status_code
    if status == 401 and not has_key:
        return f"{url} asks for an API key: pass --api-key."
    if status == 401:
        return f"{url} refused the API key (HTTP 401): pass the right one with --api-key."
    if status == 403:
        return f"You may not use {url} (HTTP 403): is the path /v1/realtime, and the server yours?"
    if status == 404:
        return f"{url} is not there (HTTP 404): the path should be /v1/realtime."
    if status in (429, 503):
        wait_s = response.headers.get("Retry-After")
        later = f"in {wait_s} s" if wait_s else "later"
        return f"{url} takes no more calls now (HTTP {status}): try again {later}."
    return f"{url} refused the call (HTTP {status})."


def _farewell(closed: ConnectionClosed) -> str:
    if closed.rcvd is None:
        return "The connection to the server broke."
    reason = f": {closed.rcvd.reason}" if closed.rcvd.reason else ""
    if closed.rcvd.code == CloseCode.INTERNAL_ERROR:
        reason += "; the server's log says why"
    return f"The server ended the call (code {closed.rcvd.code}{reason})."
