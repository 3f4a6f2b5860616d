"""The tools of MCP servers, as a call's model is offered them, and which servers may be named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from engines.ports import Tool
from pipelines.conversation.memory import tokens_of_tools
from pipelines.conversation.ports import CallSettings, HostedTool
from voice.mcp.client import Access, McpClient
from voice.mcp.settings import McpSettings
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import (
    RealtimeMcpListedTool,
    RealtimeMcpTool,
    RealtimeToolChoiceMcp,
)
from voice.wire.realtime_objects import RealtimeResponseCreateParams
from voice.wire.realtime_session import (
    RealtimeSession,
    RealtimeTool,
    RealtimeToolChoice,
    Session,
)

MOST_SERVERS: Final = 8
_NAME_LENGTH: Final = 64
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
"""OpenAI's API takes no other names for functions, and so does what speaks like it."""

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_NOT_THEIRS: Final = frozenset(
    (
        *("host", "connection", "content-length", "content-type", "transfer-encoding", "upgrade"),
        *("te", "trailer", "expect", "accept", "accept-encoding", "proxy-authorization"),
        *("mcp-session-id", "mcp-protocol-version"),
    )
)
"""Headers that make a request what it is."""


@dataclass(slots=True)
class Server:
    """One server of a session; without a ``client`` until it has listed its tools."""

    tool: RealtimeMcpTool
    listed: list[RealtimeMcpListedTool] = field(default_factory=list)
    client: McpClient | None = None

    def wants_approval(self, name: str) -> bool:
        """Whether the client is to be asked before this tool is called."""
        found = next((tool for tool in self.listed if tool.name == name), None)
        return found is None or self.tool.wants_approval(found)


def check_session(session: Session, settings: McpSettings) -> None:
    """Raises WireError where it names a server that must not be called, or cannot be."""
    if isinstance(session, RealtimeSession):
        _check_tools(session.tools, settings, "session.tools")


def refuse_servers(params: RealtimeResponseCreateParams) -> None:
    """Raises WireError where a response outside the conversation names one: what a tool gives is an
    item of the conversation, and is answered there."""
    if any(tool.get("type") == "mcp" for tool in params.tools or []):
        told = "A response outside the conversation has no MCP servers."
        raise WireError("invalid_value", told, "response.tools")


def _check_tools(tools: Sequence[RealtimeTool], settings: McpSettings, path: str) -> None:
    labels = set[str]()
    for place, tool in enumerate(tools):
        if not isinstance(tool, RealtimeMcpTool):
            continue
        where = f"{path}[{place}]"
        if tool.server_label in labels:
            told = f"There are two servers '{tool.server_label}': each needs a label of its own."
            raise WireError("invalid_value", told, f"{where}.server_label")
        labels.add(tool.server_label)
        _check_url(tool, settings, where)
        _check_headers(tool, where)
    if len(labels) > MOST_SERVERS:
        raise WireError("invalid_value", f"A session has {MOST_SERVERS} MCP servers at most.", path)


def _check_url(tool: RealtimeMcpTool, settings: McpSettings, where: str) -> None:
    if tool.connector_id is not None:
        told = "Connectors are OpenAI's own: give the server_url of an MCP server."
        raise WireError("invalid_value", told, f"{where}.connector_id")
    if tool.server_url is None:
        told = f"Missing parameter '{where}.server_url': it is required."
        raise WireError("missing_required_parameter", told, f"{where}.server_url")
    if not settings.servers:
        told = (
            "No MCP servers are called here: the server's setting mcp.servers names none, or the"
            " call comes by phone."
        )
        raise WireError("invalid_value", told, f"{where}.server_url")
    if settings.reach(tool.server_url) is None:
        told = "This MCP server is none of those that the setting mcp.servers lets in."
        raise WireError("invalid_value", told, f"{where}.server_url")


def _check_headers(tool: RealtimeMcpTool, where: str) -> None:
    """The values are secrets: nothing of them is told."""
    if tool.authorization is not None and not _VALUE.fullmatch(tool.authorization):
        told = "It must be the text of a header: ASCII, in one line."
        raise WireError("invalid_value", told, f"{where}.authorization")
    for name, value in (tool.headers or {}).items():
        if not _HEADER.fullmatch(name) or name.lower() in _NOT_THEIRS:
            told = f"The header {name[:_NAME_LENGTH]!r} cannot be given."
            raise WireError("invalid_value", told, f"{where}.headers")
        if not _VALUE.fullmatch(value):
            told = f"The header {name[:_NAME_LENGTH]!r} must be ASCII, in one line."
            raise WireError("invalid_value", told, f"{where}.headers")


def access_to(tool: RealtimeMcpTool) -> Access:
    """How to get at a server that was checked."""
    headers = tuple((tool.headers or {}).items())
    return Access(tool.server_url or "", tool.authorization, headers)


def offered(
    settings: CallSettings, servers: Mapping[str, Server], choice: RealtimeToolChoice | None
) -> CallSettings:
    """``settings`` with the tools of these servers, and the one of them that is the ``choice``.
    Names that another tool has get the server's before them. What would take more than half of
    what the model may read is left out."""
    taken = {tool.name for tool in settings.tools}
    room = settings.context_tokens // 2
    hosted: list[HostedTool] = []
    for label, server in servers.items():
        for listed in server.listed:
            if not server.tool.allows(listed):
                continue
            name = _free_name(label, listed.name, taken)
            tool = Tool(name, listed.description, listed.input_schema)
            if (room := room - tokens_of_tools([tool])) >= 0:
                taken.add(name)
                hosted.append(HostedTool(tool, label, listed.name))
    settings = replace(settings, hosted=tuple(hosted))
    if isinstance(choice, RealtimeToolChoiceMcp):
        return replace(settings, tool_choice=_chosen(choice, hosted))
    return settings


def _chosen(choice: RealtimeToolChoiceMcp, hosted: Sequence[HostedTool]) -> str:
    theirs = [tool for tool in hosted if tool.host == choice.server_label]
    if choice.name is None:
        return "required" if theirs else "auto"
    return next((tool.tool.name for tool in theirs if tool.name == choice.name), "auto")


def _free_name(label: str, name: str, taken: set[str]) -> str:
    return next(each for each in _names(label, name) if each not in taken)


def _names(label: str, name: str) -> Iterator[str]:
    plain = _NO_NAME.sub("_", name)[:_NAME_LENGTH] or "tool"
    yield plain
    yield f"{label}__{plain}"[:_NAME_LENGTH]
    for number in range(2, 10_000):
        yield f"{plain[: _NAME_LENGTH - 5]}_{number}"
