"""What a result is to a model that reads."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.mcp.messages import CallResult, ListedTool, McpError, Message, read


def text_of(**result: Any) -> str:
    return read(CallResult, json.dumps(result).encode()).text


def test_text_is_read_and_what_cannot_be_is_named() -> None:
    parts = [
        {"type": "text", "text": "Rain."},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x://y", "text": "A file."}},
        {"type": "resource_link", "uri": "x://z"},
        {},
    ]
    assert text_of(content=parts).split("\n") == [
        "Rain.",
        "[image, which cannot be read aloud]",
        "A file.",
        "[resource_link, which cannot be read aloud]",
        "[something, which cannot be read aloud]",
    ]


def test_structure_stands_in_for_text_that_is_not_there() -> None:
    assert text_of(content=[], structuredContent={"a": 1}) == '{"a":1}'
    assert text_of(content=[{"type": "text", "text": "x"}], structuredContent={"a": 1}) == "x"
    assert text_of() == ""


def test_a_tool_without_a_description_has_an_empty_one() -> None:
    tool = read(ListedTool, b'{"name":"a","inputSchema":{"type":"object"},"more":1}')
    assert tool.to_wire().description == ""
    assert not tool.to_wire().is_read_only


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(),
       lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_whatever_comes_is_understood_or_refused(value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    for kind in (Message, CallResult, ListedTool):
        try:
            read(kind, data)
        except McpError as error:
            assert error.fault == "protocol"


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(McpError, match="cannot be understood"):
        read(CallResult, b'{"structuredContent":' + b"[" * 100_000)
