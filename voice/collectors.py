"""Collectors: what is read off the engines, and off who they worked for, at each scrape."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from engines.batching.tally import ROWS, STEPS_MS, WAITS_MS, Spread, Tally
from engines.ports import Load, Measured
from engines.vad.ears import Ears
from voice.metering import Meter

logger = logging.getLogger(__name__)

_LOAD_GAUGES: Final = {
    "antiphon_engine_slots": ("slots", "Requests that it serves at once; 0 for no bound"),
    "antiphon_engine_busy": ("busy", "Requests that are open"),
    "antiphon_engine_speaking": ("speaking", "Streams that its next batch waits for"),
    "antiphon_engine_batch": ("batch", "Rows of its last batch"),
    "antiphon_engine_step_seconds": ("step_ms", "What its last batch took"),
    "antiphon_engine_queued": ("queued", "Items that wait for a batch"),
    "antiphon_engine_oldest_seconds": ("oldest_ms", "How long the oldest of them has, files aside"),
}
"""Name of the gauge -> the field of ``engines.ports.Load``, and what it tells."""


class Tenants(Collector):
    """Seconds by tenant; those of nobody have none."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        engine = CounterMetricFamily(
            "antiphon_tenant_engine_seconds",
            "Time that each engine was held for a tenant's calls; on a GPU, GPU-seconds",
            labels=["tenant", "engine"],
        )
        for (tenant, kind), seconds in self._meter.engine_s.items():
            engine.add_metric([tenant, kind], seconds)
        cpu = CounterMetricFamily(
            "antiphon_tenant_cpu_seconds", "The server's CPU, by tenant", labels=["tenant"]
        )
        for tenant, seconds in self._meter.cpu_s.items():
            cpu.add_metric([tenant], seconds)
        yield from (engine, cpu)


class Loads(Collector):
    """The engines' own figures, as gauges labelled by the kind of engine, and what their batches
    and the VAD's were like."""

    def __init__(self, engines: Mapping[str, Measured], ears: Ears | None = None) -> None:
        self._engines = engines
        self._ears = ears
        self._broken: set[str] = set()

    def collect(self) -> Iterator[Metric]:
        loads = {kind: load for kind in self._engines if (load := self._load(kind))}
        for name, (field, text) in _LOAD_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["engine"])
            for kind, load in loads.items():
                value = getattr(load, field)
                gauge.add_metric([kind], value / 1000 if name.endswith("_seconds") else value)
            yield gauge
        yield _speech_tokens(loads.get("tts"))
        tallies = {kind: load.batches for kind, load in loads.items() if load.batches}
        if self._ears is not None:
            tallies["vad"] = self._ears.tally
        yield from _batches(tallies)

    def _load(self, kind: str) -> Load | None:
        """None where an engine cannot tell after all: it may be anybody's."""
        try:
            return self._engines[kind].load()
        except Exception:
            if kind not in self._broken:
                logger.exception("%s: its load() is broken, so it is missing in /metrics", kind)
            self._broken.add(kind)
            return None


def _speech_tokens(load: Load | None) -> Metric:
    """Without a value of a voice that makes no tokens."""
    made = load.tokens if load else 0
    text = "Tokens of speech that the voice has made"
    return CounterMetricFamily("antiphon_tts_tokens", text, value=made or None)


def _batches(tallies: Mapping[str, Tally]) -> Iterator[Metric]:
    rows = HistogramMetricFamily(
        "antiphon_batch_rows",
        "Rows of a batch, by how many streams could have been in it (1, 2, 4, … at most)",
        labels=["engine", "speaking"],
    )
    wait = HistogramMetricFamily(
        "antiphon_batch_wait_seconds",
        "How long the item of a batch waited that had waited longest",
        labels=["engine"],
    )
    step = HistogramMetricFamily(
        "antiphon_batch_step_seconds", "What a batch took", labels=["engine"]
    )
    for kind, tally in tallies.items():
        for speaking, spread in sorted(tally.rows.items()):
            rows.add_metric([kind, str(speaking)], *_histogram(ROWS, spread))
        wait.add_metric([kind], *_histogram(WAITS_MS, tally.wait_ms, 1_000))
        step.add_metric([kind], *_histogram(STEPS_MS, tally.step_ms, 1_000))
    yield from (rows, wait, step)


def _histogram(
    bounds: Sequence[float], spread: Spread, unit: float = 1
) -> tuple[list[tuple[str, float]], float]:
    """Buckets as Prometheus has them, each with all below it, and the sum."""
    edges = [*(str(bound / unit) for bound in bounds), "+Inf"]
    return list(zip(edges, accumulate(spread.counts), strict=True)), spread.total / unit
