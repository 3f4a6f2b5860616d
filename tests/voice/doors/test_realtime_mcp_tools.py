"""The tools of MCP servers as a model is offered them."""

from typing import Any

import pytest

from engines.ports import Tool
from pipelines.conversation.ports import CallSettings
from voice.doors.realtime_mcp_tools import (
    MOST_SERVERS,
    Server,
    access_to,
    check_session,
    offered,
)
from voice.mcp.settings import McpSettings
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import RealtimeMcpListedTool, RealtimeMcpTool, RealtimeToolChoiceMcp
from voice.wire.realtime_session import RealtimeSession

ANY = McpSettings(("*",))


def listed(name: str, **fields: Any) -> RealtimeMcpListedTool:
    return RealtimeMcpListedTool(name, fields.get("schema", {}), "")


def server(label: str, *names: str, **fields: Any) -> Server:
    return Server(RealtimeMcpTool(label, **fields), [listed(name) for name in names])


def names_of(settings: CallSettings) -> list[tuple[str, str, str]]:
    return [(tool.tool.name, tool.host, tool.name) for tool in settings.hosted]


def test_names_are_such_as_models_take_and_each_is_there_once() -> None:
    settings = CallSettings(tools=(Tool("look"),))
    servers = {
        "a": server("a", "look", "look.up", "look/up", "look:up"),
        "b": server("b", "look", "look", "look", "x" * 100, ""),
    }
    assert names_of(offered(settings, servers, None)) == [
        ("a__look", "a", "look"),
        ("look_up", "a", "look.up"),
        ("a__look_up", "a", "look/up"),
        ("look_up_2", "a", "look:up"),
        ("b__look", "b", "look"),
        ("look_2", "b", "look"),
        ("look_3", "b", "look"),
        ("x" * 64, "b", "x" * 100),
        ("tool", "b", ""),
    ]


def test_what_would_fill_the_models_context_is_left_out() -> None:
    large = listed("large", schema={"a": "x" * 20_000})
    servers = {"a": Server(RealtimeMcpTool("a"), [listed("one"), large, listed("two")])}
    settings = offered(CallSettings(context_tokens=6_000), servers, None)
    assert [name for name, *_ in names_of(settings)] == ["one"]


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (None, "auto"),
        ("none", "auto"),  # the settings have it already
        (RealtimeToolChoiceMcp("a", "look.up"), "look_up"),
        (RealtimeToolChoiceMcp("a"), "required"),
        (RealtimeToolChoiceMcp("a", "other"), "auto"),
        (RealtimeToolChoiceMcp("b"), "auto"),
    ],
)
def test_a_choice_is_known_by_the_name_that_the_model_knows(choice: Any, chosen: str) -> None:
    settings = offered(CallSettings(), {"a": server("a", "look.up")}, choice)
    assert settings.tool_choice == chosen


def test_a_tool_that_was_not_listed_is_asked_for_first() -> None:
    there = server("a", "look", require_approval="never")
    assert not there.wants_approval("look")
    assert there.wants_approval("other")


def test_there_may_be_so_many_servers() -> None:
    def session(count: int) -> RealtimeSession:
        return RealtimeSession(
            tools=[RealtimeMcpTool(f"s{n}", f"https://s{n}.test/") for n in range(count)]
        )

    check_session(session(MOST_SERVERS), ANY)
    with pytest.raises(WireError, match=f"{MOST_SERVERS} MCP servers at most"):
        check_session(session(MOST_SERVERS + 1), ANY)


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "mcp-session-id", "a b", "a:", "", "é"],
)
def test_headers_that_make_the_request_are_not_the_clients(name: str) -> None:
    tool = RealtimeMcpTool("a", "https://a.test/", headers={name: "secret"})
    with pytest.raises(WireError) as caught:
        check_session(RealtimeSession(tools=[tool]), ANY)
    assert caught.value.param == "session.tools[0].headers"
    assert "secret" not in caught.value.message


def test_a_token_goes_before_a_header_of_the_same_name() -> None:
    headers = {"AUTHORIZATION": "Basic x", "X-Team": "blue"}
    access = access_to(RealtimeMcpTool("a", "https://a.test/", "tok", headers))
    assert access.sent() == {"authorization": "Bearer tok", "x-team": "blue"}
    plain = access_to(RealtimeMcpTool("a", "https://a.test/", None, headers))
    assert plain.sent() == {"authorization": "Basic x", "x-team": "blue"}
