"""MCP tool servers on the Realtime wire: the tool that names one, and the items of its work.

Source: https://developers.openai.com/api/docs/guides/realtime-mcp, and the openai package's types.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

Label: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

# --- what a session asks for ----------------------------------------------------------------


class RealtimeMcpListedTool(Struct, frozen=True, omit_defaults=True):
    """A tool that a server has. ``description`` is always sent: the JS SDK wants a text."""

    name: str
    input_schema: dict[str, Any]
    description: str
    annotations: dict[str, Any] | None = None

    @property
    def is_read_only(self) -> bool:
        """The server says that it changes nothing."""
        return bool((self.annotations or {}).get("readOnlyHint"))


class RealtimeMcpToolFilter(Struct, frozen=True, omit_defaults=True):
    """Some of a server's tools: those that are all that is said here."""

    tool_names: list[str] | None = None
    read_only: bool | None = None

    def matches(self, tool: RealtimeMcpListedTool) -> bool:
        """Whether the tool is one of them. Of a filter that says nothing every tool is."""
        named = self.tool_names is None or tool.name in self.tool_names
        return named and self.read_only in (None, tool.is_read_only)

    @property
    def is_empty(self) -> bool:
        """It says nothing."""
        return self.tool_names is None and self.read_only is None


class RealtimeMcpApprovalFilter(Struct, frozen=True, omit_defaults=True):
    """Which tools the client wants to be asked for. What neither names, it is asked for."""

    always: RealtimeMcpToolFilter | None = None
    never: RealtimeMcpToolFilter | None = None


class RealtimeMcpTool(Struct, frozen=True, omit_defaults=True, tag="mcp"):
    """A server whose tools the model may call, by way of this server. ``authorization`` and
    ``headers`` are secrets: see ``without_secrets``."""

    server_label: Label
    server_url: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | RealtimeMcpToolFilter | None = None
    require_approval: Literal["always", "never"] | RealtimeMcpApprovalFilter | None = None
    server_description: str | None = None
    connector_id: str | None = None

    def __repr__(self) -> str:
        """Without the secrets, wherever it may be printed."""
        return f"RealtimeMcpTool({self.server_label!r}, {self.server_url!r})"

    def allows(self, tool: RealtimeMcpListedTool) -> bool:
        """Whether the model may know of the tool."""
        if isinstance(self.allowed_tools, list):
            return tool.name in self.allowed_tools
        return self.allowed_tools is None or self.allowed_tools.matches(tool)

    def wants_approval(self, tool: RealtimeMcpListedTool) -> bool:
        """Whether the client is to be asked before the tool is called: so it is, unless it has
        said otherwise."""
        if not isinstance(self.require_approval, RealtimeMcpApprovalFilter):
            return self.require_approval != "never"
        always, never = self.require_approval.always, self.require_approval.never
        if always is not None and not always.is_empty and always.matches(tool):
            return True
        return never is None or never.is_empty or not never.matches(tool)


class RealtimeToolChoiceMcp(Struct, frozen=True, omit_defaults=True, tag="mcp"):
    """This server's tool must be called; any of its tools where no ``name`` is given."""

    server_label: Label
    name: str | None = None


# --- what went wrong ------------------------------------------------------------------------


class RealtimeMcpProtocolError(Struct, frozen=True, tag="protocol_error"):
    """The server has answered, and not as MCP has it; or has refused, by this code of JSON-RPC."""

    code: int
    message: str


class RealtimeMcpHttpError(Struct, frozen=True, tag="http_error"):
    """The server was not reached (``code`` 0), or has answered by this status."""

    code: int
    message: str


class RealtimeMcpToolExecutionError(Struct, frozen=True, tag="tool_execution_error"):
    """The tool says that it has failed, or was not approved."""

    message: str


RealtimeMcpError: TypeAlias = (
    RealtimeMcpProtocolError | RealtimeMcpHttpError | RealtimeMcpToolExecutionError
)

# --- items ----------------------------------------------------------------------------------


class RealtimeMcpListToolsItem(Struct, frozen=True, omit_defaults=True, tag="mcp_list_tools"):
    server_label: str
    tools: list[RealtimeMcpListedTool]
    id: str | None = None


class RealtimeMcpCallItem(Struct, frozen=True, omit_defaults=True, tag="mcp_call"):
    """``output`` is null until there is one: the JS SDK insists on the field."""

    server_label: str
    name: str
    arguments: str
    output: str | None
    id: str | None = None
    error: RealtimeMcpError | None = None
    approval_request_id: str | None = None


class RealtimeMcpApprovalRequestItem(
    Struct, frozen=True, omit_defaults=True, tag="mcp_approval_request"
):
    server_label: str
    name: str
    arguments: str
    id: str | None = None


class RealtimeMcpApprovalResponseItem(
    Struct, frozen=True, omit_defaults=True, tag="mcp_approval_response"
):
    approval_request_id: str
    approve: bool
    reason: str | None = None
    id: str | None = None


RealtimeMcpItem: TypeAlias = (
    RealtimeMcpListToolsItem
    | RealtimeMcpCallItem
    | RealtimeMcpApprovalRequestItem
    | RealtimeMcpApprovalResponseItem
)
