"""How long to wait for a caller who has fallen silent.

Nothing that judges words or sound ends a turn or holds it open by itself: each only moves the
wait between a floor and a ceiling, so a wrong judgement costs a little time and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Profile: TypeAlias = Literal["normal", "patient", "digits"]


@dataclass(frozen=True, slots=True)
class Waits:
    """Silence in milliseconds: where the turn surely seems over, where nothing is known, and
    where it surely seems unfinished."""

    floor_ms: int
    base_ms: int
    ceiling_ms: int


PROFILES: Final[dict[Profile, Waits]] = {
    "normal": Waits(320, 500, 1_400),
    "patient": Waits(700, 1_200, 2_500),
    "digits": Waits(700, 1_200, 3_000),
}


def wait_ms(profile: Profile, evidence: Sequence[float]) -> int:
    """The silence that ends a turn. ``evidence``: opinions from -1 (unfinished) to 1 (finished)."""
    waits = PROFILES[profile]
    opinion = max(-1.0, min(1.0, sum(evidence) / len(evidence))) if evidence else 0.0
    to = waits.floor_ms if opinion > 0 else waits.ceiling_ms
    return round(waits.base_ms + abs(opinion) * (to - waits.base_ms))
