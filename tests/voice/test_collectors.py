"""What is read off engines, batches and bookings at each scrape."""

import pytest
from prometheus_client import generate_latest

from engines.batching.tally import Tally
from engines.ports import Load
from voice.metering import Meter
from voice.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"antiphon_{name}", labels)


class Busy:
    """An engine that says what it is doing."""

    def __init__(self, load: Load) -> None:
        self.now = load

    def load(self) -> Load:
        return self.now


def test_what_engines_are_doing_is_asked_at_each_scrape(metrics: Metrics) -> None:
    tts = Busy(Load(slots=24, busy=9, speaking=8, batch=7, step_ms=12.0, queued=1))
    metrics.watch_engines({"tts": tts, "asr": object()})
    gauges = ("slots", "busy", "speaking", "batch", "step_seconds", "queued")
    assert [value(metrics, f"engine_{name}", engine="tts") for name in gauges] == [
        *(24, 9, 8, 7, 0.012, 1)
    ]
    tts.now = Load(speaking=2, batch=3)
    assert value(metrics, "engine_speaking", engine="tts") == 2
    assert value(metrics, "engine_batch", engine="tts") == 3
    assert value(metrics, "engine_slots", engine="asr") is None


def test_tokens_of_speech_are_counted_where_there_are_any(metrics: Metrics) -> None:
    tts = Busy(Load())
    metrics.watch_engines({"tts": tts})
    assert value(metrics, "tts_tokens_total") is None
    tts.now = Load(tokens=820)
    assert value(metrics, "tts_tokens_total") == 820


class Broken:
    """An engine of somebody's that cannot say what it is doing after all."""

    def load(self) -> Load:
        raise AttributeError("slots")


def test_an_engine_that_cannot_tell_after_all_takes_nothing_else_with_it(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.watch_engines({"asr": Broken(), "tts": Busy(Load(slots=3))})
    for _ in range(2):
        assert value(metrics, "engine_slots", engine="tts") == 3
        assert value(metrics, "engine_slots", engine="asr") is None
    assert caplog.text.count("its load() is broken") == 1


class Hearing:
    """Ears whose batches have been counted."""

    windows = batches = 2

    def __init__(self) -> None:
        self.tally = Tally()
        self.tally.add(rows=3, speaking=5, wait_ms=2.0, step_ms=0.7)
        self.tally.add(rows=5, speaking=5, wait_ms=300.0, step_ms=1.0)


def test_batches_are_histograms_by_the_streams_that_speak(metrics: Metrics) -> None:
    busy = Busy(Load(batches=Tally()))
    metrics.watch_engines({"tts": busy, "llm": Busy(Load())}, Hearing())  # type: ignore[arg-type]
    vad = {"engine": "vad", "speaking": "8"}
    assert value(metrics, "batch_rows_bucket", **vad, le="4.0") == 1
    assert value(metrics, "batch_rows_bucket", **vad, le="+Inf") == 2
    assert value(metrics, "batch_rows_sum", **vad) == 8
    assert value(metrics, "batch_wait_seconds_bucket", engine="vad", le="0.002") == 1
    assert value(metrics, "batch_wait_seconds_sum", engine="vad") == pytest.approx(0.302)
    assert value(metrics, "batch_step_seconds_count", engine="vad") == 2
    assert value(metrics, "batch_step_seconds_count", engine="tts") == 0
    assert value(metrics, "batch_step_seconds_count", engine="llm") is None
    generate_latest(metrics.registry)


def test_seconds_are_told_by_tenant(metrics: Metrics) -> None:
    meter = Meter()
    meter.watch("tts")
    metrics.watch_meter(meter)
    with meter.call("c1", 'the "best" \\ tenant'):
        meter.begin("tts", meter.tenant_of("c1"), 1.0)
        meter.book_cpu(0.25, 0.5, 3.0)
    labels = {"tenant": 'the "best" \\ tenant'}
    assert value(metrics, "tenant_engine_seconds_total", engine="tts", **labels) == 2.0
    assert value(metrics, "tenant_cpu_seconds_total", **labels) == 0.75
    generate_latest(metrics.registry)
