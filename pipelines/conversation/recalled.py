"""What may be looked up for a reply, and what was, as observers are told of it: no listener hears
of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from engines.ports import Priority

if TYPE_CHECKING:
    from pipelines.memory.settings import MemorySettings
    from pipelines.memory.store import Found

Outcome: TypeAlias = Literal["found", "nothing", "late", "failed"]


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that the model was told: its document, where in it, and how like it is to what was
    asked, 1 for the same."""

    source: str
    place: str
    score: float


@dataclass(frozen=True, slots=True)
class ReplyRecalled:
    """``words`` were looked up for a reply, which waited ``waited_ms`` for it and no longer."""

    epoch: int
    words: str
    outcome: Outcome
    waited_ms: float
    citations: tuple[Citation, ...] = ()


class Knowledge(Protocol):
    """Documents that can be asked."""

    settings: MemorySettings

    async def warm_up(self) -> None:
        """Be ready for the first caller. Raises EngineError."""
        ...

    async def find(self, words: str, call: str, priority: Priority) -> tuple[Found, ...]:
        """What is like ``words``, the best first. Raises EngineError."""
        ...
