"""Which tools of a server are offered, which are asked for first, and what is never shown."""

from typing import Any

import pytest

from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import RealtimeMcpListedTool, RealtimeMcpTool
from voice.wire.realtime_session import read_tools

READS = RealtimeMcpListedTool("look", {}, "", {"readOnlyHint": True})
WRITES = RealtimeMcpListedTool("book", {}, "")


def tool(**fields: Any) -> RealtimeMcpTool:
    [read] = read_tools([{"type": "mcp", "server_label": "a", **fields}], "tools")
    assert isinstance(read, RealtimeMcpTool)
    return read


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (None, ["look", "book"]),
        (["book"], ["book"]),
        ([], []),
        ({"tool_names": ["look"]}, ["look"]),
        ({"read_only": True}, ["look"]),
        ({"read_only": False}, ["book"]),
        ({"read_only": True, "tool_names": ["book"]}, []),
        ({}, ["look", "book"]),
    ],
)
def test_what_the_model_may_know_of(allowed: Any, names: list[str]) -> None:
    named = tool(allowed_tools=allowed)
    assert [each.name for each in (READS, WRITES) if named.allows(each)] == names


@pytest.mark.parametrize(
    ("wanted", "asked_for"),
    [
        (None, ["look", "book"]),
        ("always", ["look", "book"]),
        ("never", []),
        ({}, ["look", "book"]),
        ({"never": {}}, ["look", "book"]),
        ({"never": {"tool_names": ["look"]}}, ["book"]),
        ({"never": {"read_only": True}}, ["book"]),
        ({"always": {"tool_names": ["book"]}}, ["look", "book"]),
        ({"always": {"tool_names": ["book"]}, "never": {"tool_names": ["look", "book"]}}, ["book"]),
    ],
)
def test_what_the_client_is_asked_for_first(wanted: Any, asked_for: list[str]) -> None:
    named = tool(require_approval=wanted)
    assert [each.name for each in (READS, WRITES) if named.wants_approval(each)] == asked_for


def test_a_server_is_printed_without_its_secrets() -> None:
    named = tool(server_url="https://a.test", authorization="tok-1", headers={"X": "tok-2"})
    assert repr(named) == "RealtimeMcpTool('a', 'https://a.test')"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"server_label": ""}, "tools[0].server_label"),
        ({"server_label": "a b"}, "tools[0].server_label"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"headers": {"a": 1}}, "tools[0].headers[...]"),
        ({"allowed_tools": "all"}, "tools[0].allowed_tools"),
    ],
)
def test_what_is_no_server(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(WireError) as caught:
        tool(**fields)
    assert caught.value.param == param
