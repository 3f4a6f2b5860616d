"""What is counted of a call, by what has happened in it."""

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import Load, Usage
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DropReply,
    Event,
    FailTranscript,
    OpenTurn,
    PrepareReply,
    ReleaseReply,
    ReplyAudio,
    ReplyFinished,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from voice.metrics import CallMetrics, Metrics

SOUND = ReplyAudio(1, Pcm(np.zeros(240, np.int16), 24_000))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def call(metrics: Metrics) -> CallMetrics:
    return CallMetrics(metrics)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"antiphon_{name}", labels)


def step(call: CallMetrics, *commands: Command, event: Event | None = None, now: int = 0) -> None:
    call.stepped(event or WindowHeard(0.0), commands, now)


@pytest.mark.parametrize(
    ("command", "name", "outcome"),
    [
        (AcceptTranscript(1, "hello"), "turns_total", "heard"),
        (AcceptTranscript(1, ""), "turns_total", "empty"),
        (FailTranscript(1, "no"), "turns_total", "failed"),
        (StopReply(1, "turn_detected"), "replies_total", "turn_detected"),
        (StopReply(1, "client_cancelled"), "replies_total", "client_cancelled"),
        (PrepareReply(1, "hello"), "prepared_replies_total", "prepared"),
        (ReleaseReply(1), "prepared_replies_total", "released"),
        (DropReply(1), "prepared_replies_total", "dropped"),
        (StartReply(1), "prepared_replies_total", "not_prepared"),
    ],
)
def test_decisions_are_counted(
    metrics: Metrics, call: CallMetrics, command: Command, name: str, outcome: str
) -> None:
    step(call, OpenTurn(1, 0))
    step(call, command)
    assert value(metrics, name, outcome=outcome) == 1


def test_replies_are_counted_by_how_they_end(metrics: Metrics, call: CallMetrics) -> None:
    call.said(ReplyFinished(1, Usage()), 0)
    call.said(ReplyFinished(2, Usage(), "timeout", "slow"), 0)
    assert value(metrics, "replies_total", outcome="completed") == 1
    assert value(metrics, "replies_total", outcome="failed") == 1


def test_the_wait_for_a_reply_is_from_the_turn_to_its_first_sound(
    metrics: Metrics, call: CallMetrics
) -> None:
    call.said(SOUND, 50)  # a reply that nobody waited for
    step(call, CommitTurn(1, 0), now=1_000)
    call.said(SOUND, 1_120)
    call.said(SOUND, 5_000)
    assert value(metrics, "first_audio_seconds_count") == 1
    assert value(metrics, "first_audio_seconds_sum") == pytest.approx(0.12)


def test_a_transcription_takes_as_long_as_its_take(metrics: Metrics, call: CallMetrics) -> None:
    step(call, Transcribe(1, 1, "ahead"), now=0)
    step(call, Transcribe(1, 2, "final"), now=100)
    step(call, event=TranscriptArrived(1, "given up"), now=5_000)
    step(call, event=TranscriptArrived(2, "hello"), now=350)
    assert value(metrics, "stage_seconds_count", stage="asr") == 1
    assert value(metrics, "stage_seconds_sum", stage="asr") == pytest.approx(0.25)


def test_stages_are_measured_one_from_the_other(metrics: Metrics, call: CallMetrics) -> None:
    call.staged(Stages(10.0, 10.2, 10.25, 10.5))
    call.staged(Stages(20.0, 20.4, None, None))  # failed before it had a phrase
    for stage, count, total in (("llm", 2, 0.6), ("phrase", 1, 0.05), ("tts", 1, 0.25)):
        assert value(metrics, "stage_seconds_count", stage=stage) == count
        assert value(metrics, "stage_seconds_sum", stage=stage) == pytest.approx(total)


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
