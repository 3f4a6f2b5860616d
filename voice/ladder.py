"""The overload ladder: from signs of strain to a step, with hysteresis. A plain object: signs and
time go in, a step comes out.

A sign has two limits. From the second on it is *strained*; up to the first it is *calm*. A strained
sign that stands makes the house climb; only when all have been calm for long does it come down,
one step at a time. Between the limits the house has what it can bear: it leaves nothing more off,
and takes nobody in beyond a few. Behind that it takes calls in by and by, since many may have been
waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta

from pipelines.strain import Strain

Sign: TypeAlias = Literal[
    "loop_lag_ms", "queue_ms", "queued", "tts_load", "underrun_share", "lead_ms"
]
SIGNS: Final[tuple[Sign, ...]] = get_args(Sign)
Limits: TypeAlias = tuple[float, float]

FALLING: Final[frozenset[Sign]] = frozenset({"lead_ms"})
"""Signs that are the worse the lower they are: the first limit is the higher one."""

MOST_LEAP: Final = 3
"""Steps that are climbed at once, however bad it is: what was left off should show first."""

SETTLE_S: Final = 3.0
"""It takes so long until a step that was climbed, or a call that came in, shows in the signs."""

GROWTH: Final = 0.05
"""The share of its calls that a house takes in each second, once it has held back; or one each time
that it has settled."""

FEW: Final = 2
"""Calls that a house may have that is neither calm nor strained, and has left nothing off: beside
so few, signs tell as much of what else the machine does, and a person's second page is no crowd."""

AMPLE: Final = 2
"""A house that could bear so many times its calls holds nobody back any more."""

MOST_PATIENCE: Final = 8
RELAPSE: Final = 2
"""Who climbs again within so many of the calms that were waited for has come down too soon."""


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """When a house is strained, and what it leaves off then (``pipelines.strain``).

    Each sign has its limits, ``[calm, strained]``; see ``Signs`` for what they are. ``ignore``
    names those that say nothing here. A strained sign that stands for ``rise_s`` takes the house
    a step up, one at n times its limit n steps, but no more than three; a calm of ``fall_s`` takes
    it one down. ``short_tokens``: the longest reply from SHORT_REPLIES on, unless tools are
    offered.

    Raises ValueError for limits that are the wrong way round, or not above 0.
    """

    enabled: bool = True
    loop_lag_ms: Limits = (100.0, 250.0)
    queue_ms: Limits = (200.0, 500.0)
    queued: Limits = (32.0, 128.0)
    tts_load: Limits = (0.5, 0.75)
    underrun_share: Limits = (0.0005, 0.002)
    lead_ms: Limits = (60.0, 30.0)
    ignore: tuple[Sign, ...] = ()
    rise_s: Annotated[float, Meta(gt=0, le=60)] = 1.0
    fall_s: Annotated[float, Meta(gt=0, le=3_600)] = 5.0
    short_tokens: Annotated[int, Meta(ge=1)] = 80

    def __post_init__(self) -> None:
        for sign in SIGNS:
            calm, strained = self.limits(sign)
            if not (0 < calm < math.inf and 0 < strained < math.inf):
                raise ValueError(f"{sign}: is [{calm:g}, {strained:g}]: limits are numbers above 0")
            if calm == strained or (calm > strained) != (sign in FALLING):
                order = "higher" if sign in FALLING else "lower"
                raise ValueError(
                    f"{sign}: is [{calm:g}, {strained:g}]: the first, up to which it is calm, must"
                    f" be the {order} one. Write [{strained:g}, {calm:g}]?"
                )

    def limits(self, sign: Sign) -> Limits:
        """Up to where it is calm, and from where on it is strained."""
        limits: Limits = getattr(self, sign)
        return limits


@dataclass(frozen=True, slots=True)
class Signs:
    """What the last seconds looked like; None, or no number, for what was not measured.

    ``loop_lag_ms``: p99 of how late the event loop runs what is due. ``queue_ms``: how long the
    oldest request has waited in any engine's queue, but for files; ``queued``: how many wait there.
    ``tts_load``: how much of its spare speed the voice has lost, 0 where it is as fast as it ever
    was, 1 where it is no faster than speech. ``underrun_share``: of the time in
    which callers should have heard something, the part in which they heard nothing. ``lead_ms``:
    how long listeners have enough, by the worst twentieth. ``calls``: that are open.
    """

    loop_lag_ms: float | None = None
    queue_ms: float | None = None
    queued: float | None = None
    tts_load: float | None = None
    underrun_share: float | None = None
    lead_ms: float | None = None
    calls: int = 1

    def weighed(self, settings: OverloadSettings) -> Iterator[tuple[Sign, float, bool]]:
        """Each that was measured and counts: how far it has come to its limit (1: strained), and
        whether it is calm."""
        for sign in SIGNS:
            value: float | None = getattr(self, sign)
            if value is None or math.isnan(value) or sign in settings.ignore:
                continue
            calm, strained = settings.limits(sign)
            if sign in FALLING:
                yield sign, strained / value if value > 0 else math.inf, value >= calm
            else:
                yield sign, value / strained, value <= calm


class Ladder:
    """Which step a house stands on, and how many calls it can bear. Times are seconds of one clock;
    one that goes back stands."""

    def __init__(self, settings: OverloadSettings) -> None:
        self.strain = Strain.NONE
        self.bearable = math.inf
        self._settings = settings
        self._now = -math.inf
        self._strained_since: float | None = None
        self._calm_since: float | None = None
        self._climbed_at = -math.inf
        self._fell_at: float | None = None
        self._patience = 1

    def step(self, signs: Signs, now: float) -> Strain:
        """The step that these signs lead to at ``now``."""
        elapsed_s = max(0.0, now - self._now)
        now = self._now = max(now, self._now)
        weights = list(signs.weighed(self._settings))
        worst = max((weight for _, weight, _ in weights), default=0.0)
        calm = all(is_calm for _, _, is_calm in weights)
        self._strained_since = _since(self._strained_since, worst >= 1.0, now)
        self._calm_since = _since(self._calm_since, calm, now)
        if calm and not signs.calls:
            self._come_down_to(Strain.NONE, now)  # nobody is left whom it could hurt
        elif _lasted(self._strained_since, now) >= self._settings.rise_s:
            self._climb(min(MOST_LEAP, worst), now)
        elif _lasted(self._calm_since, now) >= self._settings.fall_s * self._patience:
            self._come_down_to(Strain(max(0, self.strain - 1)), now)
        settled = now - self._climbed_at >= SETTLE_S and self.strain < Strain.NO_CALLS
        if calm and settled:
            self.bearable += elapsed_s * max(GROWTH * signs.calls, 1.0 / SETTLE_S)
        else:
            few = FEW if worst < 1.0 and self.strain is Strain.NONE else 0
            self.bearable = max(signs.calls, few)
        self._open_wide(signs.calls)
        return self.strain

    def _open_wide(self, calls: int) -> None:
        if not calls or self.bearable > AMPLE * (calls + 1):
            self.bearable = math.inf

    def _climb(self, steps: float, now: float) -> None:
        """What it was strained by before says nothing about the step that is taken now."""
        self._strained_since = self._climbed_at = now
        if self.strain is Strain.NO_CALLS:
            return
        if self._fell_at is not None:
            soon = now - self._fell_at <= RELAPSE * self._settings.fall_s * self._patience
            self._patience = min(MOST_PATIENCE, 2 * self._patience) if soon else 1
            self._fell_at = None
        self.strain = Strain(min(Strain.NO_CALLS, self.strain + int(steps)))

    def _come_down_to(self, strain: Strain, now: float) -> None:
        self._calm_since = now
        if strain is not self.strain:
            self._fell_at = now
        self.strain = strain


def _since(before: float | None, holds: bool, now: float) -> float | None:
    """Since when it holds, given since when it held so far."""
    if not holds:
        return None
    return now if before is None else before


def _lasted(since: float | None, now: float) -> float:
    return -math.inf if since is None else now - since
