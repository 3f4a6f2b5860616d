"""The dialogue's items as the Realtime wire shows them, and back."""

from __future__ import annotations

from collections.abc import Callable

from engines.ports import ToolCall
from pipelines.conversation.dialogue import (
    AgentItem,
    CallerItem,
    Item,
    SystemItem,
    ToolCallItem,
    ToolResultItem,
)
from pipelines.conversation.heard import Span
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_objects import (
    InputAudioContent,
    InputImageContent,
    InputTextContent,
    OutputAudioContent,
    OutputTextContent,
    RealtimeContent,
    RealtimeFunctionCallItem,
    RealtimeFunctionCallOutputItem,
    RealtimeItem,
    RealtimeMessageItem,
)


def to_wire(item: Item) -> RealtimeItem:
    """An item of the dialogue for the client to see. A cut reply shows what was heard."""
    match item:
        case SystemItem():
            return RealtimeMessageItem(
                "system", [InputTextContent(item.text)], item.id, "completed"
            )
        case CallerItem():
            return RealtimeMessageItem("user", [_caller_content(item)], item.id, "completed")
        case AgentItem():
            return RealtimeMessageItem("assistant", agent_content(item), item.id, item.status)
        case ToolCallItem(call=call):
            return RealtimeFunctionCallItem(
                call.name, call.arguments, call.id, item.id, "completed"
            )
        case ToolResultItem():
            return RealtimeFunctionCallOutputItem(item.call_id, item.output, item.id, "completed")


def _caller_content(item: CallerItem) -> RealtimeContent:
    if item.spoken:
        return InputAudioContent(transcript=item.text)
    return InputTextContent(item.text or "")


def agent_content(item: AgentItem) -> list[RealtimeContent]:
    """The reply's one content part; none while it has said nothing."""
    if not item.spans:
        return []
    if item.spoken:
        return [OutputAudioContent(item.heard_text)]
    return [OutputTextContent(item.heard_text)]


def from_wire(item: RealtimeItem, new_id: Callable[[], str]) -> Item:
    """A client's item for the dialogue. Raises WireError for what a call cannot take in."""
    item_id = item.id or new_id()
    match item:
        case RealtimeFunctionCallItem():
            call = ToolCall(item.call_id or new_id(), item.name, item.arguments)
            return ToolCallItem(item_id, call)
        case RealtimeFunctionCallOutputItem():
            return ToolResultItem(item_id, item.call_id, item.output)
        case RealtimeMessageItem(role="system"):
            return SystemItem(item_id, _text_of(item))
        case RealtimeMessageItem(role="assistant"):
            return AgentItem(item_id, [Span(_text_of(item), 0.0, 0.0)], status="completed")
        case _:
            return CallerItem(item_id, _text_of(item))


def _text_of(item: RealtimeMessageItem) -> str:
    """The words of all parts. Audio is taken by its transcript: it is not transcribed here."""
    texts = []
    for place, content in enumerate(item.content):
        param = f"item.content[{place}]"
        match content:
            case InputTextContent() | OutputTextContent():
                texts.append(content.text)
            case InputAudioContent(transcript=str(text)) | OutputAudioContent(transcript=str(text)):
                texts.append(text)
            case InputImageContent():
                raise WireError("invalid_value", "Images are not supported.", param)
            case _:
                raise WireError(
                    "invalid_value",
                    "Audio in an item needs its transcript; send speech by"
                    " input_audio_buffer.append instead.",
                    param,
                )
    return "\n".join(texts)
