"""What goes out to one client, in order, and what waits while it does not read.

A call must never wait for its client, so messages are written at once, and queued while the
transport is full. A client that reads so slowly that the bound is reached is cut off rather
than buffered for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

MOST_BYTES: Final = 8 * 1024 * 1024


class SlowClientError(Exception):
    """The client does not read what it is sent."""


class TextSocket(Protocol):
    """Where messages go; implemented by ``voice.socket.CallSocket``."""

    @property
    def is_writable(self) -> bool: ...

    def write_text(self, message: bytes) -> None: ...


class Outbox:
    """A message may carry an epoch, so that what is unsent of a reply can be taken back."""

    def __init__(self, socket: TextSocket) -> None:
        self._socket = socket
        self._waiting: deque[tuple[int | None, bytes]] = deque()
        self._bytes = 0
        self._newest_epoch = 0
        self._emptied = asyncio.Event()

    def put(self, message: bytes, epoch: int | None = None) -> None:
        """Send a message, or queue it. Raises SlowClientError where the bound is reached."""
        if not self._waiting and self._socket.is_writable:
            self._socket.write_text(message)
            return
        self._bytes += len(message)
        if self._bytes > MOST_BYTES:
            raise SlowClientError(f"{self._bytes} bytes wait for a client that does not read them")
        self._waiting.append((epoch, message))
        self._newest_epoch = epoch or self._newest_epoch

    def take_back(self, epoch: int) -> None:
        """Forget what is still unsent of this reply."""
        if epoch != self._newest_epoch:  # epochs rise: none of it waits, and looking costs
            return
        kept = [entry for entry in self._waiting if entry[0] != epoch]
        self._waiting = deque(kept)
        self._bytes = sum(len(message) for _, message in kept)

    async def wait_empty(self, most_s: float) -> None:
        """Wait until all is sent, but no longer than this."""
        try:
            async with asyncio.timeout(most_s):
                while self._waiting:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            return

    def flush(self) -> None:
        """The socket has room: send what waits, as far as it goes."""
        while self._waiting and self._socket.is_writable:
            _, message = self._waiting.popleft()
            self._bytes -= len(message)
            self._socket.write_text(message)
        if not self._waiting:
            self._emptied.set()
