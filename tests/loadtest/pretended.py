"""A Realtime server of a few lines: it answers at the first silent frame after a sound."""

import asyncio
import base64
import http
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

TONE = base64.b64encode(b"\x00\x20" * 960).decode()
"""40 ms."""


@dataclass
class Pretended:
    """What it does, and what it has seen. ``refuse``: with this status; ``drop_after``: hangs up
    without a word after so many messages; ``reply_ms``: how long a reply is."""

    refuse: int = 0
    drop_after: int = 0
    reply_ms: int = 80
    calls: int = 0
    kinds: list[str] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def admit(self, _connection: ServerConnection, request: Request) -> Response | None:
        self.headers.append(request.headers)
        self.paths.append(request.path)
        if not self.refuse:
            return None
        body = json.dumps({"error": {"code": "server_full", "message": "All calls are taken."}})
        told = Headers({"Retry-After": "3", "Content-Length": str(len(body))})
        return Response(self.refuse, http.HTTPStatus(self.refuse).phrase, told, body.encode())

    async def serve(self, socket: ServerConnection) -> None:
        self.calls += 1
        sounded, turns, seen = False, 0, 0
        try:
            async for text in socket:
                event = json.loads(text)
                self.kinds.append(event["type"])
                seen += 1
                if self.drop_after and seen >= self.drop_after:
                    socket.transport.abort()
                    return
                if event["type"] == "session.update":
                    await self.tell(socket, {"type": "session.updated", "session": {}})
                elif event["type"] == "input_audio_buffer.append":
                    loud = any(base64.b64decode(event["audio"]))
                    if sounded and not loud:
                        turns += 1
                        await self.answer(socket, turns)
                    sounded = loud
        except ConnectionClosed:
            return

    async def answer(self, socket: ServerConnection, turn: int) -> None:
        item, reply = f"item_{turn}", f"resp_{turn}"
        place = {"response_id": reply, "item_id": f"said_{turn}"}
        heard = "conversation.item.input_audio_transcription.completed"
        for event in (
            {"type": "input_audio_buffer.committed", "item_id": item},
            {"type": heard, "item_id": item, "transcript": "one"},
            {"type": "response.created", "response": {"id": reply}},
            {"type": "response.output_audio_transcript.delta", **place, "delta": "Yes."},
        ):
            await self.tell(socket, event)
        for _ in range(self.reply_ms // 40):
            await self.tell(socket, {"type": "response.output_audio.delta", **place, "delta": TONE})
        done = {"id": reply, "status": "completed"}
        await self.tell(socket, {"type": "response.done", "response": done})

    async def tell(self, socket: ServerConnection, event: dict[str, object]) -> None:
        await socket.send(json.dumps(event, separators=(",", ":")))


@asynccontextmanager
async def pretended(**options: int) -> AsyncIterator[Pretended]:
    """Such a server on a port of its own, in the loop of the test."""
    made = Pretended(**options)
    async with serve(made.serve, "127.0.0.1", 0, process_request=made.admit) as server:
        made.port = next(iter(server.sockets)).getsockname()[1]
        yield made


@asynccontextmanager
async def mute() -> AsyncIterator[int]:
    """A port where a connection is taken and closed, without an answer."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        yield next(iter(server.sockets)).getsockname()[1]
