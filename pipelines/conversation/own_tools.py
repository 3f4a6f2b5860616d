"""Tools that the server itself carries out: what a model may do to the call it is in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from engines.ports import Tool
from pipelines.conversation.events import Event, HangUpRequested, ProfileChosen
from pipelines.conversation.patience import PROFILES

_DIGITS: Final = re.compile(r"[0-9A-D*#]{1,32}")


@dataclass(frozen=True, slots=True)
class DigitsChosen:
    """These keys are to be pressed for the other side to hear. It is to the door alone."""

    digits: str


Deed: TypeAlias = Event | DigitsChosen
Perform: TypeAlias = Callable[[Mapping[str, Any]], Deed]


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool, and what a call of it with these arguments is. ``by_phone``: only of use there."""

    tool: Tool
    perform: Perform
    by_phone: bool = False


def _choose_profile(arguments: Mapping[str, Any]) -> Event:
    profile = arguments.get("kind")
    if not isinstance(profile, str) or profile not in PROFILES:
        raise ValueError(f"kind is {profile!r}: it must be one of {', '.join(PROFILES)}")
    return ProfileChosen(profile, once=bool(arguments.get("once", True)))


def _choose_digits(arguments: Mapping[str, Any]) -> Deed:
    digits = str(arguments.get("digits", "")).replace(" ", "").upper()
    if not _DIGITS.fullmatch(digits):
        raise ValueError("digits must be 1 to 32 keys out of 0-9, * and #")
    return DigitsChosen(digits)


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
    "send_digits": OwnTool(
        Tool(
            "send_digits",
            "Press keys of the telephone for the other side to hear, where a machine there asks"
            " for them: a menu's choice, an extension. Then wait for what it says.",
            {
                "type": "object",
                "properties": {"digits": {"type": "string", "pattern": "^[0-9*#]{1,32}$"}},
                "required": ["digits"],
            },
        ),
        _choose_digits,
        by_phone=True,
    ),
}


def without_phone(names: Iterable[str]) -> tuple[str, ...]:
    """Those of them that are of use on any wire."""
    return tuple(name for name in names if not OWN_TOOLS[name].by_phone)


def perform(name: str, arguments: str) -> tuple[Deed | None, str]:
    """What a call of our tool is, and what the model is told of it."""
    try:
        decoded = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        return OWN_TOOLS[name].perform(decoded), "done"
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return None, f"{name} was not done: {error}"
