"""An HTTP server that says whatever a test wants, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

Step: TypeAlias = "bytes | asyncio.Event | ellipsis | None"  # noqa: F821 - the type of `...`
"""Bytes to send, an event to wait for; None: nothing more until the client leaves; ``...``: close
the connection."""

Answer: TypeAlias = Callable[[str, dict[str, str], bytes], Iterable[Step]]
"""A request's line, headers (in small letters) and body, to what is sent."""


class HttpServer:
    """``requests``: those that came. ``asked`` is set by each, ``gone`` by a client that leaves."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.url = ""
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False where the connection is to be closed."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((lines[0], headers, body))
        self.asked.set()
        for step in self.answer(lines[0], headers, body):
            if step is ...:
                return False
            if step is None:
                await reader.readexactly(1)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                writer.write(step)
                await writer.drain()
        return True


@asynccontextmanager
async def serve_http(answer: Answer) -> AsyncIterator[HttpServer]:
    """A server on this machine, of ``url``."""
    server = HttpServer(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
