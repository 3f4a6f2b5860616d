"""A response as the Realtime wire tells it: the object, its items and the order of its events.

The order is that of the published API: created, then for each item added, part added, deltas,
done for each in turn, and at the end done and the rate limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec.structs import replace

from engines.ports import Usage
from pipelines.conversation.dialogue import AgentItem, ToolCallItem
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.ports import CallSettings
from voice.doors.realtime_items import to_wire
from voice.doors.refusals import without_paths
from voice.doors.voicing import VoiceEncoder
from voice.wire.realtime_mcp import RealtimeMcpCallItem
from voice.wire.realtime_objects import (
    AudioPart,
    RealtimeContentPart,
    RealtimeFunctionCallItem,
    RealtimeInputTokenDetails,
    RealtimeItem,
    RealtimeMessageItem,
    RealtimeOutputTokenDetails,
    RealtimeRateLimit,
    RealtimeResponse,
    RealtimeResponseError,
    RealtimeResponseStatus,
    RealtimeResponseUsage,
    TextPart,
)
from voice.wire.realtime_server import (
    ConversationItemAdded,
    ConversationItemDone,
    RateLimitsUpdatedEvent,
    ResponseAudioDeltaEvent,
    ResponseAudioDoneEvent,
    ResponseAudioTranscriptDeltaEvent,
    ResponseAudioTranscriptDoneEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseDoneEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseMcpCallArgumentsDelta,
    ResponseMcpCallArgumentsDone,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ServerEvent,
)

Status = Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]
_PART: Final = 0
"""A message of ours has one content part."""


@dataclass(slots=True)
class Response:
    """One response on its way. ``tell`` sends an event; audio goes by ``tell_audio``, so that
    it can be taken back while it is unsent. One without a conversation has no items in it.
    ``limits`` gives what there is to tell of the key's limits."""

    id: str
    conversation_id: str | None
    settings: CallSettings
    metadata: dict[str, str] | None
    voice: VoiceEncoder
    tell: Callable[[ServerEvent], None]
    tell_audio: Callable[[ServerEvent], None]
    limits: Callable[[], list[RealtimeRateLimit]] = list
    _items: list[RealtimeItem] = field(default_factory=list)
    _message: AgentItem | None = None
    _message_index: int = 0
    _previous_id: str | None = None

    def start(self) -> None:
        """The client learns of the response."""
        self.tell(ResponseCreatedEvent(response=self._object("in_progress")))

    def begin_message(self, item: AgentItem, previous_id: str | None) -> None:
        """The response has words: they get an item and a part."""
        self._message, self._message_index = item, len(self._items)
        self._previous_id = previous_id
        self._add(to_wire(item), previous_id)
        part = AudioPart() if item.spoken else TextPart()
        self.tell(ResponseContentPartAddedEvent(**self._place_of(item), part=part))

    def say(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        """More of the message."""
        if isinstance(output, ReplyAudio):
            self._sound(item, self.voice.encode(output.pcm))
            return
        kind = ResponseAudioTranscriptDeltaEvent if item.spoken else ResponseTextDeltaEvent
        self.tell(kind(**self._place_of(item), delta=output.text))

    def call_tool(self, item: ToolCallItem, previous_id: str | None) -> int:
        """A function call, whole: arguments are of no use in part. It ends the message. One that is
        hosted is part of the response, and done in the conversation when it has its result. Gives
        the place in the output."""
        self.end_message(complete=True)
        index, wire, call = len(self._items), to_wire(item), item.call
        self._add(wire, previous_id)
        place: dict[str, Any] = {
            "response_id": self.id,
            "item_id": item.id,
            "output_index": index,
        }
        if item.hosted is not None:
            self.tell(ResponseMcpCallArgumentsDelta(**place, delta=call.arguments))
            self.tell(ResponseMcpCallArgumentsDone(**place, arguments=call.arguments))
            self._finish_output(index, wire)
            return index
        place["call_id"] = call.id
        self.tell(ResponseFunctionCallArgumentsDeltaEvent(**place, delta=call.arguments))
        self.tell(
            ResponseFunctionCallArgumentsDoneEvent(
                **place, name=call.name, arguments=call.arguments
            )
        )
        self._finish_item(index, wire, previous_id)
        return index

    def show(self, item: RealtimeItem, previous_id: str | None) -> None:
        """An item that is whole when it comes. It ends the message."""
        self.end_message(complete=True)
        self._add(item, previous_id)
        self._finish_item(len(self._items) - 1, item, previous_id)

    def end_message(self, *, complete: bool) -> None:
        """The message's last events, if there is one that is open. What is cut off says only
        what it has told before."""
        item, self._message = self._message, None
        if item is None:
            return
        if complete and item.spoken:
            self._sound(item, self.voice.finish())
        for event in self._part_done(item):
            self.tell(event)
        self._items[self._message_index] = to_wire(item)
        self._finish_item(self._message_index, to_wire(item), self._previous_id)

    def finish(self, output: ReplyFinished) -> None:
        """The response is complete, or has failed."""
        if output.code:
            told = without_paths(output.message)
            error = RealtimeResponseError("server_error", output.code, told)
            self._done("failed", RealtimeResponseStatus("failed", error=error), output.usage)
        elif output.usage.finish_reason == "length":
            details = RealtimeResponseStatus("incomplete", "max_output_tokens")
            self._done("incomplete", details, output.usage)
        else:
            self._done("completed", RealtimeResponseStatus("completed"), output.usage)

    def cancel(self, reason: Literal["turn_detected", "client_cancelled"]) -> None:
        """The response was cut off."""
        self._done("cancelled", RealtimeResponseStatus("cancelled", reason), Usage())

    def _sound(self, item: AgentItem, audio: bytes) -> None:
        if audio:
            self.tell_audio(ResponseAudioDeltaEvent(**self._place_of(item), delta=audio))

    def _part_done(self, item: AgentItem) -> list[ServerEvent]:
        place, text = self._place_of(item), item.text
        part: RealtimeContentPart = AudioPart(text) if item.spoken else TextPart(text)
        done = ResponseContentPartDoneEvent(**place, part=part)
        if not item.spoken:
            return [ResponseTextDoneEvent(**place, text=text), done]
        spoken = ResponseAudioTranscriptDoneEvent(**place, transcript=text)
        return [ResponseAudioDoneEvent(**place), spoken, done]

    def _place_of(self, item: AgentItem) -> dict[str, Any]:
        """What all events about the message's part begin with."""
        return {
            "response_id": self.id,
            "item_id": item.id,
            "output_index": self._message_index,
            "content_index": _PART,
        }

    def _add(self, item: RealtimeItem, previous_id: str | None) -> None:
        self._items.append(item)
        index = len(self._items) - 1
        self.tell(
            ResponseOutputItemAddedEvent(response_id=self.id, output_index=index, item=_begun(item))
        )
        if self.conversation_id is not None:
            self.tell(ConversationItemAdded(item=_begun(item), previous_item_id=previous_id))

    def _finish_item(self, index: int, item: RealtimeItem, previous_id: str | None) -> None:
        if self.conversation_id is not None:
            self.tell(ConversationItemDone(item=item, previous_item_id=previous_id))
        self._finish_output(index, item)

    def _finish_output(self, index: int, item: RealtimeItem) -> None:
        self.tell(ResponseOutputItemDoneEvent(response_id=self.id, output_index=index, item=item))

    def _done(self, status: Status, details: RealtimeResponseStatus, usage: Usage) -> None:
        self.tell(ResponseDoneEvent(response=self._object(status, details, usage)))
        self.tell(RateLimitsUpdatedEvent(rate_limits=self.limits()))

    def _object(
        self,
        status: Status,
        details: RealtimeResponseStatus | None = None,
        usage: Usage | None = None,
    ) -> RealtimeResponse:
        return RealtimeResponse(
            self.id,
            status,
            list(self._items),
            details,
            ["audio" if self.settings.spoken else "text"],
            self.conversation_id,
            self.settings.max_tokens or "inf",
            usage=None if usage is None else _usage(usage),
            metadata=self.metadata,
        )


def _begun(item: RealtimeItem) -> RealtimeItem:
    """As it is added: the JS SDK would run a call that is completed when it is added, too."""
    if isinstance(item, RealtimeMessageItem):
        return RealtimeMessageItem(item.role, [], item.id, "in_progress")
    if isinstance(item, RealtimeFunctionCallItem):
        return replace(item, arguments="", status="in_progress")
    if isinstance(item, RealtimeMcpCallItem):
        return replace(item, arguments="")
    return item


def _usage(usage: Usage) -> RealtimeResponseUsage:
    return RealtimeResponseUsage(
        usage.input_tokens + usage.output_tokens,
        usage.input_tokens,
        usage.output_tokens,
        RealtimeInputTokenDetails(usage.input_tokens, 0, usage.cached_tokens),
        RealtimeOutputTokenDetails(usage.output_tokens, 0),
    )
