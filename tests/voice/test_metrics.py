"""What the server counts beside its calls: its ears, its engines."""

import pytest

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
