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

    def given(self, evidence: Sequence[float]) -> int:
        """The silence that ends the turn. ``evidence``: opinions from -1 (unfinished) to 1
        (finished). One of 0 knows nothing, and does not weaken what another knows."""
        known = [opinion for opinion in evidence if opinion]
        mean = max(-1.0, min(1.0, sum(known) / len(known))) if known else 0.0
        bound_ms = self.floor_ms if mean > 0 else self.ceiling_ms
        return round(self.base_ms + abs(mean) * (bound_ms - self.base_ms))


PROFILES: Final[dict[Profile, Waits]] = {
    "normal": Waits(320, 500, 1_400),
    "patient": Waits(700, 1_200, 2_500),
    "digits": Waits(700, 1_200, 3_000),
}
"""For talk, for callers who think aloud, and for what is dictated."""


def wait_ms(profile: Profile, evidence: Sequence[float]) -> int:
    """The silence that ends a turn under a profile; see ``Waits.given``."""
    return PROFILES[profile].given(evidence)
