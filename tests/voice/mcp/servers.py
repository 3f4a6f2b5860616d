"""Real MCP servers, of the official SDK, on a port of this machine."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from sse_starlette.sse import AppStatus


@dataclass
class ToolServer:
    """``url`` is where it is. ``slow`` waits for ``go``; ``began`` says that it has begun. It has a
    thread of its own, as it would have a machine."""

    url: str = ""
    began: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)
    headers: list[dict[str, str]] = field(default_factory=list)


def _tools_of(told: ToolServer) -> MCPServer:
    server = MCPServer("weather")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    @server.tool()
    async def slow(ctx: Context) -> str:
        """Takes its time."""
        await ctx.report_progress(1, 2)
        told.began.set()
        await asyncio.to_thread(told.go.wait)
        return "at last"

    @server.tool()
    def broken() -> str:
        """Does not work."""
        raise ValueError("no such thing")

    @server.tool()
    def long(count: int) -> str:
        """Gives so many letters."""
        return "a" * count

    @server.tool(name="with.dots")
    def with_dots() -> dict[str, int]:
        """Gives something with a structure."""
        return {"answer": 42}

    return server


@asynccontextmanager
async def tool_server(**options: bool) -> AsyncIterator[ToolServer]:
    """One that serves as long as the context lasts: also where some other server of this process
    has been told to stop, which its streams take for their own end otherwise."""
    AppStatus.disable_automatic_graceful_drain()
    AppStatus.should_exit = False
    told = ToolServer()
    thread = threading.Thread(target=asyncio.run, args=(_serve(told, options),))
    thread.start()
    await asyncio.to_thread(told.ready.wait)
    try:
        yield told
    finally:
        told.go.set()
        told.stop.set()
        await asyncio.to_thread(thread.join)


async def _serve(told: ToolServer, options: dict[str, bool]) -> None:
    app = _tools_of(told).streamable_http_app(**options)

    async def watched(scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            told.headers.append({":method": scope["method"], **headers})
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(watched, log_config=None, lifespan="on", ws="none",
                            timeout_graceful_shutdown=1)  # fmt: skip
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])
    told.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    told.ready.set()
    await asyncio.to_thread(told.stop.wait)
    await server.shutdown([listener])
