"""What the server counts beside its calls: its ears, its engines."""

import pytest

from engines.ports import Load
from voice.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"antiphon_{name}", labels)


def test_the_ears_are_read_when_they_are_asked_for(metrics: Metrics) -> None:
    class Ears:
        windows, batches = 7, 3

    metrics.watch_ears(Ears())  # type: ignore[arg-type]
    Ears.windows = 9
    assert (value(metrics, "vad_windows"), value(metrics, "vad_batches")) == (9, 3)


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
