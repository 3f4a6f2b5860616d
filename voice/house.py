"""The house: what all doors of one server share."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engines.diarization.turns import Diarizer
from engines.ports import Embedder, Measured
from pipelines.conversation.call import Call
from pipelines.conversation.own_tools import without_phone
from pipelines.conversation.ports import CallSettings, Engines, Observer
from pipelines.strain import Strain
from voice.admission import Admission, Room
from voice.call_metrics import CallMetrics
from voice.client_secrets import ClientSecrets
from voice.config import ENGINES, Config
from voice.files import FileJobs
from voice.metering import Meter
from voice.metrics import Metrics
from voice.rates import Rates, Sparing
from voice.reception import Reception
from voice.records import Records
from voice.traces import Traces

if TYPE_CHECKING:
    from voice.doors.phone_call import PhoneCall

_TELL_EVERY_S: Final = 60.0
"""Of one tenant's calls, refused for one reason, so often at most: a client that calls again at
once must not fill the log."""


@dataclass(slots=True)
class House:
    """The configuration, the engines, and who is in. ``ready`` once every model is warm;
    ``closing`` once it takes no more calls; ``bearable``: how many go well together, for now;
    ``voices``: the names that replies may ask for, where the engine knows them."""

    config: Config
    engines: Engines
    metrics: Metrics = field(default_factory=Metrics)
    meter: Meter = field(default_factory=Meter)
    embedder: Embedder | None = None
    diarizer: Diarizer | None = None
    voices: tuple[str, ...] = ()
    ready: bool = False
    closing: bool = False
    open_calls: set[Call] = field(default_factory=set)
    strain: Strain = Strain.NONE
    bearable: float = math.inf
    files_may_run: asyncio.Event = field(default_factory=asyncio.Event)
    records: Records = field(init=False)
    reception: Reception = field(init=False)
    files: FileJobs = field(init=False)
    traces: Traces = field(init=False)
    rates: Rates = field(init=False)
    client_secrets: ClientSecrets = field(default_factory=ClientSecrets)
    phone_calls: dict[tuple[str, str], PhoneCall] = field(default_factory=dict)
    """By tenant and name, the carrier's and ours: those that a client may join."""
    refusals: Sparing = field(default_factory=lambda: Sparing(_TELL_EVERY_S))
    _voice: Measured | None = field(init=False)
    _voice_slots: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.files_may_run.set()
        self.records = Records(self.config.journal)
        self.traces = Traces(self.config)
        self.rates = Rates(self.config.tenants)
        self.metrics.watch_meter(self.meter)
        self._voice = self.engines.tts if isinstance(self.engines.tts, Measured) else None
        admission = Admission(self.config.admission, self.config.tenants, self.room())
        self.reception = Reception(admission, self.room, self.metrics)
        shared = len(self.config.keys) > 1
        self.files = FileJobs(self.config.files, self.reception, shared=shared)

    @property
    def calls(self) -> int:
        """Calls that hold a lease."""
        return self.reception.admission().calls

    @property
    def call_settings(self) -> CallSettings:
        """How a call behaves unless its session says otherwise."""
        agent = self.config.agent
        return CallSettings(
            turns=self.config.turns,
            instructions=agent.instructions,
            voice=agent.voice,
            language=agent.language,
            max_tokens=agent.max_tokens,
            temperature=agent.temperature,
            context_tokens=agent.context_tokens,
            own_tools=without_phone(agent.tools),
            short_tokens=self.config.overload.short_tokens,
        )

    @property
    def model(self) -> str:
        """What the server calls the whole of its models."""
        config = self.config
        return f"antiphon/{config.asr.engine}+{config.llm.engine}+{config.tts.engine}"

    @property
    def models(self) -> tuple[str, ...]:
        """All names that the server has for models: the whole, what hears, what speaks, and what
        tells texts apart."""
        config = self.config
        parts = [f"antiphon/{config.asr.engine}", f"antiphon/{config.tts.engine}"]
        parts += [f"antiphon/{config.embedding.engine}"] if self.embedder else []
        return tuple(dict.fromkeys((self.model, *parts)))

    def room(self) -> Room:
        """What can be held now. A voice that serves so many at a time bounds the calls: nobody can
        wait for it in the middle of a reply, whereas what hears and thinks has a queue."""
        settings, voice = self.config.admission, self._voice
        if voice is not None and (slots := voice.load().slots):
            self._voice_slots = slots  # still so while its processes are being started again
        bounds = {kind: getattr(settings, kind) for kind in ENGINES}
        bounds["tts"] = bounds["tts"] or self._voice_slots
        engines = {kind: bound for kind, bound in bounds.items() if bound}
        return Room(settings.max_calls, engines, self.strain, self.closing, self.bearable)

    def close(self) -> None:
        """Take no more calls, and send away who waits for one."""
        self.closing = True
        self.reception.settle()

    @contextmanager
    def watched(
        self, call: str, tenant: str, headers: Mapping[str, str]
    ) -> Iterator[tuple[Observer, ...]]:
        """What reads along with a call that began with these headers, and whom its work is booked
        on, until the end of the context."""
        with self.meter.call(call, tenant), self.traces.follow(call, headers) as traced:
            yield (CallMetrics(self.metrics), *traced)

    @contextmanager
    def knows(self, call: Call) -> Iterator[None]:
        """The call is one of ``open_calls`` for as long as the context lasts."""
        self.open_calls.add(call)
        call.bear(self.strain)
        try:
            yield
        finally:
            self.open_calls.discard(call)
