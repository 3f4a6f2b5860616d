"""How often one may: token buckets, and those of the tenants' keys.

Plain objects: the time goes in, in seconds of any clock that never falls. What is spent comes back
evenly, so a limit of 60 a minute is 60 at once and then one a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from voice.admission import Caller, TenantSettings


class Bucket:
    """Holds ``size`` when it is full, and fills by ``per_s``. It may be overdrawn by what is spent
    without asking."""

    def __init__(self, size: float, per_s: float) -> None:
        self.size = size
        self._per_s = per_s
        self._level = size
        self._at = -math.inf

    def take(self, now: float) -> bool:
        """Take one, if there is one."""
        if self.wait_s(now) > 0:
            return False
        self._level -= 1
        return True

    def spend(self, cost: float, now: float) -> float:
        """Take so much, whether or not it is there; seconds until the bucket is in credit."""
        self._fill(now)
        self._level -= cost
        return max(0.0, -self._level / self._per_s)

    def wait_s(self, now: float) -> float:
        """Seconds until one may be taken; 0 for now."""
        self._fill(now)
        return max(0.0, (1 - self._level) / self._per_s)

    def left(self, now: float) -> int:
        """How many may be taken now."""
        self._fill(now)
        return max(0, math.floor(self._level))

    def full_in_s(self, now: float) -> float:
        """Seconds until it is full again."""
        self._fill(now)
        return (self.size - self._level) / self._per_s

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self.size, self._level + (now - self._at) * self._per_s)
            self._at = now


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one key may do; None is without a limit."""

    sessions: Bucket | None = None
    requests: Bucket | None = None


class Sparing:
    """Which of things that happen again and again are told: each once in ``every_s``."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._told_at: dict[str, float] = {}
        self._untold: Counter[str] = Counter()

    def due(self, what: str, now: float) -> int:
        """It has happened. How often since it was told last, if it is to be told now; else 0."""
        self._untold[what] += 1
        if now < self._told_at.get(what, -math.inf) + self._every_s:
            return 0
        self._told_at[what] = now
        return self._untold.pop(what)


class Rates:
    """The allowances of all keys. One for each key that there is, made when it is first used: who
    has no key has no allowance of their own."""

    def __init__(self, tenants: Mapping[str, TenantSettings]) -> None:
        self._tenants = tenants
        self._allowances: dict[tuple[str, str], Allowance] = {}

    def of(self, caller: Caller) -> Allowance:
        """The allowance of the key that the caller came with, or was given a key by."""
        tenant = self._tenants.get(caller.tenant)
        if tenant is None:
            return Allowance()
        known = self._allowances.get((caller.tenant, caller.key))
        if known is None:
            known = Allowance(
                _per_minute(tenant.sessions_per_minute), _per_minute(tenant.requests_per_minute)
            )
            self._allowances[caller.tenant, caller.key] = known
        return known


def _per_minute(limit: int) -> Bucket | None:
    return Bucket(limit, limit / 60) if limit else None
