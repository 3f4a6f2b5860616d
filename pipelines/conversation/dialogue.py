"""The call's memory: what was said by whom, cut to what was heard.

The model must never believe that the caller heard words that a barge-in swallowed. So what the
agent says is kept with its place in the reply's audio, and a cut at some millisecond keeps the
words that had been heard by then. The cut is applied when the dialogue is read, so that a later
and better-informed one (the client's own truncate) can replace it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from engines.audio import Mark
from engines.ports import Image, Message, ToolCall
from pipelines.conversation.heard import Span

MOST_ITEMS: Final = 1_000
MOST_CHARACTERS: Final = 1_000_000
"""Beyond, the oldest items are forgotten. No model reads as much, and an hour's call has less."""

IMAGE_CHARACTERS: Final = 16
"""Of a picture count as one of a text: it is long, and yet soon read."""

NO_RESULT: Final = "no result yet"


@dataclass(slots=True)
class SystemItem:
    """An instruction put into the dialogue by the client."""

    id: str
    text: str


@dataclass(slots=True)
class CallerItem:
    """What the caller said or typed; ``text`` is None while it is being transcribed."""

    id: str
    text: str | None = None
    spoken: bool = False
    images: tuple[Image, ...] = ()


@dataclass(slots=True)
class AgentItem:
    """What the agent said. ``heard_ms`` is None for all of it."""

    id: str
    spans: list[Span] = field(default_factory=list)
    spoken: bool = False
    status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
    heard_ms: float | None = None

    @property
    def audio_ms(self) -> float:
        """The audio that speaks it, all of it."""
        return self.spans[-1].end_ms if self.spans else 0.0

    @property
    def played_ms(self) -> float:
        """The audio of it that was heard."""
        return self.audio_ms if self.heard_ms is None else self.heard_ms

    @property
    def text(self) -> str:
        """All that was said, heard or not."""
        return "".join(span.text for span in self.spans)

    @property
    def heard_text(self) -> str:
        """The words that were heard."""
        if self.heard_ms is None:
            return self.text
        *before, last = self.spans
        heard = [span.heard_text(self.heard_ms, span.end_ms) for span in before]
        heard.append(last.heard_text(self.heard_ms, self._end_of(last)))
        return "".join(heard).rstrip()

    def say(self, text: str, spoken: str = "") -> None:
        """A further phrase begins where the audio so far ends; ``spoken``: as it is read aloud."""
        self.spans.append(Span(text, self.audio_ms, self.audio_ms, spoken))

    def sound(self, duration_ms: float, marks: Iterable[Mark] = ()) -> None:
        """The last phrase has so much more audio, in which ``marks`` are ends of words. What comes
        before any words, the pause that is left of a phrase, counts all the same."""
        if not self.spans:
            self.say("")
        self.spans[-1].sound(duration_ms, marks)

    def cut(self, heard_ms: float) -> None:
        """No more than this was heard. A cut beyond the end is no cut, nor is one of mere text."""
        whole = not self.audio_ms or heard_ms >= self._end_of(self.spans[-1])
        self.heard_ms = None if whole else max(0.0, heard_ms)

    def end_within(self, phrases: int, heard: Span) -> None:
        """Behind so many phrases it ends with what was ``heard`` of the next: another item says the
        rest. No later cut brings back words that are said there."""
        self.spans[phrases:] = [heard]
        self.heard_ms = None

    def _end_of(self, last: Span) -> float:
        """Where the audio of the last phrase ends, or would have ended."""
        return last.end_ms if self.status == "completed" else last.likely_end_ms


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Why a hosted call gave nothing; ``code`` is one of what failed, 0 for none."""

    kind: Literal["http", "protocol", "tool"]
    message: str
    code: int = 0


@dataclass(slots=True)
class Hosted:
    """What comes of a call that the door has done by a ``host``, which knows the tool by ``name``.
    ``told`` off: no client knows of it yet, since one has to approve of it first."""

    host: str
    name: str
    output: str | None = None
    failure: HostFailure | None = None
    approval_id: str | None = None
    told: bool = True

    @property
    def result(self) -> str | None:
        """What the model reads; None for nothing yet."""
        return f"It failed: {self.failure.message}" if self.failure is not None else self.output


@dataclass(slots=True)
class ToolCallItem:
    """A function the agent wants called; ``own`` where the server does it itself, and no client
    hears of it. Of one that is ``hosted`` the result belongs to the item."""

    id: str
    call: ToolCall
    own: bool = False
    hosted: Hosted | None = None


@dataclass(slots=True)
class ToolResultItem:
    """What the function gave."""

    id: str
    call_id: str
    output: str
    own: bool = False


@dataclass(slots=True)
class NoteItem:
    """What clients alone read: ``shown`` is theirs, of so many ``characters``."""

    id: str
    shown: object
    characters: int = 0


Item: TypeAlias = SystemItem | CallerItem | AgentItem | ToolCallItem | ToolResultItem | NoteItem


class DuplicateItemError(ValueError):
    """An item of this id is there already."""


class UnknownItemError(KeyError):
    """No item has this id."""


class Dialogue:
    """The items of one call, in order; the oldest are forgotten beyond ``MOST_ITEMS`` and
    ``MOST_CHARACTERS``."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last_id(self) -> str | None:
        """The last item that a client knows of."""
        return next((item.id for item in reversed(self._items.values()) if _is_told(item)), None)

    def get(self, item_id: str) -> Item:
        """Raises UnknownItemError."""
        try:
            return self._items[item_id]
        except KeyError:
            raise UnknownItemError(item_id) from None

    def append(self, item: Item) -> str | None:
        """Append an item of our own. If a client has taken its id, theirs goes."""
        self._items.pop(item.id, None)
        return self.add(item)

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Append the item, or put it ``after`` another (``"root"``: before all).

        Gives the id of the item before it. Raises DuplicateItemError and UnknownItemError, and
        then changes nothing.
        """
        if item.id in self._items:
            raise DuplicateItemError(item.id)
        if after is None:
            previous = self.last_id
            self._items[item.id] = item
            self._forget_oldest(item)
            return previous
        ids = list(self._items)
        place = 0 if after == "root" else ids.index(self.get(after).id) + 1
        items = list(self._items.items())
        self._items = dict([*items[:place], (item.id, item), *items[place:]])
        self._forget_oldest(item)
        return ids[place - 1] if place else None

    def remove(self, item_id: str) -> None:
        """Raises UnknownItemError."""
        del self._items[self.get(item_id).id]

    def _forget_oldest(self, newest: Item) -> None:
        characters = sum(map(_characters, self._items.values()))
        while len(self._items) > MOST_ITEMS or characters > MOST_CHARACTERS:
            oldest = next((item for item in self._items.values() if item is not newest), None)
            if oldest is None:
                return
            characters -= _characters(self._items.pop(oldest.id))

    def messages(
        self, instructions: str = "", pending: str = "", *, without: Collection[str] = ()
    ) -> tuple[Message, ...]:
        """The dialogue as a chat model reads it, but for the items of these ids. ``pending`` is
        what the caller seems to have said in a turn that is not committed yet."""
        messages = [Message("system", instructions)] if instructions else []
        for item in self._items.values():
            if item.id not in without:
                _append(messages, item)
        messages += _hosted_results(self._items.values(), without)
        if pending:
            messages.append(Message("user", pending))
        return tuple(_answered(messages))


def _is_told(item: Item) -> bool:
    if isinstance(item, ToolCallItem) and item.hosted is not None:
        return item.hosted.told
    return not (isinstance(item, ToolCallItem | ToolResultItem) and item.own)


def _characters(item: Item) -> int:
    match item:
        case SystemItem():
            return len(item.text)
        case CallerItem():
            pictured = sum(len(image.url) for image in item.images)
            return len(item.text or "") + pictured // IMAGE_CHARACTERS
        case AgentItem():
            return sum(len(span.text) for span in item.spans)
        case ToolCallItem():
            result = (item.hosted and item.hosted.result) or ""
            return len(item.call.name) + len(item.call.arguments) + len(result)
        case ToolResultItem():
            return len(item.output)
        case _:
            return item.characters


def _append(messages: list[Message], item: Item) -> None:
    match item:
        case SystemItem():
            messages.append(Message("system", item.text))
        case CallerItem() if item.text or item.images:
            messages.append(Message("user", item.text or "", images=item.images))
        case AgentItem() if item.heard_text:
            messages.append(Message("assistant", item.heard_text))
        case ToolCallItem():
            _append_tool_call(messages, item.call)
        case ToolResultItem():
            messages.append(Message("tool", item.output, tool_call_id=item.call_id))


def _hosted_results(items: Iterable[Item], without: Collection[str]) -> Iterator[Message]:
    """Told behind all else: ``_answered`` brings each to its call."""
    for item in items:
        if not isinstance(item, ToolCallItem) or item.hosted is None or item.id in without:
            continue
        if item.hosted.result is not None:
            yield Message("tool", item.hosted.result, tool_call_id=item.call.id)


def _append_tool_call(messages: list[Message], call: ToolCall) -> None:
    """Parallel calls, and words said before them, are one assistant message to the model."""
    if messages and messages[-1].role == "assistant":
        last = messages.pop()
        messages.append(Message("assistant", last.content, (*last.tool_calls, call)))
    else:
        messages.append(Message("assistant", "", (call,)))


def _answered(messages: list[Message]) -> Iterator[Message]:
    """The results of tools right behind their calls, wherever the caller cut in between. Chat
    endpoints refuse a call without a result, and a result without a call, for good."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    for message in messages:
        if message.role == "tool":
            continue
        yield message
        for call in message.tool_calls:
            yield results.get(call.id) or Message("tool", NO_RESULT, tool_call_id=call.id)
