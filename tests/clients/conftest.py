"""A small server of the Realtime protocol, for clients to call: it hears levels, not words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import numpy as np
import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voice.wire import realtime_client as said
from voice.wire import realtime_server as server
from voice.wire.realtime import decode, encode
from voice.wire.realtime_objects import (
    RealtimeError,
    RealtimeResponse,
    RealtimeResponseError,
    RealtimeResponseStatus,
    TranscriptionDurationUsage,
    TranscriptionError,
)
from voice.wire.realtime_session import RealtimeSession

SAMPLES_PER_MS = 24


@dataclass
class SmallServer:
    """Replies ``reply_ms`` of sound to each stretch of sound that ``silence_ms`` follow."""

    reply_ms: int = 120
    silence_ms: int = 60
    key: str = ""
    deaf: bool = False
    refuse_session: bool = False
    fail_reply: bool = False
    fail_transcript: bool = False
    hang_up_on_turn: int = 0
    url: str = ""
    session: dict[str, object] = field(default_factory=dict)
    heard: list[said.ClientEvent] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.paths.append(request.path)
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no\n")
        if not request.path.startswith("/v1/realtime"):
            return connection.respond(HTTPStatus.NOT_FOUND, "no\n")
        return None

    async def answer(self, socket: ServerConnection) -> None:
        try:
            await _Conversation(self, socket).hold()
        except ConnectionClosed:
            return


class _Conversation:
    def __init__(self, server: SmallServer, socket: ServerConnection) -> None:
        self._server = server
        self._socket = socket
        self._speaking = False
        self._silence_ms = 0
        self._turn = 0

    async def say(self, *events: server.ServerEvent) -> None:
        for event in events:
            await self._socket.send(encode(event))

    async def hold(self) -> None:
        await self.say(server.SessionCreatedEvent(RealtimeSession(id="sess")))
        async for message in self._socket:
            event = decode(message)
            if not isinstance(event, said.InputAudioBufferAppendEvent):
                self._server.heard.append(event)
            await self.react(event)

    async def react(self, event: said.ClientEvent) -> None:
        if isinstance(event, said.SessionUpdateEvent):
            self._server.session = event.session
            await self.settle()
        elif isinstance(event, said.ResponseCreateEvent):
            await self.reply()
        elif isinstance(event, said.InputAudioBufferAppendEvent) and not self._server.deaf:
            await self.listen(np.frombuffer(event.audio, "<i2"))

    async def settle(self) -> None:
        if self._server.refuse_session:
            await self.say(server.RealtimeErrorEvent(RealtimeError("invalid_request_error", "No.")))
        else:
            await self.say(server.SessionUpdatedEvent(RealtimeSession(id="sess")))

    async def listen(self, samples: np.ndarray) -> None:
        loud = int(np.abs(samples.astype(np.int32)).max()) > 500
        self._silence_ms = 0 if loud else self._silence_ms + len(samples) // SAMPLES_PER_MS
        if loud and not self._speaking:
            self._speaking = True
            self._turn += 1
            if self._turn == self._server.hang_up_on_turn:
                await self._socket.close(1011, "too loud")
            await self.say(server.InputAudioBufferSpeechStartedEvent(0, f"user_{self._turn}"))
        elif self._speaking and self._silence_ms >= self._server.silence_ms:
            self._speaking = False
            await self.take_turn()

    async def take_turn(self) -> None:
        item = f"user_{self._turn}"
        await self.say(
            server.InputAudioBufferSpeechStoppedEvent(0, item),
            server.InputAudioBufferCommittedEvent(item),
            server.InputAudioTranscriptionFailedEvent(
                item, 0, TranscriptionError(message="Mumbled.")
            )
            if self._server.fail_transcript
            else server.InputAudioTranscriptionCompletedEvent(
                item, 0, f"words {self._turn}", TranscriptionDurationUsage(0.2)
            ),
        )
        await self.reply()

    async def reply(self) -> None:
        response, item = f"resp_{self._turn}", f"item_{self._turn}"
        await self.say(server.ResponseCreatedEvent(RealtimeResponse(response, "in_progress")))
        if self._server.fail_reply:
            status = RealtimeResponseStatus("failed", error=RealtimeResponseError(message="Broke."))
            done = RealtimeResponse(response, "failed", status_details=status)
            await self.say(server.ResponseDoneEvent(done))
            return
        half = np.full(self._server.reply_ms * SAMPLES_PER_MS // 2, 1000, "<i2").tobytes()
        await self.say(
            server.ResponseAudioTranscriptDeltaEvent(response, item, 0, 0, "Hello, "),
            server.ResponseAudioDeltaEvent(response, item, 0, 0, half),
            server.ResponseAudioTranscriptDeltaEvent(response, item, 0, 0, f"caller {self._turn}."),
            server.ResponseAudioDeltaEvent(response, item, 0, 0, half),
            server.ResponseDoneEvent(RealtimeResponse(response, "completed")),
        )


@asynccontextmanager
async def serving(small: SmallServer) -> AsyncIterator[SmallServer]:
    async with serve(small.answer, "127.0.0.1", 0, process_request=small.admit) as listener:
        port = listener.sockets[0].getsockname()[1]
        small.url = f"ws://127.0.0.1:{port}/v1/realtime"
        yield small


@pytest.fixture
async def small_server() -> AsyncIterator[SmallServer]:
    """A server that listens; its behaviour may be changed before the call."""
    async with serving(SmallServer()) as small:
        yield small


@pytest.fixture
def serving_small() -> tuple[SmallServer, object]:
    """A server that does not listen yet, and the context in which it does."""
    return SmallServer(), serving
