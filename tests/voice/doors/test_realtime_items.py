"""Items of the dialogue as the wire shows them, and the wire's items in the dialogue."""

import msgspec
import pytest

from engines.ports import ToolCall
from pipelines.conversation.dialogue import (
    AgentItem,
    CallerItem,
    Item,
    Span,
    SystemItem,
    ToolCallItem,
    ToolResultItem,
)
from voice.doors.realtime_items import from_wire, to_wire
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


def taken(item: RealtimeItem) -> Item:
    return from_wire(item, lambda: "new")


@pytest.mark.parametrize(
    "item",
    [
        SystemItem("1", "Be brief."),
        CallerItem("2", "hello"),
        AgentItem("3", [Span("Hi.", 0.0, 0.0)], status="completed"),
        ToolCallItem("4", ToolCall("call", "time", "{}")),
        ToolResultItem("5", "call", "noon"),
    ],
)
def test_what_is_shown_can_be_sent_back(item: Item) -> None:
    wire = to_wire(item)
    assert taken(wire) == item
    assert b"null" not in msgspec.json.encode(wire)


def test_a_spoken_turn_shows_its_words_once_they_are_known() -> None:
    waiting = msgspec.to_builtins(to_wire(CallerItem("1", None, spoken=True)))
    assert waiting["content"] == [{"type": "input_audio", "transcript": ""}]
    known = msgspec.to_builtins(to_wire(CallerItem("1", "hello", spoken=True)))
    assert known["content"] == [{"type": "input_audio", "transcript": "hello"}]


def test_typed_words_that_are_none_are_empty() -> None:
    assert to_wire(CallerItem("1")).content == [InputTextContent("")]


def test_a_reply_that_has_not_begun_has_no_content() -> None:
    assert to_wire(AgentItem("1", spoken=True)).content == []


def test_a_cut_reply_shows_what_was_heard() -> None:
    item = AgentItem("1", [Span("one two three four", 0, 1_000)], spoken=True, status="completed")
    item.cut(500)
    (content,) = to_wire(item).content
    assert isinstance(content, OutputAudioContent)
    assert content.transcript == item.heard_text
    assert content.transcript.startswith("one")
    assert "four" not in content.transcript


def test_the_server_names_what_the_client_does_not() -> None:
    content: list[RealtimeContent] = [InputTextContent("a")]
    assert taken(RealtimeMessageItem("user", content)).id == "new"
    call = taken(RealtimeFunctionCallItem("time", "{}"))
    assert isinstance(call, ToolCallItem)
    assert call.call.id == "new"
    assert taken(RealtimeFunctionCallOutputItem("call", "noon", id="mine")).id == "mine"


def test_the_parts_of_a_message_are_lines() -> None:
    content: list[RealtimeContent] = [
        InputTextContent("one"),
        InputAudioContent(b"", "two"),
    ]
    assert taken(RealtimeMessageItem("user", content)) == CallerItem("new", "one\ntwo")
    said: list[RealtimeContent] = [OutputTextContent("a"), OutputAudioContent("b")]
    reply = taken(RealtimeMessageItem("assistant", said))
    assert isinstance(reply, AgentItem)
    assert reply.text == "a\nb"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (InputImageContent("data:image/png;base64,"), "cannot see: images are not supported"),
        (InputAudioContent(b"\x00\x00"), "needs its transcript"),
        (OutputAudioContent(), "needs its transcript"),
    ],
)
def test_what_a_call_cannot_take_in_is_refused_by_its_place(
    content: RealtimeContent, words: str
) -> None:
    with pytest.raises(WireError, match=words) as caught:
        taken(RealtimeMessageItem("user", [InputTextContent("a"), content]))
    assert caught.value.code == "invalid_value"
    assert str(caught.value.param).startswith("item.content[1]")


def test_pictures_come_with_the_words_and_go_back_as_they_came() -> None:
    content: list[RealtimeContent] = [
        InputTextContent("What is this?"),
        InputImageContent("data:image/jpeg;base64,/9j/", "high"),
        InputImageContent("data:image/png;base64,AAAA"),
    ]
    item = from_wire(RealtimeMessageItem("user", content), lambda: "new", sees_images=True)
    assert isinstance(item, CallerItem)
    assert item.text == "What is this?"
    assert [image.detail for image in item.images] == ["high", "auto"]
    wire = to_wire(item)
    assert isinstance(wire, RealtimeMessageItem)
    assert wire.content[:2] == content[:2]
    only = from_wire(RealtimeMessageItem("user", content[1:]), lambda: "new", sees_images=True)
    shown = to_wire(only)
    assert isinstance(shown, RealtimeMessageItem)
    assert len(shown.content) == 2
