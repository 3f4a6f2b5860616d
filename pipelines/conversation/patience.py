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
        (finished), 0 for none.

        They add up, as what independent witnesses say does: two that agree are surer than one,
        and a mean would let one that knows little weaken one that knows much.
        """
        sum_of_all = max(-1.0, min(1.0, sum(evidence)))
        bound_ms = self.floor_ms if sum_of_all > 0 else self.ceiling_ms
        return round(self.base_ms + abs(sum_of_all) * (bound_ms - self.base_ms))


PROFILES: Final[dict[Profile, Waits]] = {
    "normal": Waits(400, 600, 1_600),
    "patient": Waits(900, 1_200, 2_500),
    "digits": Waits(700, 1_200, 3_000),
}
"""For talk, for callers who think aloud, and for what is dictated."""


def opinion_of_sound(probability: float) -> float:
    """What the probability of an end-of-turn model is worth as evidence.

    It says "finished" behind one cut in three, and "unfinished" behind few real ends
    (``loadtest.endpoint_bench``): a no is worth more than a yes, and neither is a certainty.
    """
    return 0.7 * (2 * probability - 1) - 0.2


def wait_ms(profile: Profile, evidence: Sequence[float]) -> int:
    """The silence that ends a turn under a profile. ``evidence``: what the words say, then what
    the sound says, as for ``Waits.given``.

    In a number that is dictated each group of digits sounds finished, so there the sound counts
    only where the words say nothing.
    """
    known = [opinion for opinion in evidence if opinion]
    return PROFILES[profile].given(known[:1] if profile == "digits" else known)
