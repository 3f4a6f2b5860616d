"""Between who makes speech and who hears it: audio that was made and not read yet.

It says when the next audio is due, so that decoders know whose turn it is; when so much waits
that its maker may pause; and it can take back what nobody has read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.audio import Pcm
from engines.batching.schedule import now_ms

_FIRST_MS: Final = 5.0
"""The first audio is due at once; what is left is for others to get into the same batch."""

_FADE_S: Final = 0.02


class SpeechBuffer(AsyncIterator[Pcm]):
    """One writer, one reader; on one loop. Positions are samples since the start.

    It is ``full`` from ``most_s`` of unread audio on; ``wait_room`` waits until half is read, so
    that its maker pauses seldom.
    """

    def __init__(self, rate: int, most_s: float) -> None:
        self.written = 0
        self.read = 0
        self._rate = rate
        self._most = most_s * rate
        self._chunks: deque[NDArray[np.float32]] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._dry_ms = 0.0

    @property
    def full(self) -> bool:
        return self.written - self.read >= self._most

    async def wait_room(self) -> None:
        """Until half of what it holds at most has been read."""
        while self.written - self.read > self._most / 2:
            self._has_room.clear()
            await self._has_room.wait()

    @property
    def due_ms(self) -> float:
        """When a listener who plays all that was written runs dry, on the loop's clock."""
        return self._dry_ms if self.written else now_ms() + _FIRST_MS

    def put(self, samples: NDArray[np.float32]) -> None:
        """Append ``samples`` (n,) in [-1, 1]; there may be none."""
        if not len(samples):
            return
        self._chunks.append(samples)
        self.written += len(samples)
        self._dry_ms = max(self._dry_ms, now_ms()) + 1000.0 * len(samples) / self._rate
        self._arrived.set()

    def cut(self, position: int, *, fade: bool = False) -> None:
        """Take back what lies behind ``position`` and is unread. With ``fade`` the end fades
        out, for which some of what lies behind may stay."""
        length = round(_FADE_S * self._rate) if fade else 0
        end = min(max(position, self.read + length), self.written)
        if end == self.written:
            return
        left = np.concatenate(self._chunks)[: end - self.read]
        length = min(length, len(left))
        left[len(left) - length :] *= np.linspace(1.0, 0.0, length, dtype=np.float32)
        self._chunks = deque([left] if len(left) else [])
        self._dry_ms -= 1000.0 * (self.written - end) / self._rate
        self.written = end
        self._has_room.set()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes; ``error`` is raised once all has been read."""
        self._ended = True
        self._error = error
        self._arrived.set()

    async def __anext__(self) -> Pcm:
        while not self._chunks:
            if self._ended:
                raise self._error or StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        self.read += len(chunk)
        self._has_room.set()
        return Pcm.from_floats(chunk, self._rate)
