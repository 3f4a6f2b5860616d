"""How a call takes turns: what a configuration or a client may set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from msgspec import Meta

from pipelines.conversation.endpoint import EndpointSettings
from pipelines.conversation.patience import Profile
from pipelines.strain import Strain

SLOW_PARTIAL_MS: Final = 600
"""Time between two readings of words while the house is strained, at least."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How a call takes turns.

    ``detect`` off leaves the turns to the client. ``profile`` None ends a turn after
    ``endpoint.silence_ms``, a name after a wait that follows what was said and how. A reply that
    can be heard is interrupted by ``interrupt_ms`` of unbroken speech, or by words; ``echo_guard``
    tells the agent's own voice in the microphone from the caller's. ``partials`` shows words while
    the caller speaks, every ``partial_ms`` to three times that, as the recogniser has time.
    ``stall_ms`` without any audio end an open turn: the caller's line may die in mid-word.

    ``idle_ms`` after the last words, the caller's or the agent's, the caller is asked whether they
    are there, after ``hang_up_ms`` more the call ends; None for never. Sounds without words do not
    count. Only where turns are detected is it known that nobody speaks. A tool that takes
    ``filler_ms`` is bridged with a word. ``apologise``: where a reply fails, or the caller's words
    are lost, the caller is told so; telephones always do.
    """

    detect: bool = True
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    profile: Profile | None = None
    create_response: bool = True
    interrupt_response: bool = True
    interrupt_ms: Annotated[int, Meta(ge=0, le=2_000)] = 200
    echo_guard: bool = True
    speculate: bool = True
    partials: bool = True
    partial_ms: Annotated[int, Meta(ge=100, le=60_000)] = 200
    stall_ms: Annotated[int, Meta(ge=1)] = 1_000
    transcript_timeout_ms: Annotated[int, Meta(ge=1)] = 15_000
    idle_ms: Annotated[int, Meta(ge=1)] | None = None
    hang_up_ms: Annotated[int, Meta(ge=1)] | None = None
    filler_ms: Annotated[int, Meta(ge=200)] | None = 2_000
    apologise: bool = False

    def under(self, strain: Strain) -> TurnSettings:
        """The same, without what is left off at this step."""
        slowly = strain >= Strain.SLOW_PARTIALS
        return replace(
            self,
            partials=self.partials and strain < Strain.NO_PARTIALS,
            partial_ms=max(self.partial_ms, SLOW_PARTIAL_MS) if slowly else self.partial_ms,
            speculate=self.speculate and strain < Strain.NO_SPECULATION,
        )
