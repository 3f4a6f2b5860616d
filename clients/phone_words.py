"""What a carrier says and what it makes of what it is told: the part that all of them share.

These are written from the carriers' documents and share no code with the server's codecs but
G.711, so that each holds the other to the documents.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Message: TypeAlias = str | bytes
Samples: TypeAlias = NDArray[np.int16]


class CarrierError(Exception):
    """The server said what a carrier would not have understood."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one message of the server's means to a carrier."""

    audio: Samples | None = None
    mark: str | None = None
    clear: bool = False
    keys: str = ""
    hang_up: bool = False
    answers: list[Message] = field(default_factory=list)


class Words(Protocol):
    """One carrier. ``frame_ms`` is of what it sends. ``returns_cleared``: marks that wait come
    back when the queue is cleared."""

    name: str
    rate: int
    frame_ms: int
    returns_cleared: bool

    def hello(self) -> list[Message]:
        """What it says first."""

    def media(self, samples: Samples) -> list[Message]:
        """The caller speaks."""

    def key(self, digit: str) -> list[Message]:
        """The caller presses a key."""

    def played(self, mark: str) -> list[Message]:
        """All before this mark has been played."""

    def cleared(self) -> list[Message]:
        """The queue is empty, as the server wanted."""

    def bye(self) -> list[Message]:
        """The caller hangs up."""

    def read(self, message: Message) -> Told:
        """The server says something. Raises CarrierError."""


def parsed(message: Message, wire: str) -> dict[str, Any]:
    """A JSON object in text."""
    if isinstance(message, bytes):
        raise CarrierError(f"{wire} takes text only, and {len(message)} bytes of binary came")
    try:
        said = json.loads(message)
    except ValueError as error:
        raise CarrierError(f"{wire} cannot read {message[:80]!r}: {error}") from error
    if not isinstance(said, dict):
        raise CarrierError(f"{wire} takes objects, not {message[:80]!r}")
    return said


def at(said: dict[str, Any], *path: str) -> Any:
    """The value at a path. Raises CarrierError where there is none."""
    value: Any = said
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise CarrierError(f"{'.'.join(path)} is missing in {str(said)[:200]}")
        value = value[name]
    return value


def same(given: object, wanted: object, what: str) -> None:
    if given != wanted:
        raise CarrierError(f"{what} is {given!r}, and should be {wanted!r}")


def linear(samples: Samples, order: str = "<") -> bytes:
    return samples.astype(f"{order}i2").tobytes()


def unlinear(data: bytes, order: str = "<") -> Samples:
    if len(data) % 2:
        raise CarrierError(f"16-bit audio of {len(data)} bytes")
    return np.frombuffer(data, f"{order}i2").astype(np.int16)
