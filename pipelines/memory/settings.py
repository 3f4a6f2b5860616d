"""What of the documents of a house is told to the model, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

NAME: Final = "memory"
"""Of the section, and of whatever tells of an error."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The section ``memory``. ``index``: the file that ``voice index`` has written; without one
    nothing is looked up. Of the passages that are most like what a caller says, ``top_k`` at most
    are told to the model, and none that is less like it than ``min_score`` (1 is the same). A reply
    waits ``deadline_ms`` for them, and goes without if they are late."""

    index: str | None = None
    top_k: Annotated[int, Meta(ge=1, le=20)] = 3
    min_score: Annotated[float, Meta(ge=-1.0, le=1.0)] = 0.3
    deadline_ms: Annotated[float, Meta(gt=0)] = 150.0
