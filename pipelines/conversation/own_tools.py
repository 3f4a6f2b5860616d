"""Tools that the server itself carries out: what a model may do to the call it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from engines.ports import Tool
from pipelines.conversation.events import Event, HangUpRequested, ProfileChosen
from pipelines.conversation.patience import PROFILES

Perform: TypeAlias = Callable[[Mapping[str, Any]], Event]


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool, and the event that a call of it with these arguments is."""

    tool: Tool
    perform: Perform


def _choose_profile(arguments: Mapping[str, Any]) -> Event:
    profile = arguments.get("kind")
    if not isinstance(profile, str) or profile not in PROFILES:
        raise ValueError(f"kind is {profile!r}: it must be one of {', '.join(PROFILES)}")
    return ProfileChosen(profile, once=bool(arguments.get("once", True)))


OWN_TOOLS: Final[Mapping[str, OwnTool]] = {
    "expect_answer": OwnTool(
        Tool(
            "expect_answer",
            "Call this together with a question whose answer takes the caller time: kind 'digits'"
            " before you ask for a number, a date, a code or a spelling; 'patient' before you ask"
            " for something to think about; 'normal' to go back.",
            {
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "enum": list(PROFILES)},
                    "once": {
                        "type": "boolean",
                        "description": "for the next answer only, which is the default",
                    },
                },
                "required": ["kind"],
            },
        ),
        _choose_profile,
    ),
    "hang_up": OwnTool(
        Tool(
            "hang_up",
            "End the call, once what you say has been heard. Say goodbye first.",
            {"type": "object", "properties": {}},
        ),
        lambda _: HangUpRequested(),
    ),
}


def perform(name: str, arguments: str) -> tuple[Event | None, str]:
    """What a call of our tool is, and what the model is told of it."""
    try:
        decoded = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        return OWN_TOOLS[name].perform(decoded), "done"
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return None, f"{name} was not done: {error}"
