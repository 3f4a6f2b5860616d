"""The server's own figures: what ``/metrics`` says, and what it says more after a run.

A histogram counts by buckets, so a quantile is known to its bucket only; within it, it is taken
for even, as Prometheus does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from msgspec import Struct

Metrics = Mapping[str, float]

_LINE: Final = re.compile(r"^([A-Za-z_:][\w:]*(?:\{[^}]*\})?) (\S+)")
_BUCKET: Final = re.compile(r"^(\w+)_bucket\{(.*)\}$")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
PATIENCE_S: Final = 5.0


class Histogram(Struct, frozen=True):
    """What a run added to one. ``bounds`` rise, the last is infinite; ``counts``: observations
    up to each. ``unit``: what one of the figures is, in the metric's own."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def count(self) -> int:
        """Observations in all."""
        return int(self.counts[-1]) if self.counts else 0

    def quantile(self, share: float) -> float | None:
        """The value that so many are below; None where nothing was observed. What lies beyond the
        last finite bound is told as that bound."""
        wanted, lower, below = share * self.count, 0.0, 0.0
        if not self.count:
            return None
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= wanted and count > below:
                if bound == float("inf"):
                    return lower
                return lower + (bound - lower) * (wanted - below) / (count - below)
            lower, below = bound, count
        return lower


def parse(text: str) -> dict[str, float]:
    """Name, labels included, to value, of Prometheus' text format; comments left out."""
    found = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found[match[1]] = float(match[2])
    return found


def fetch(base: str, api_key: str | None = None) -> dict[str, float]:
    """What the server at ``base`` (http://HOST:PORT) says now; nothing where it says nothing."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with urlopen(Request(f"{base}/metrics", headers=headers), timeout=PATIENCE_S) as answer:
            return parse(answer.read().decode("utf-8", "replace"))
    except (URLError, OSError, ValueError):
        return {}


def histograms(before: Metrics, after: Metrics) -> dict[str, Histogram]:
    """What was observed in between, by the metric's name with its labels but ``le``."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, value in after.items():
        if match := _BUCKET.match(name):
            labels = dict(_LABEL.findall(match[2]))
            bound = float(labels.pop("le"))
            told = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
            key = f"{match[1]}{{{told}}}" if told else match[1]
            rows[key].append((bound, value - before.get(name, 0.0)))
    made = {}
    for key, row in rows.items():
        row.sort()
        made[key] = Histogram(tuple(b for b, _ in row), tuple(c for _, c in row))
    return {key: histogram for key, histogram in made.items() if histogram.count > 0}


def added(before: Metrics, after: Metrics, name: str) -> dict[str, float]:
    """What the counter ``name`` has gained, by its labels; ``{}`` where there is none."""
    return {
        key[len(name) :]: value - before.get(key, 0.0)
        for key, value in after.items()
        if key == name or key.startswith(name + "{")
    }


def batch_means(before: Metrics, after: Metrics) -> dict[str, list[tuple[float, float]]]:
    """Of each engine that tells: the streams that could have been in a batch, and its rows."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    name = "antiphon_batch_rows"
    rows = added(before, after, f"{name}_sum")
    for labels, batches in added(before, after, f"{name}_count").items():
        if batches > 0:
            streams = float(label(labels, "speaking") or "nan")
            mean = rows.get(labels, 0.0) / batches
            found[label(labels, "engine")].append((streams, round(mean, 2)))
    return {engine: sorted(means) for engine, means in found.items()}


def label(key: str, name: str) -> str:
    """The value of a label in a metric's full name."""
    labels: dict[str, str] = dict(_LABEL.findall(key))
    return labels.get(name, "")
