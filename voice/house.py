"""The house: what all doors of one server share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engines.ports import Measured
from pipelines.conversation.call import Call
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.strain import Strain
from voice.config import Config
from voice.metrics import Metrics
from voice.records import Records


@dataclass(slots=True)
class House:
    """The configuration, the engines, and who is in. ``ready`` once every model is warm."""

    config: Config
    engines: Engines
    metrics: Metrics = field(default_factory=Metrics)
    ready: bool = False
    calls: int = 0
    open_calls: set[Call] = field(default_factory=set)
    strain: Strain = Strain.NONE
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        self.records = Records(self.config.journal)

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
            own_tools=agent.tools,
        )

    @property
    def model(self) -> str:
        """What the server calls the whole of its models."""
        config = self.config
        return f"antiphon/{config.asr.engine}+{config.llm.engine}+{config.tts.engine}"

    @property
    def capacity(self) -> int:
        """Calls at once. A voice that serves so many at a time bounds it: nobody can wait for it
        in the middle of a reply, whereas what hears and thinks has a queue."""
        most, tts = self.config.server.max_calls, self.engines.tts
        slots = tts.load().slots if isinstance(tts, Measured) else 0
        return min(most, slots) if slots else most

    @property
    def is_full(self) -> bool:
        return self.calls >= self.capacity

    @contextmanager
    def admit(self) -> Iterator[None]:
        """One more call, for as long as the context lasts."""
        self.calls += 1
        self.metrics.calls_opened.labels("admitted").inc()
        self.metrics.calls.set(self.calls)
        try:
            yield
        finally:
            self.calls -= 1
            self.metrics.calls.set(self.calls)

    @contextmanager
    def knows(self, call: Call) -> Iterator[None]:
        """The call is one of ``open_calls`` for as long as the context lasts."""
        self.open_calls.add(call)
        try:
            yield
        finally:
            self.open_calls.discard(call)
