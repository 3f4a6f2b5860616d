"""What the server counts, for Prometheus at ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from engines.ports import Measured
from engines.vad.ears import Ears
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DropReply,
    Event,
    FailTranscript,
    Output,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyAudio,
    ReplyFinished,
    ResumeReply,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
)
from pipelines.conversation.reply import Stages

_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 5.0)


_LOAD_GAUGES: Final = {
    "antiphon_engine_slots": ("slots", "Requests that it serves at once; 0 for no bound"),
    "antiphon_engine_busy": ("busy", "Requests that are open"),
    "antiphon_engine_speaking": ("speaking", "Streams that its next batch waits for"),
    "antiphon_engine_batch": ("batch", "Rows of its last batch"),
    "antiphon_engine_step_seconds": ("step_ms", "What its last batch took"),
    "antiphon_engine_queued": ("queued", "Items that wait for a batch"),
}
"""Name of the gauge -> the field of ``engines.ports.Load``, and what it tells."""


class Metrics:
    """The server's metrics; one for each server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Gauge("antiphon_calls", "Calls that are open now", registry=self.registry)
        self.calls_opened = self._counter("calls_opened", "Calls since the start", "outcome")
        self.turns = self._counter("turns", "Turns of callers, by what became of them", "outcome")
        self.replies = self._counter("replies", "Replies, by how they ended", "outcome")
        self.interruptions = self._counter(
            "interruptions",
            "Replies that fell silent because the caller spoke: meant (true) or not (false)",
            "meant",
        )
        self.doubts = self._counter(
            "doubted_transcripts", "Transcripts that a guard doubted", "reason"
        )
        self.ahead = self._counter(
            "prepared_replies", "Replies worked out ahead of the turn's end", "outcome"
        )
        self.first_audio = Histogram(
            "antiphon_first_audio_seconds",
            "From the end of the caller's turn, as decided, to the reply's first audio",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.stages = Histogram(
            "antiphon_stage_seconds",
            "asr: one transcription; llm: to the first token; phrase: from there to the first"
            " phrase; tts: from there to the first audio",
            ["stage"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.loop_lag = Histogram(
            "antiphon_loop_lag_seconds",
            "How late the event loop runs what is due",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, label: str) -> Counter:
        return Counter(f"antiphon_{name}", text, [label], registry=self.registry)

    def watch_ears(self, ears: Ears) -> None:
        """Export what the VAD's batches look like."""
        for name, text, read in (
            ("antiphon_vad_windows", "Windows judged", lambda: ears.windows),
            ("antiphon_vad_batches", "Batches they were judged in", lambda: ears.batches),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def watch_engines(self, engines: Mapping[str, object]) -> None:
        """Export what each engine is doing, asked for at each scrape; ``engines`` by kind."""
        measured = {kind: e for kind, e in engines.items() if isinstance(e, Measured)}
        self.registry.register(_Loads(measured))


class _Loads(Collector):
    """The engines' own figures, as gauges labelled by the kind of engine."""

    def __init__(self, engines: Mapping[str, Measured]) -> None:
        self._engines = engines

    def collect(self) -> Iterator[Metric]:
        loads = {kind: engine.load() for kind, engine in self._engines.items()}
        for name, (field, text) in _LOAD_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["engine"])
            for kind, load in loads.items():
                value = getattr(load, field)
                gauge.add_metric([kind], value / 1000 if name.endswith("_seconds") else value)
            yield gauge


class CallMetrics:
    """Reads along with one call; an Observer."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._committed_at: float | None = None
        self._takes: dict[int, int] = {}
        self._interrupted = False

    def stepped(self, event: Event, commands: Sequence[Command], now: int) -> None:
        if isinstance(event, TranscriptArrived):
            self._count_take(event, now)
        for command in commands:
            self._count(command, now)

    def said(self, output: Output, now: float) -> None:
        if isinstance(output, ReplyAudio) and self._committed_at is not None:
            self._metrics.first_audio.observe((now - self._committed_at) / 1000)
            self._committed_at = None
        elif isinstance(output, ReplyFinished):
            self._metrics.replies.labels("failed" if output.code else "completed").inc()

    def staged(self, stages: Stages) -> None:
        before = stages.began
        for name, at in (
            ("llm", stages.first_token),
            ("phrase", stages.first_phrase),
            ("tts", stages.first_audio),
        ):
            if at is None:
                return
            self._metrics.stages.labels(name).observe(at - before)
            before = at

    def _count_take(self, event: TranscriptArrived, now: int) -> None:
        if event.suspicion:
            self._metrics.doubts.labels(event.suspicion).inc()
        if event.take in self._takes:
            elapsed = (now - self._takes.pop(event.take)) / 1000
            self._metrics.stages.labels("asr").observe(elapsed)

    def _count(self, command: Command, now: int) -> None:
        match command:
            case Transcribe() if command.purpose != "partial":
                self._takes = {command.take: now}
            case CommitTurn():
                self._committed_at = now
            case AcceptTranscript():
                self._metrics.turns.labels("heard" if command.text else "empty").inc()
            case FailTranscript():
                self._metrics.turns.labels("failed").inc()
            case PauseReply() | ResumeReply() | StopReply():
                self._count_interruption(command)
            case PrepareReply() | ReleaseReply() | DropReply() | StartReply():
                self._count_ahead(command)

    def _count_interruption(self, command: PauseReply | ResumeReply | StopReply) -> None:
        interrupted, self._interrupted = self._interrupted, isinstance(command, PauseReply)
        if isinstance(command, ResumeReply):
            self._committed_at = None
            self._metrics.interruptions.labels("false").inc()
        elif isinstance(command, StopReply):
            self._metrics.replies.labels(command.reason).inc()
            if interrupted:
                self._metrics.interruptions.labels("true").inc()

    def _count_ahead(self, command: PrepareReply | ReleaseReply | DropReply | StartReply) -> None:
        outcome = {
            PrepareReply: "prepared",
            ReleaseReply: "released",
            DropReply: "dropped",
            StartReply: "not_prepared",
        }[type(command)]
        self._metrics.ahead.labels(outcome).inc()
