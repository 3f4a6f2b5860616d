"""A journal read again: whether the turn machine decides today as it did in the call, and what
happened, line by line.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import msgspec

from pipelines.conversation.endpoint import MOST_ECHO
from pipelines.conversation.events import (
    Command,
    Event,
    SettingsChanged,
    WindowHeard,
)
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.reply import Stages
from voice.journal import Closed, Entry, Recorded, Said, Staged, Step

# --- does it decide the same? ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """The machine decides otherwise than it did. ``number``: which of the call's steps, from 1;
    ``commands``: what it gives now; ``error``: what it raised instead."""

    number: int
    step: Step
    commands: tuple[Command, ...] = ()
    error: str = ""


def differences(recorded: Recorded) -> Iterator[Difference]:
    """The steps in which a fresh machine that is told the same gives other commands. It is told
    the rest all the same, unless it has raised."""
    machine = TurnMachine(recorded.header.settings)
    for number, step in enumerate(recorded.steps, 1):
        try:
            commands = tuple(machine.step(step.event, step.now))
        except Exception as error:  # noqa: BLE001 - told to whoever asked what differs
            yield Difference(number, step, error=f"{type(error).__name__}: {error}")
            return
        if commands != step.commands:
            yield Difference(number, step, commands)


# --- what happened, for people ---------------------------------------------------------------

Kind: TypeAlias = Literal["caller", "agent", "event", "command", "stage", "trouble"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. ``at_ms``: since the call began; ``title``: what, in words."""

    at_ms: float
    kind: Kind
    title: str
    detail: str = ""


@dataclass(slots=True)
class _Span:
    """Windows of the caller's audio, or pieces of the agent's, that are told of together."""

    kind: Kind
    title: str
    at_ms: float
    last_ms: float
    duration_ms: float = 0.0
    levels: list[float] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)

    def line(self) -> Line:
        parts = [f"{self.duration_ms / 1000:.2f} s"]
        if self.levels:
            parts.append(f"{sum(self.levels) / len(self.levels):.0f} dB")
        if self.probabilities:
            mean = sum(self.probabilities) / len(self.probabilities)
            parts.append(f"speech probability {mean:.2f}")
        return Line(self.at_ms, self.kind, self.title, ", ".join(parts))


@dataclass(slots=True)
class _Words:
    """A sentence of a reply that is written and not spoken: it comes token by token."""

    at_ms: float
    epoch: int | None
    text: str

    def line(self) -> Line:
        told = details({"epoch": self.epoch, "text": self.text})
        return Line(self.at_ms, "agent", "reply text", told)


_ENDS: Final = (".", "!", "?")
_WINDOW_MS: Final = 32.0
_STALL_MS: Final = 500.0
"""Audio that comes so much later than the last is told of anew."""

_FAILURES: Final = ("TranscriptFailed", "FailTranscript")


def lines(recorded: Recorded, differ: Iterable[Difference] = ()) -> list[Line]:
    """All that happened in a call, in its order; audio that goes on is one line, told where it
    begins, and so is a sentence that is only written."""
    telling = _Telling(recorded, {difference.number: difference for difference in differ})
    for entry in recorded.entries:
        telling.tell(entry, entry.now - recorded.header.clock_ms)
    return [told if isinstance(told, Line) else told.line() for told in telling.told]


class _Telling:
    def __init__(self, recorded: Recorded, differ: Mapping[int, Difference]) -> None:
        self.told: list[Line | _Span | _Words] = []
        self._differ = differ
        self._settings = recorded.header.settings
        self._hearing: _Span | None = None
        self._speaking: _Span | None = None
        self._number = 0

    def tell(self, entry: Entry, at_ms: float) -> None:
        match entry:
            case Step():
                self._number += 1
                self._tell_step(entry, at_ms)
            case Said(name="ReplyAudio"):
                self._sound(entry, at_ms)
            case Said(name="ReplyText") if not entry.fields.get("spoken"):
                self._write(entry, at_ms)
            case Said():
                self._speaking = None
                kind: Kind = "trouble" if entry.fields.get("code") else "agent"
                self._add(at_ms, kind, in_words(entry.name), details(_news_of(entry.fields)))
            case Staged():
                self._add(at_ms, "stage", "stages", stages_in_words(entry.stages))
            case Closed():
                self._add(at_ms, "event", "call closed")

    def _add(self, at_ms: float, kind: Kind, title: str, detail: str = "") -> None:
        self.told.append(Line(at_ms, kind, title, detail))

    def _tell_step(self, step: Step, at_ms: float) -> None:
        if isinstance(step.event, WindowHeard):
            self._hear(step.event, at_ms)
        else:
            self._tell_of(step.event, at_ms, "event", self._news(step.event))
        for command in step.commands:
            self._tell_of(command, at_ms, "command", details_of(command))
        difference = self._differ.get(self._number)
        if difference is not None:
            now = "; ".join(map(in_full, difference.commands))
            self._add(at_ms, "trouble", "today instead", difference.error or now or "nothing")

    def _tell_of(self, thing: Event | Command, at_ms: float, kind: Kind, detail: str) -> None:
        name = type(thing).__name__
        self._add(at_ms, "trouble" if name in _FAILURES else kind, in_words(name), detail)

    def _news(self, event: Event) -> str:
        if not isinstance(event, SettingsChanged):
            return details_of(event)
        before, self._settings = self._settings, event.settings
        return details(changes(before, event.settings)) or "nothing new"

    def _hear(self, window: WindowHeard, at_ms: float) -> None:
        title = sort_of(window, self._settings.endpoint.threshold)
        span = self._hearing = self._span("caller", title, at_ms, self._hearing)
        span.duration_ms += _WINDOW_MS
        span.levels.append(window.level_db)
        if window.probability is not None:
            span.probabilities.append(window.probability)

    def _sound(self, said: Said, at_ms: float) -> None:
        title = f"audio of reply {said.fields.get('epoch')}"
        span = self._speaking = self._span("agent", title, at_ms, self._speaking)
        span.duration_ms += float(said.fields.get("duration_ms", 0.0))

    def _write(self, said: Said, at_ms: float) -> None:
        self._speaking = None
        epoch, text = said.fields.get("epoch"), str(said.fields.get("text", ""))
        last = self.told[-1] if self.told else None
        if isinstance(last, _Words) and last.epoch == epoch and not last.text.endswith(_ENDS):
            last.text += text
        else:
            self.told.append(_Words(at_ms, epoch, text))

    def _span(self, kind: Kind, title: str, at_ms: float, before: _Span | None) -> _Span:
        """The span that goes on, or the next one."""
        if before is None or before.title != title or at_ms - before.last_ms > _STALL_MS:
            before = _Span(kind, title, at_ms, at_ms)
            self.told.append(before)
        before.last_ms = at_ms
        return before


def _news_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an output; what is spoken just as it is written is told once."""
    same = str(fields.get("text", "")).strip() == fields.get("spoken")
    return {name: value for name, value in fields.items() if not (same and name == "spoken")}


def sort_of(window: WindowHeard, threshold: float) -> str:
    """What a window holds, in a word."""
    if window.probability is None:
        return "unjudged"
    if window.probability < threshold:
        return "silence"
    return "echo" if window.echo > MOST_ECHO else "speech"


def in_words(name: str) -> str:
    """The name of a class, for people: ``TranscriptArrived``, "transcript arrived"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def in_full(thing: Event | Command) -> str:
    """An event or a command in a line."""
    return f"{in_words(type(thing).__name__)} {details_of(thing)}".rstrip()


def details_of(thing: Any) -> str:
    """The fields of an event or a command that are not what they are by default."""
    plain = {}
    for option in dataclasses.fields(thing):
        value = getattr(thing, option.name)
        if value != option.default:
            plain[option.name] = value
    return details(plain)


def details(fields: Mapping[str, Any]) -> str:
    """Names and values in a line: durations with their unit, texts in quotes."""
    told = ((name, value) for name, value in fields.items() if value not in ("", None, []))
    return ", ".join(_detail(name, value) for name, value in told)


def _detail(name: str, value: Any) -> str:
    words = "reply" if name == "epoch" else name.removesuffix("_ms").replace("_", " ")
    if name.endswith("_ms") and not isinstance(value, str):
        return f"{words} {value:.0f} ms"
    if name == "text":
        return f"“{value}”"
    if isinstance(value, Mapping):
        return f"{words} ({details(value)})"
    if isinstance(value, list):
        return f"{words} " + "; ".join(map(details, value))
    if isinstance(value, Enum):
        return f"{words} {value.name.lower().replace('_', ' ')}"
    return f"{words} {value:.2f}" if isinstance(value, float) else f"{words} {value}"


def changes(before: Any, after: Any) -> dict[str, Any]:
    """What two sets of settings do not share, nested ones as ``section.name``."""
    changed: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(after).items():
        old = msgspec.to_builtins(before)[name]
        if isinstance(value, Mapping):
            inner = {k: v for k, v in value.items() if v != old[k]}
            changed |= {f"{name}.{key}": new for key, new in inner.items()}
        elif value != old:
            changed[name] = "none" if value is None else value
    return changed


def stages_in_words(stages: Stages) -> str:
    """How long each stage took to give something, from the one before."""
    told, before = [], stages.began
    for name, at in (
        ("first token", stages.first_token),
        ("first phrase", stages.first_phrase),
        ("first audio", stages.first_audio),
    ):
        if at is None:
            break
        told.append(f"{name} +{1000 * (at - before):.0f} ms")
        before = at
    return ", ".join(told) or "it gave nothing"
