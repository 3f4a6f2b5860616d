"""What the doors of WebSockets share: ASGI's callables, waiting for either side, and closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from voice.socket import CallSocket

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CLOSE_S: Final = 2.0
"""How long a client may take to answer a close; then the connection is dropped."""


async def first_of(*things: Awaitable[object]) -> None:
    """Wait for one of them, and no longer for the others."""
    tasks = [asyncio.ensure_future(thing) for thing in things]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close(send: Send, socket: CallSocket, code: int) -> None:
    """Close the connection with this code."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await send({"type": "websocket.close", "code": code})
    except TimeoutError:
        socket.abort()
