"""Plots as inline SVG: no script, nothing to load, readable in light and dark.

Colours come from the page's CSS, by class: ``c0``, ``c1``, ``c2`` for series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

WIDTH: Final = 560
HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 26, 44
_LETTER: Final = 5.8
"""How wide one is, about."""

_TICKS: Final = 6
_FEWEST_TICKS: Final = 3
"""Powers that are fewer on an axis tell nothing of what lies between them."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind, drawn as a ``line`` or ``dots``."""

    name: str
    points: Points
    shape: str = "line"


@dataclass(slots=True)
class Plot:
    """One picture. ``limit``: a horizontal line with its name; ``log``: of the x axis."""

    title: str
    x: str
    y: str
    series: list[Series] = field(default_factory=list)
    limit: tuple[float, str] | None = None
    log: bool = False
    highest: float | None = None

    @property
    def measured(self) -> bool:
        """Whether there is anything to be seen."""
        return any(series.points for series in self.series)

    def svg(self) -> str:
        """The picture; a sentence where there is nothing to be seen."""
        points = [point for series in self.series for point in series.points]
        if not points:
            return f'<p class="empty">{escape(self.title)}: nothing was measured.</p>'
        across = self._across([x for x, _ in points])
        up = self._up([y for _, y in points])
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">',
            *_grid(across, up),
            *self._labels(),
        ]
        for number, series in enumerate(self.series):
            parts += _draw(series, number, across, up)
        if self.limit is not None and self.limit[0] <= up.last:
            parts += _limit(self.limit, up)
        parts += self._legend()
        return "".join([*parts, "</svg>"])

    def _across(self, values: Sequence[float]) -> Axis:
        if self.log:
            low = max(1.0, min(values))
            return Axis(low, max(max(values), low * 2), _LEFT, WIDTH - _RIGHT, log=True)
        low = min(0.0, min(values))
        return Axis(low, max(max(values), low + 1e-9), _LEFT, WIDTH - _RIGHT)

    def _up(self, values: Sequence[float]) -> Axis:
        top = self.highest or _round_up(max(max(values), 1e-9) * 1.05)
        return Axis(0.0, top, HEIGHT - _BOTTOM, _TOP)

    def _labels(self) -> list[str]:
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        return [
            f'<text class="axis" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"{escape(self.x)}</text>",
            f'<text class="axis" transform="translate(14 {(HEIGHT - _BOTTOM) / 2:.0f})'
            f' rotate(-90)" text-anchor="middle">{escape(self.y)}</text>',
        ]

    def _legend(self) -> list[str]:
        parts, x = [], _LEFT
        for number, series in enumerate(self.series):
            parts.append(
                f'<rect class="c{number} fill" x="{x}" y="4" width="9" height="9"/>'
                f'<text x="{x + 14}" y="12">{escape(series.name)}</text>'
            )
            x += 30 + round(_LETTER * len(series.name))
        return parts


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``first`` to ``last`` at places from ``begin`` to ``end``."""

    first: float
    last: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies; beyond the axis, at its end."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        value = min(max(value, self.first), self.last)
        share = (scale(value) - scale(self.first)) / (scale(self.last) - scale(self.first) or 1)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round values along it."""
        if self.log:
            steps = (base * 10**power for power in range(7) for base in (1, 2, 5))
            within = [float(step) for step in steps if self.first <= step <= self.last]
            if len(within) >= _FEWEST_TICKS:
                return within
        step = _round_up((self.last - self.first) / _TICKS)
        first = math.ceil(self.first / step - 1e-9)
        return [index * step for index in range(first, int(self.last / step + 1e-9) + 1)]


def cumulative(values: Iterable[float]) -> list[tuple[float, float]]:
    """Which share (percent) of the values is below what."""
    row = sorted(values)
    return [(value, 100 * (index + 1) / len(row)) for index, value in enumerate(row)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20 …"""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(base * power for base in (1, 2, 5, 10) if base * power >= value - 1e-12)


def _grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value in across.ticks():
        x = across.at(value)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{up.begin}" y2="{up.end}"/>'
            f'<text x="{x:.1f}" y="{up.begin + 15:.0f}" text-anchor="middle">{value:g}</text>'
        )
    for value in up.ticks():
        y = up.at(value)
        parts.append(
            f'<line class="grid" x1="{across.begin}" x2="{across.end}" y1="{y:.1f}"'
            f' y2="{y:.1f}"/><text x="{across.begin - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{value:g}</text>"
        )
    return parts


def _draw(series: Series, number: int, across: Axis, up: Axis) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in series.points]
    if series.shape == "dots":
        return [
            f'<circle class="c{number} fill" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>' for x, y in places
        ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(
        f'<circle class="c{number} fill" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        for x, y in (places if len(places) < 40 else [])
    )
    return [f'<polyline class="c{number} line" points="{path}"/>{dots}']


def _limit(limit: tuple[float, str], up: Axis) -> list[str]:
    y = up.at(limit[0])
    return [
        f'<line class="limit" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="limit" x="{_LEFT + 6}" y="{y - 5:.1f}">{escape(limit[1])}</text>'
    ]
