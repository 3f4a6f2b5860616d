"""MCP tool servers in a Realtime call: this server is their client, on behalf of its own.

It stands where a client stands that has tools: it runs what the model calls, puts the result into
the dialogue and asks for the next reply. So a slow tool is waited for as any, and what comes after
an interruption is kept for the reply that the caller gets anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pipelines.conversation.call import Call
from pipelines.conversation.dialogue import (
    Hosted,
    HostFailure,
    NoteItem,
    ToolCallItem,
    ToolResultItem,
)
from pipelines.conversation.ports import CallSettings
from voice.doors.realtime_items import failure_to_wire, to_wire
from voice.doors.realtime_mcp_tools import Server, access_to, check_session, offered
from voice.doors.realtime_replies import Response
from voice.doors.realtime_teller import Asked, RealtimeTeller
from voice.mcp.client import McpClient
from voice.mcp.guard import open_client
from voice.mcp.messages import McpError
from voice.mcp.settings import McpSettings
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_mcp import (
    RealtimeMcpApprovalRequestItem,
    RealtimeMcpApprovalResponseItem,
    RealtimeMcpListToolsItem,
    RealtimeMcpTool,
)
from voice.wire.realtime_objects import RealtimeResponseCreateParams
from voice.wire.realtime_server import (
    ConversationItemAdded,
    ConversationItemDone,
    McpListToolsCompleted,
    McpListToolsFailed,
    McpListToolsInProgress,
    ResponseMcpCallCompleted,
    ResponseMcpCallFailed,
    ResponseMcpCallInProgress,
)
from voice.wire.realtime_session import RealtimeSession, Session, read_tools

logger = logging.getLogger(__name__)

MOST_ROUNDS: Final = 8
"""Replies in a row, each asked for by the results of the one before; the last is told to call
nothing."""

_CONNECT_S: Final = 5.0
_MOST_CLIENTS: Final = 32
_MOST_WAITING: Final = 128
"""Calls that a client does not approve of or refuse; then the oldest are forgotten."""


@dataclass(slots=True)
class _Round:
    """The calls of one reply, and what it was asked for by; ``running`` have no result yet."""

    asked: Asked
    running: int = 0


@dataclass(slots=True)
class _HostedCall:
    """One of them; ``index`` is its place in the output of the reply, behind ``previous_id``."""

    item: ToolCallItem
    hosted: Hosted
    calls: _Round
    previous_id: str | None
    index: int = 0


class RealtimeMcp:
    """The MCP servers of one call. Opened by ``open_mcp``."""

    def __init__(
        self,
        call: Call,
        teller: RealtimeTeller,
        settings: McpSettings,
        tasks: asyncio.TaskGroup,
        new_id: Callable[[str], str],
    ) -> None:
        self._call = call
        self._teller = teller
        self._settings = settings
        self._tasks = tasks
        self._new_id = new_id
        self._servers: dict[str, Server] = {}
        self._clients: list[McpClient] = []
        self._asked = 0
        self._rounds: dict[str, _Round] = {}
        self._waiting: dict[str, _HostedCall] = {}
        self._running: set[asyncio.Task[None]] = set()

    # --- which servers there are ----------------------------------------------------------

    def check(self, session: Session) -> None:
        """Raises WireError where the session names a server that must not be called."""
        check_session(session, self._settings)

    def equip(self, settings: CallSettings, session: Session) -> CallSettings:
        """With the tools of the session's servers, as far as they are known. One that it does not
        ask for as it was asked before is forgotten."""
        wanted = _servers_of(session)
        kept = (server for server in self._servers.values() if server.tool in wanted)
        self._servers = {server.tool.server_label: server for server in kept}
        choice = session.tool_choice if isinstance(session, RealtimeSession) else None
        return offered(settings, self._servers, choice)

    def list_new(self, session: Session) -> None:
        """Ask the servers what they have that have not been asked."""
        for tool in _servers_of(session):
            if tool.server_label not in self._servers:
                server = self._servers[tool.server_label] = Server(tool)
                self._spawn(self._list(server))

    def equip_response(
        self, settings: CallSettings, params: RealtimeResponseCreateParams | None
    ) -> CallSettings:
        """With those of them that a response asks for. Raises WireError where it names a server
        that its session does not have."""
        if params is None or (params.tools is None and params.tool_choice is None):
            return settings
        servers = self._servers
        if params.tools is not None:
            tools = read_tools(params.tools, "response.tools")
            named = [tool for tool in tools if isinstance(tool, RealtimeMcpTool)]
            servers = {tool.server_label: self._narrowed(tool) for tool in named}
        return offered(settings, servers, params.tool_choice)

    def _narrowed(self, tool: RealtimeMcpTool) -> Server:
        known = self._servers.get(tool.server_label)
        if known is None or (tool.server_url or known.tool.server_url) != known.tool.server_url:
            raise WireError(
                "invalid_value",
                f"The session has no MCP server '{tool.server_label}' of this URL: a response may"
                " use those of its session; name it in session.tools first.",
                "response.tools",
            )
        return Server(msgspec.structs.replace(known.tool, allowed_tools=tool.allowed_tools),
                      [each for each in known.listed if known.tool.allows(each)])  # fmt: skip

    async def _list(self, server: Server) -> None:
        item_id, label = self._new_id("mcpl"), server.tool.server_label
        note = NoteItem(item_id, RealtimeMcpListToolsItem(label, [], item_id))
        previous = self._call.dialogue.append(note)
        self._teller.tell(ConversationItemAdded(item=to_wire(note), previous_item_id=previous))
        self._teller.tell(McpListToolsInProgress(item_id=item_id))
        try:
            client = await self._connect(server)
            listed = [tool.to_wire() for tool in await client.list_tools()]
        except McpError as error:
            logger.info("%s: the MCP server %s lists nothing: %r", self._call.id, label, str(error))
            failure = failure_to_wire(_failure(error))
            self._teller.tell(McpListToolsFailed(item_id=item_id, error=failure))
        else:
            server.client, server.listed = client, listed
            allowed = [tool for tool in listed if server.tool.allows(tool)]
            note.shown = RealtimeMcpListToolsItem(label, allowed, item_id)
            note.characters = len(msgspec.json.encode(note.shown))
            self._teller.tell(McpListToolsCompleted(item_id=item_id))
            if self._servers.get(label) is server:
                self._offer(label, len(allowed))
        self._teller.tell(ConversationItemDone(item=to_wire(note), previous_item_id=previous))

    def _offer(self, label: str, allowed: int) -> None:
        settings = self.equip(self._teller.settings, self._teller.session)
        self._teller.settings = settings
        self._call.configure(settings)
        if left_out := allowed - sum(tool.host == label for tool in settings.hosted):
            logger.warning(
                "%s: %d tools of the MCP server %s are not offered to the model: they would take"
                " more than half of agent.context_tokens; allowed_tools may name fewer",
                self._call.id, left_out, label,
            )  # fmt: skip

    async def _connect(self, server: Server) -> McpClient:
        if self._asked >= _MOST_CLIENTS:
            raise McpError("protocol", f"the call has asked {_MOST_CLIENTS} servers, which is all")
        self._asked += 1
        tool = server.tool
        public_only = self._settings.reach(tool.server_url or "") != "listed"
        http = await open_client(public_only=public_only, connect_s=_CONNECT_S)
        client = McpClient(http, access_to(tool), self._settings)
        self._clients.append(client)
        return client

    # --- calls ----------------------------------------------------------------------------

    def called(
        self, item: ToolCallItem, previous_id: str | None, response: Response, asked: Asked
    ) -> None:
        """The model calls a tool of theirs: see to it, or ask the client first."""
        assert item.hosted is not None, "only hosted calls come here"
        self._rounds = {response.id: self._rounds.get(response.id) or _Round(asked)}
        call = _HostedCall(item, item.hosted, self._rounds[response.id], previous_id)
        server = self._servers.get(call.hosted.host)
        if server is not None and server.wants_approval(call.hosted.name):
            self._ask_approval(call, response)
        else:
            call.index = response.call_tool(item, previous_id)
            self._run(call)

    def _ask_approval(self, call: _HostedCall, response: Response) -> None:
        hosted, arguments, item_id = call.hosted, call.item.call.arguments, self._new_id("mcpr")
        hosted.told = False
        request = RealtimeMcpApprovalRequestItem(hosted.host, hosted.name, arguments, item_id)
        self._call.dialogue.append(NoteItem(item_id, request, len(arguments)))
        self._waiting[item_id] = call
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        response.show(request, call.previous_id)

    def check_answer(self, answer: RealtimeMcpApprovalResponseItem) -> None:
        """Raises WireError where nobody has asked for it."""
        if answer.approval_request_id not in self._waiting:
            raise WireError(
                "invalid_value",
                f"No approval request '{answer.approval_request_id}' waits for an answer.",
                "item.approval_request_id",
            )

    def take_answer(self, answer: RealtimeMcpApprovalResponseItem) -> None:
        """The client approves of a call, or does not."""
        call = self._waiting.pop(answer.approval_request_id)
        call.hosted.approval_id = answer.approval_request_id
        if not answer.approve:
            reason = f": {answer.reason}" if answer.reason else ""
            call.hosted.failure = HostFailure("tool", f"it was not approved of{reason}")
            self._go_on(call.calls)
            return
        call.previous_id, call.hosted.told = self._call.dialogue.last_id, True
        wire = to_wire(call.item)
        self._teller.tell(ConversationItemAdded(item=wire, previous_item_id=call.previous_id))
        self._run(call)

    def _run(self, call: _HostedCall) -> None:
        call.calls.running += 1
        self._teller.tell(ResponseMcpCallInProgress(item_id=call.item.id, output_index=call.index))
        self._spawn(self._carry_out(call))

    async def _carry_out(self, call: _HostedCall) -> None:
        item, hosted = call.item, call.hosted
        try:
            client = self._client_of(hosted.host)
            hosted.output = await client.call(hosted.name, item.call.arguments)
        except McpError as error:
            hosted.failure = _failure(error)
        over = ResponseMcpCallCompleted if hosted.failure is None else ResponseMcpCallFailed
        self._teller.tell(over(item_id=item.id, output_index=call.index))
        wire = to_wire(item)
        self._teller.tell(ConversationItemDone(item=wire, previous_item_id=call.previous_id))
        call.calls.running -= 1
        self._go_on(call.calls)

    def _client_of(self, label: str) -> McpClient:
        server = self._servers.get(label)
        if server is None or server.client is None:
            raise McpError("protocol", "the session has no such server any more")
        return server.client

    def _go_on(self, calls: _Round) -> None:
        """Ask for the reply that reads the results, once all are there, unless one is asked for
        that will: by the client, or by a client that has functions to carry out first."""
        if calls.running or self._teller.asked is not None or self._client_has_work():
            return
        asked = calls.asked
        if asked.depth >= MOST_ROUNDS:
            logger.warning(
                "%s: the model calls tools without end, and is asked no more", self._call.id
            )
            return
        settings = replace(asked.settings, context=None)
        if asked.depth + 1 >= MOST_ROUNDS:
            settings = replace(settings, tool_choice="none")
        elif settings.tool_choice != "none":  # what was to be called has been called
            settings = replace(settings, tool_choice="auto")
        self._teller.asked = Asked(settings, None, unasked=True, depth=asked.depth + 1)
        self._call.request_reply(settings)

    def _client_has_work(self) -> bool:
        """The model has called a function of the client's since it last got a result of one."""
        for item in reversed(list(self._call.dialogue)):
            if isinstance(item, ToolResultItem) and not item.own:
                return False
            if isinstance(item, ToolCallItem) and not item.own and item.hosted is None:
                return True
        return False

    # --- tasks ------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """The call is over."""
        for task in [*self._running]:
            task.cancel()
        await asyncio.gather(*(client.close() for client in self._clients))


def _servers_of(session: Session) -> list[RealtimeMcpTool]:
    tools = session.tools if isinstance(session, RealtimeSession) else []
    return [tool for tool in tools if isinstance(tool, RealtimeMcpTool)]


def _failure(error: McpError) -> HostFailure:
    return HostFailure(error.fault, str(error), error.code)


@asynccontextmanager
async def open_mcp(
    call: Call, teller: RealtimeTeller, settings: McpSettings, new_id: Callable[[str], str]
) -> AsyncIterator[RealtimeMcp]:
    """The MCP servers of a call, from here to the end of the context; a bug ends the body."""
    async with asyncio.TaskGroup() as tasks:
        mcp = teller.hosts = RealtimeMcp(call, teller, settings, tasks, new_id)
        try:
            yield mcp
        finally:
            await mcp.close()
