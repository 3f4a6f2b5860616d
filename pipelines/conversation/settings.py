"""How a call takes turns: what a configuration or a client may set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from pipelines.conversation.endpoint import EndpointSettings
from pipelines.conversation.patience import Profile


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How a call takes turns.

    ``detect`` off leaves the turns to the client. ``profile`` None ends a turn after
    ``endpoint.silence_ms``, a name after a wait that follows what was said and how. A reply that
    can be heard is interrupted by ``interrupt_ms`` of unbroken speech, or by words; ``echo_guard``
    tells the agent's own voice in the microphone from the caller's. ``partials`` shows words while
    the caller speaks. ``stall_ms`` without any audio end an open turn: the caller's line may die
    in mid-word.

    ``idle_ms`` after the last words, the caller's or the agent's, the caller is asked whether they
    are there, after ``hang_up_ms`` more the call ends; None for never. Sounds without words do not
    count. Only where turns are detected is it known that nobody speaks. A tool that takes
    ``filler_ms`` is bridged with a word.
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
    stall_ms: Annotated[int, Meta(ge=1)] = 1_000
    transcript_timeout_ms: Annotated[int, Meta(ge=1)] = 15_000
    idle_ms: Annotated[int, Meta(ge=1)] | None = None
    hang_up_ms: Annotated[int, Meta(ge=1)] | None = None
    filler_ms: Annotated[int, Meta(ge=200)] | None = 2_000
