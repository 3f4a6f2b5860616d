"""Where work that may wait is done: a slot that calls take away when they want it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class DisplacedError(Exception):
    """Calls have taken the slot. What was begun is to be begun again, in another."""


class Place(Protocol):
    """A slot of an engine, for one request at a time."""

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Wait for a slot and hold it. What is done within is cancelled as soon as calls want the
        slot, and the context raises DisplacedError."""
        ...
