"""What the server counts, for Prometheus at ``/metrics``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from engines.ports import Measured
from engines.vad.ears import Ears
from voice.admission import Admission
from voice.collectors import Loads, Tenants
from voice.metering import Meter

_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 5.0)


class Metrics:
    """The server's metrics; one for each server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._count_callers()
        self._count_turns()
        self._time_answers()
        self._tell_strain()
        self._tell_sound()
        self.model_load = Gauge(
            "antiphon_model_load_seconds",
            "What it took to load an engine's model and run it once, at the start",
            ["engine"],
            registry=self.registry,
        )

    def _count_callers(self) -> None:
        self.calls_opened = self._counter("calls_opened", "Calls since the start", "outcome")
        self.refusals = Counter(
            "antiphon_refusals",
            "Callers who were not let in, by reason",
            ["reason", "tenant"],
            registry=self.registry,
        )
        self.calls_expired = Counter(
            "antiphon_calls_expired",
            "Calls that were ended since nothing came from their client any more",
            registry=self.registry,
        )
        self.files_displaced = Counter(
            "antiphon_files_displaced",
            "File jobs that had to leave their slots to calls",
            registry=self.registry,
        )
        self.file_jobs = Counter(
            "antiphon_file_jobs",
            "Requests for speech, transcriptions and embeddings, by engine: done, refused, failed,"
            " gone",
            ["engine", "outcome"],
            registry=self.registry,
        )
        self.waits = Histogram(
            "antiphon_wait_seconds",
            "Time in the waiting room, by how it ended: admitted, refused, gone",
            ["outcome"],
            buckets=(0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0),
            registry=self.registry,
        )

    def _count_turns(self) -> None:
        self.turns = self._counter("turns", "Turns of callers, by what became of them", "outcome")
        self.replies = self._counter("replies", "Replies, by how they ended", "outcome")
        self.interruptions = self._counter(
            "interruptions",
            "Replies that fell silent because the caller spoke: meant (true) or not (false)",
            "meant",
        )
        self.doubts = self._counter(
            "doubted_transcripts",
            "Transcripts of which a guard threw words away, had them heard again or doubts them:"
            " once for each of its reasons",
            "reason",
        )
        self.recalls = self._counter(
            "recalls", "Look-ups for replies: found, nothing, late, failed", "outcome"
        )
        self.ahead = self._counter(
            "prepared_replies", "Replies worked out ahead of the turn's end", "outcome"
        )

    def _time_answers(self) -> None:
        self.first_audio = self._seconds(
            "first_audio",
            "From the end of the caller's turn, as decided, to the reply's first audio",
        )
        self.response = self._seconds(
            "response", "From the caller's last sound to the reply's first audio"
        )
        self.first_sentence = self._seconds(
            "first_sentence",
            "From the caller's last sound to the last sample of the reply's first sentence",
        )
        self.stages = self._seconds(
            "stage",
            "recall: a reply waited for what was looked up;"
            " silence: waited for before the turn was over; asr: one transcription; llm: to the"
            " first token; phrase: from there to the first phrase; tts: from there to the first"
            " audio; sentence: from there to the last sample of the first sentence",
            "stage",
        )
        self.barge_in = self._seconds(
            "barge_in_stop", "From the caller's first sound over a reply to the reply's silence"
        )
        self.phone_lateness = self._seconds(
            "phone_lateness",
            "How much later than planned a phone leg was given its next audio",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
        )
        self.loop_lag = self._seconds(
            "loop_lag",
            "How late the event loop runs what is due",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
        )

    def _tell_strain(self) -> None:
        self.strain = Gauge(
            "antiphon_strain",
            "The step of the overload ladder: 0 none, 1 slow partials, 2 no partials, 3 no"
            " speculation, 4 short replies, 5 no files, 6 no calls",
            registry=self.registry,
        )
        self.strain_steps = self._counter(
            "strain_steps", "Changes of the overload ladder's step, by where they led", "to"
        )
        self.bearable = Gauge(
            "antiphon_bearable_calls",
            "Calls that go well together for now, by how the house bears those that it has",
            registry=self.registry,
        )
        self.bearable.set(math.inf)
        self.signs = Gauge(
            "antiphon_strain_sign",
            "What the overload ladder goes by; each is strained from 1 on",
            ["sign"],
            registry=self.registry,
        )

    def _tell_sound(self) -> None:
        self.underruns = Counter(
            "antiphon_underruns",
            "Gaps in replies because their audio came late, for a listener with 60 ms in reserve",
            registry=self.registry,
        )
        self.underrun_seconds = Counter(
            "antiphon_underrun_seconds", "How long these gaps were", registry=self.registry
        )
        self.playout_lead = self._seconds(
            "playout_lead",
            "How long a listener has enough, of replies that have sounded for a second and are"
            " still being made; looked at twice a second",
        )
        self.tts_rtf = Gauge(
            "antiphon_tts_realtime_factor",
            "How long the voice took for a second of audio, in the last seconds; 0 for silence",
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, label: str) -> Counter:
        return Counter(f"antiphon_{name}", text, [label], registry=self.registry)

    def _seconds(
        self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        name = f"antiphon_{name}_seconds"
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def watch_ears(self, ears: Ears) -> None:
        """Export what the VAD's batches look like."""
        for name, text, read in (
            ("antiphon_vad_windows", "Windows judged", lambda: ears.windows),
            ("antiphon_vad_batches", "Batches they were judged in", lambda: ears.batches),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def watch_admission(self, admission: Callable[[], Admission]) -> None:
        """Export who is in, who waits, and the slots, asked for at each scrape."""
        self.registry.register(_Leases(admission))

    def watch_engines(self, engines: Mapping[str, object], ears: Ears | None = None) -> None:
        """Export what each engine is doing, asked for at each scrape; ``engines`` by kind."""
        measured = {kind: e for kind, e in engines.items() if isinstance(e, Measured)}
        self.registry.register(Loads(measured, ears))

    def watch_meter(self, meter: Meter) -> None:
        """Export whom the engines and the processor have worked for, asked for at each scrape."""
        self.registry.register(Tenants(meter))


class _Leases(Collector):
    """What the admission has given out."""

    def __init__(self, admission: Callable[[], Admission]) -> None:
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        admission = self._admission()
        yield GaugeMetricFamily("antiphon_calls", "Calls that are open now", admission.calls)
        yield GaugeMetricFamily("antiphon_waiting", "Callers who wait", admission.waiting)
        tenants = GaugeMetricFamily("antiphon_tenant_calls", "Open calls", labels=["tenant"])
        for name, calls in admission.by_tenant().items():
            tenants.add_metric([name], calls)
        yield tenants
        slots = GaugeMetricFamily(
            "antiphon_slots",
            "Slots of all calls together and of each engine that has a bound: total, leased, free",
            labels=["of", "state"],
        )
        for name, total, leased in admission.slots():
            free = max(0, total - leased)
            for state, number in (("total", total), ("leased", leased), ("free", free)):
                slots.add_metric([name, state], number)
        yield slots
