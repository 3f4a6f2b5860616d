"""The dialogue's items as the Realtime wire shows them, and back."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, cast

from msgspec import structs

from engines.ports import Image, ToolCall
from pipelines.conversation.dialogue import (
    AgentItem,
    CallerItem,
    Hosted,
    HostFailure,
    Item,
    NoteItem,
    SystemItem,
    ToolCallItem,
    ToolResultItem,
)
from pipelines.conversation.heard import Span
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import (
    RealtimeMcpApprovalRequestItem,
    RealtimeMcpApprovalResponseItem,
    RealtimeMcpCallItem,
    RealtimeMcpError,
    RealtimeMcpHttpError,
    RealtimeMcpItem,
    RealtimeMcpListToolsItem,
    RealtimeMcpProtocolError,
    RealtimeMcpToolExecutionError,
)
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

_DETAILS: Final[Mapping[str, Literal["auto", "low", "high"]]] = {
    "auto": "auto",
    "low": "low",
    "high": "high",
}
_PICTURES: Final = tuple(f"data:image/{kind};base64" for kind in ("png", "jpeg", "webp", "gif"))


def to_wire(item: Item) -> RealtimeItem:
    """An item of the dialogue for the client to see. A cut reply shows what was heard."""
    match item:
        case SystemItem():
            return RealtimeMessageItem(
                "system", [InputTextContent(item.text)], item.id, "completed"
            )
        case CallerItem():
            return RealtimeMessageItem("user", _caller_content(item), item.id, "completed")
        case AgentItem():
            return RealtimeMessageItem("assistant", agent_content(item), item.id, item.status)
        case ToolCallItem(hosted=Hosted()):
            return _hosted_call(item)
        case ToolCallItem(call=call):
            return RealtimeFunctionCallItem(
                call.name, call.arguments, call.id, item.id, "completed"
            )
        case ToolResultItem():
            return RealtimeFunctionCallOutputItem(item.call_id, item.output, item.id, "completed")
        case NoteItem(shown=shown):
            return cast("RealtimeMcpItem", shown)


def _hosted_call(item: ToolCallItem) -> RealtimeMcpCallItem:
    hosted = item.hosted
    assert hosted is not None, "only what is hosted comes here"
    return RealtimeMcpCallItem(
        hosted.host,
        hosted.name,
        item.call.arguments,
        hosted.output,
        item.id,
        failure_to_wire(hosted.failure) if hosted.failure is not None else None,
        hosted.approval_id,
    )


def failure_to_wire(failure: HostFailure) -> RealtimeMcpError:
    """Why an MCP server gave nothing, for the client to see."""
    match failure.kind:
        case "http":
            return RealtimeMcpHttpError(failure.code, failure.message)
        case "protocol":
            return RealtimeMcpProtocolError(failure.code, failure.message)
        case "tool":
            return RealtimeMcpToolExecutionError(failure.message)


def _caller_content(item: CallerItem) -> list[RealtimeContent]:
    if item.spoken:
        return [InputAudioContent(transcript=item.text or "")]  # the JS SDK insists on one
    texts = [InputTextContent(item.text or "")] if item.text or not item.images else []
    return [
        *texts,
        *(InputImageContent(image.url, _DETAILS[image.detail]) for image in item.images),
    ]


def agent_content(item: AgentItem) -> list[RealtimeContent]:
    """The reply's one content part; none while it has said nothing."""
    if not item.spans:
        return []
    if item.spoken:
        return [OutputAudioContent(item.heard_text)]
    return [OutputTextContent(item.heard_text)]


def from_wire(
    item: RealtimeItem,
    new_id: Callable[[], str],
    path: str = "item",
    *,
    sees_images: bool = False,
) -> Item:
    """A client's item for the dialogue; ``path`` is where it stands in the client's event,
    ``sees_images`` what the model can do. Raises WireError for what a call cannot take in."""
    item_id = item.id or new_id()
    match item:
        case RealtimeFunctionCallItem():
            call = ToolCall(item.call_id or new_id(), item.name, item.arguments)
            return ToolCallItem(item_id, call)
        case RealtimeFunctionCallOutputItem():
            return ToolResultItem(item_id, item.call_id, item.output)
        case RealtimeMcpApprovalResponseItem():
            return NoteItem(item_id, structs.replace(item, id=item_id), len(item.reason or ""))
        case RealtimeMcpCallItem() | RealtimeMcpListToolsItem() | RealtimeMcpApprovalRequestItem():
            told = "Items of MCP servers are the server's own: no client can create them."
            raise WireError("invalid_value", told, f"{path}.type")
        case RealtimeMessageItem(role="system"):
            return SystemItem(item_id, _text_of(item, path))
        case RealtimeMessageItem(role="assistant"):
            return AgentItem(item_id, [Span(_text_of(item, path), 0.0, 0.0)], status="completed")
        case _:
            images = tuple(_images_of(item, path, sees_images=sees_images))
            return CallerItem(item_id, _text_of(item, path), images=images)


def _images_of(item: RealtimeMessageItem, path: str, *, sees_images: bool) -> Iterator[Image]:
    """The pictures of a message. Nothing is fetched from anywhere: they come with it."""
    for place, content in enumerate(item.content):
        if not isinstance(content, InputImageContent):
            continue
        param = f"{path}.content[{place}].image_url"
        if not sees_images:
            raise WireError(
                "invalid_value",
                "The language model of this server cannot see: images are not supported.",
                param,
            )
        _check_picture(content.image_url, param)
        yield Image(content.image_url, content.detail or "auto")


def _check_picture(url: str, param: str) -> None:
    head, _, data = url.partition(",")
    if head not in _PICTURES:
        raise WireError(
            "invalid_value",
            f"An image is a data URL that begins with {', '.join(_PICTURES)}.",
            param,
        )
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:  # binascii.Error is one
        raise WireError(
            "invalid_value", f"The image is not valid base64: {error}.", param
        ) from error


def _text_of(item: RealtimeMessageItem, path: str) -> str:
    """The words of all parts. Audio is taken by its transcript: it is not transcribed here."""
    texts = []
    for place, content in enumerate(item.content):
        param = f"{path}.content[{place}]"
        match content:
            case InputTextContent() | OutputTextContent():
                texts.append(content.text)
            case InputAudioContent(transcript=str(text)) | OutputAudioContent(transcript=str(text)):
                texts.append(text)
            case InputImageContent():
                continue
            case _:
                raise WireError(
                    "invalid_value",
                    "Audio in an item needs its transcript; send speech by"
                    " input_audio_buffer.append instead.",
                    param,
                )
    return "\n".join(texts)
