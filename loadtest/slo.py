"""What a run has to reach: limits on its figures, and which of them it broke."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

_LIMIT: Final = re.compile(r"^\s*([a-z_]+(?:\.[a-z0-9]+)?)\s*(<=|>=)\s*([0-9.]+)\s*$")
DEFAULT: Final = (
    "ttfs.p95<=800",
    "underruns<=0",
    "barge_in.p95<=300",
    "refused<=0",
    "lost<=0",
)
"""Time to first sentence; a listener who never waits; a reply that stops when it should; and
nobody turned away or cut off."""


class SloError(ValueError):
    """A limit that cannot be read, or one on a figure that there is not."""


class Limit(Struct, frozen=True):
    """``figure`` must be at most (at least, where ``least``) ``value``."""

    figure: str
    value: float
    least: bool = False

    def __str__(self) -> str:
        return f"{self.figure}{'>=' if self.least else '<='}{self.value:g}"


class Breach(Struct, frozen=True):
    """A limit that was not kept. ``value`` None: it was not measured; infinite: it never came."""

    limit: str
    value: float | None

    def __str__(self) -> str:
        told = "was not measured" if self.value is None else f"is {self.value:g}"
        if self.value == math.inf:
            told = "never came"
        return f"{self.limit}: {told}"


def limits(texts: Iterable[str]) -> list[Limit]:
    """``ttfs.p95<=800`` and its like over the usual limits; a later one on the same figure stands,
    ``none`` drops all before it. Raises SloError."""
    found: dict[str, Limit] = {}
    for text in (*DEFAULT, *texts):
        if text.strip() == "none":
            found.clear()
            continue
        match = _LIMIT.match(text)
        if match is None or not math.isfinite(value := float(match[3])):
            raise SloError(f"--slo {text}: write it as FIGURE<=NUMBER, for example ttfs.p95<=800")
        found[match[1]] = Limit(match[1], value, match[2] == ">=")
    return list(found.values())


def check_names(wanted: Iterable[Limit], known: Iterable[str]) -> None:
    """Raises SloError where a limit is on a figure that no run has."""
    names = sorted(known)
    for limit in wanted:
        if limit.figure not in names:
            told = ", ".join(names)
            raise SloError(f"--slo {limit}: there is no figure {limit.figure}. Known: {told}")


def breaches(
    wanted: Iterable[Limit], figures: Mapping[str, float | None], unneeded: Iterable[str] = ()
) -> list[Breach]:
    """The limits that ``figures`` break. Those on figures that begin with one of ``unneeded``
    may be unmeasured."""
    broken = []
    for limit in wanted:
        value = figures.get(limit.figure)
        if value is None:
            if not any(limit.figure.startswith(name) for name in unneeded):
                broken.append(Breach(str(limit), None))
        elif (value < limit.value) if limit.least else (value > limit.value):
            broken.append(Breach(str(limit), round(value, 1)))
    return broken
