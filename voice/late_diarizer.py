"""An engine that is made when it is first asked for: few servers ever need it.

What is missing for it is told to whoever asks, each time, and keeps nobody from starting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from engines.diarization.turns import Diarization, DiarizationRequest, Diarizer, Pausable


class LateDiarizer:
    """A ``Diarizer``. ``make`` may raise EngineError."""

    def __init__(self, make: Callable[[], Diarizer]) -> None:
        self._make = make
        self._made: Any = None

    async def warm_up(self) -> None:
        """Raises EngineError."""
        await self._diarizer().warm_up()

    def open(
        self, request: DiarizationRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[Diarization]]:
        """Raises EngineError, also where the diarizer cannot be made."""
        return self._diarizer().open(request)

    async def close(self) -> None:
        """If there ever was one."""
        if self._made is not None:
            await self._made.close()

    def pause(self) -> None:
        """If it can."""
        if isinstance(self._made, Pausable):
            self._made.pause()

    def resume(self) -> None:
        """If it can."""
        if isinstance(self._made, Pausable):
            self._made.resume()

    def _diarizer(self) -> Diarizer:
        if self._made is None:
            self._made = self._make()
        made: Diarizer = self._made
        return made
