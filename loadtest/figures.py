"""From records to figures: what a run of callers amounts to. Pure: records in, numbers out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from loadtest.machine import GpuState
from loadtest.records import CallRecord, TurnRecord
from loadtest.scrape import Histogram
from loadtest.ticker import Lateness
from loadtest.wer import wer

SHARES: Final = (50, 90, 95, 99, 100)
NAMES: Final = ("p50", "p90", "p95", "p99", "max")
LATEST_MS: Final = 10.0
"""A run whose own frames are later than this (p99) says more of its callers than of the server."""

OWN_CPU_MS: Final = 1.0
"""What a caller may cost a second; beyond, the run says that its callers may limit it."""


class Spread(Struct, frozen=True):
    """``n`` values, and what so many percent of them are below; None for one that never came."""

    n: int
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Sample(Struct, frozen=True, kw_only=True):
    """One moment of a run. ``talking``: callers who say something; ``speaking``: who hear a
    reply; ``cores``: CPU of the server since the sample before; ``gauges``: what it tells."""

    at_s: float
    open: int
    talking: int
    speaking: int
    cores: float | None = None
    rss_mb: float | None = None
    gpus: list[GpuState] = field(default_factory=list)
    gauges: dict[str, float] = field(default_factory=dict)


class Sender(Struct, frozen=True, kw_only=True):
    """How the callers themselves did. ``late_ms``: a frame after its time."""

    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    cpu_ms_per_session_second: float
    session_seconds: float


class Figures(Struct, kw_only=True):
    """All figures of one run. Latencies and stages in ms; ``counts`` by name."""

    latency_ms: dict[str, Spread]
    stage_ms: dict[str, Spread]
    counts: dict[str, float]
    sender: Sender
    server: dict[str, float | None]
    gpu: dict[str, float | None]
    tts: dict[str, float | None]
    batch: dict[str, Spread]

    def flat(self) -> dict[str, float | None]:
        """Every figure that a limit can be put on, by its name: ``ttfs.p95``, ``underruns``. None
        for what was not measured, infinite for what never came."""
        found: dict[str, float | None] = dict(self.counts)
        for spreads in (self.latency_ms, self.stage_ms):
            for name, spread in spreads.items():
                missing = math.inf if spread.n else None
                for share in NAMES:
                    value = getattr(spread, share)
                    found[f"{name}.{share}"] = missing if value is None else value
        return found


LATENCIES: Final = (
    *("ttfa", "ttfs", "onset", "commit", "reply", "barge_in", "gap", "connect", "refusal"),
)
COUNTS: Final = (
    *("calls", "refused", "lost", "failed_calls", "turns", "answered", "unanswered", "early"),
    *("failed", "hung_up", "unfinished", "barge_ins", "missed_barge_ins", "false_barge_ins"),
    *("backchannels", "underruns", "underrun_ms", "cuts", "phantoms", "errors", "wer", "words"),
    *("words_lost", "resumed"),
)


def known_names() -> set[str]:
    """Names of the figures that each run has; those of stages depend on the server."""
    return set(COUNTS) | {f"{name}.{share}" for name in LATENCIES for share in NAMES}


def spread(values: Iterable[float | None]) -> Spread:
    """The quantiles; None among the values is one that never came."""
    row = np.array([math.inf if value is None else value for value in values])
    if not len(row):
        return Spread(0)
    # Of two neighbours the later one: an average with what never came would be no number.
    quantiles = np.percentile(row, SHARES, method="higher")
    told = (round(float(q), 1) if math.isfinite(q) else None for q in quantiles)
    return Spread(len(row), *told)


def latencies(turns: Sequence[TurnRecord], calls: Sequence[CallRecord]) -> dict[str, Spread]:
    """By name. A turn that nobody answered has a latency without end."""
    answered = [turn for turn in turns if turn.outcome == "answered"]
    never: list[float | None] = [None for turn in turns if turn.outcome in ("unanswered", "failed")]
    return {
        "ttfa": spread([*(turn.first_audio_ms for turn in answered), *never]),
        "ttfs": spread([*_known(turn.sentence_ms for turn in answered), *never]),
        "onset": spread([*_known(turn.onset_ms for turn in answered), *never]),
        "commit": spread(_known(turn.commit_ms for turn in answered)),
        "reply": spread(_known(map(_after_commit, answered))),
        "barge_in": spread(turn.stop_ms for turn in turns if turn.barge in ("stopped", "missed")),
        "gap": spread(gap for turn in turns for gap in turn.gaps_ms),
        "connect": spread(_known(call.answer_ms for call in calls if call.status == 101)),
        "refusal": spread(_known(call.answer_ms for call in calls if call.end == "refused")),
    }


def counts(turns: Sequence[TurnRecord], calls: Sequence[CallRecord]) -> dict[str, float]:
    """By name; ``COUNTS``."""
    outcomes = Counter(turn.outcome for turn in turns)
    ends = Counter(call.end for call in calls)
    heard = [turn for turn in turns if turn.outcome in ("answered", "early", "unanswered")]
    words = wer((turn.said, turn.heard) for turn in heard)
    return {
        "calls": len(calls),
        "refused": ends["refused"],
        "lost": ends["lost"],
        "failed_calls": ends["failed"],
        "turns": len(turns) - outcomes["unfinished"] - outcomes["hung_up"],
        **{name: outcomes[name] for name in ("answered", "unanswered", "early", "failed")},
        "hung_up": outcomes["hung_up"],
        "unfinished": outcomes["unfinished"],
        "barge_ins": sum(turn.barge in ("stopped", "missed") for turn in turns),
        "missed_barge_ins": sum(turn.barge == "missed" for turn in turns),
        "false_barge_ins": sum(turn.false_stops for turn in turns),
        "backchannels": sum(turn.backchannel for turn in turns),
        "underruns": sum(turn.underruns for turn in turns),
        "underrun_ms": round(sum(turn.underrun_ms for turn in turns), 1),
        "cuts": sum(turn.cuts for turn in turns),
        "phantoms": sum(call.phantoms for call in calls),
        "errors": sum(len(call.errors) for call in calls),
        "wer": round(words.rate, 4),
        "words": words.words,
        "words_lost": words.lost,
    }


def stages(histograms: Mapping[str, Histogram]) -> dict[str, Spread]:
    """Every histogram of seconds that the server has, in ms, by a short name: ``stage.asr``."""
    found = {}
    for key, histogram in histograms.items():
        if "_seconds" in key:
            found[short(key.replace("_seconds", ""))] = _quantiles(histogram, 1000)
    return found


def batches(histograms: Mapping[str, Histogram]) -> dict[str, Spread]:
    """The histograms that count no seconds: rows of batches, mostly."""
    return {
        short(key): _quantiles(histogram, 1)
        for key, histogram in histograms.items()
        if "_seconds" not in key
    }


def sender(late: Lateness, cpu_s: float, session_s: float) -> Sender:
    """How the callers themselves did."""
    return Sender(
        late_p50_ms=late.quantile_ms(0.5),
        late_p99_ms=late.quantile_ms(0.99),
        late_max_ms=late.quantile_ms(1.0),
        cpu_ms_per_session_second=round(1000 * cpu_s / session_s, 2) if session_s else 0.0,
        session_seconds=round(session_s, 1),
    )


def server_load(samples: Sequence[Sample]) -> dict[str, float | None]:
    """CPU in cores, a session and in all, and memory, over the samples that have them."""
    cores = [sample.cores for sample in samples if sample.cores is not None]
    memory = [sample.rss_mb for sample in samples if sample.rss_mb is not None]
    open_calls = float(np.mean([sample.open for sample in samples])) if samples else 0.0
    mean = float(np.mean(cores)) if cores else None
    each = None if mean is None or not open_calls else round(1000 * mean / open_calls, 2)
    return {
        "cores_mean": None if mean is None else round(mean, 2),
        "cores_max": round(max(cores), 2) if cores else None,
        "cpu_ms_per_session_second": each,
        "rss_mb_first": memory[0] if memory else None,
        "rss_mb_max": max(memory) if memory else None,
    }


def gpu_load(samples: Sequence[Sample]) -> dict[str, float | None]:
    """How busy the busiest GPU was, and memory of all of them."""
    busy = [gpu.busy for sample in samples for gpu in sample.gpus if gpu.busy is not None]
    used = [sum(gpu.used_mib for gpu in sample.gpus) for sample in samples if sample.gpus]
    return {
        "busy_p50": round(float(np.percentile(busy, 50)), 3) if busy else None,
        "busy_max": max(busy) if busy else None,
        "memory_mib_max": max(used) if used else None,
    }


def _quantiles(histogram: Histogram, scale: float) -> Spread:
    values = (histogram.quantile(share / 100) for share in SHARES)
    return Spread(
        histogram.count, *(None if value is None else round(value * scale, 1) for value in values)
    )


def short(key: str) -> str:
    """A metric's name as people read it: ``antiphon_stage{stage="asr"}`` is ``stage.asr``."""
    name, _, labels = key.removeprefix("antiphon_").partition("{")
    values = [part.partition('"')[2] for part in labels.rstrip("}").split('",')]
    told = ".".join(value.rstrip('"') for value in values if value)
    return f"{name}.{told}" if told else name


def _after_commit(turn: TurnRecord) -> float | None:
    if turn.first_audio_ms is None or turn.commit_ms is None:
        return None
    return round(turn.first_audio_ms - turn.commit_ms, 1)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
