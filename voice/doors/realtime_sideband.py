"""A Realtime client that joins a phone call: ``/v1/realtime?call_id=NAME``.

It sees what happens in the call, the caller's keys among it, and may do all that a client of its
own call may, but speak for the caller: change the session, answer tool calls, ask for replies. NAME
is the carrier's own name of the call, or ours, which the log has. Audio is not sent: the caller
hears it. The call is nobody's but the caller's: it ends when they hang up, and goes on when those
who have joined it leave. Source: "Webhooks and server-side controls", OpenAI's guide to Realtime.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final
from uuid import uuid4

from engines.ports import Sighted
from pipelines.conversation.dialogue import AgentItem, CallerItem
from pipelines.conversation.events import ReplyAudio, ReplyText
from pipelines.conversation.ports import CallSettings
from voice.admission import Caller
from voice.doors.connection import Receive, Send, close, first_of
from voice.doors.handshake import Scope, counted, query_of
from voice.doors.outbox import Outbox, SlowClientError
from voice.doors.phone_call import PhoneCall
from voice.doors.realtime_asides import open_asides
from voice.doors.realtime_line import accept, connected, id_source
from voice.doors.realtime_listener import RealtimeListener
from voice.doors.realtime_mcp import open_mcp
from voice.doors.realtime_settings import first_session
from voice.doors.realtime_teller import RealtimeTeller
from voice.doors.refusals import Answer
from voice.house import House
from voice.mcp.settings import McpSettings
from voice.socket import CallSocket
from voice.wire.realtime_server import (
    InputAudioBufferDtmfEventReceivedEvent,
    ServerEvent,
)
from voice.wire.realtime_session import Session

logger = logging.getLogger(__name__)

MOST_GUESTS: Final = 4
"""Of one call: each costs it work."""

_OVER, _TOO_SLOW, _BUG = 1000, 1008, 1011


class SidebandTeller(RealtimeTeller):
    """Tells a client of a call that it has joined; a ``voice.doors.phone_company.Guest``. Whatever
    goes wrong with the client is for ``gone``, and never the call's affair."""

    def __init__(self, outbox: Outbox, host: PhoneCall, session: Session) -> None:
        call, self.new_id = host.call, id_source()
        assert call is not None, "only an open call is listed"
        self.gone: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.host = host
        super().__init__(outbox, session, call.settings, self.new_id, lambda: None)

    def tell(self, event: ServerEvent) -> None:
        if self.gone.done():
            return
        try:
            super().tell(event)
        except SlowClientError as slow:
            logger.warning("a client that had joined a call was dropped: %s", slow)
            self.gone.set_result(_TOO_SLOW)

    def fail(self, bug: Exception) -> None:
        """A bug in what the client asked for."""
        logger.error("a client that had joined a call met a bug", exc_info=bug)
        if not self.gone.done():
            self.gone.set_result(_BUG)

    def take_session(self, session: Session, settings: CallSettings) -> None:
        self.host.session = session
        for guest in self.host.company.guests:
            if isinstance(guest, SidebandTeller):
                RealtimeTeller.take_session(guest, session, settings)

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        if isinstance(output, ReplyText):
            super().reply_said(item, output)

    def key_pressed(self, digit: str) -> None:
        now = int(time.time())
        self.tell(InputAudioBufferDtmfEventReceivedEvent(event=digit, received_at=now))

    def item_added(self, item: CallerItem, previous_id: str | None) -> None:
        self.tell_item(item, previous_id)


async def join(
    house: House, caller: Caller, call_id: str, scope: Scope, receive: Receive, send: Send
) -> Answer | None:
    """Serve a client that joins the call of this name, until either leaves; or say why it may
    not."""
    if caller.session is not None:
        told = "A page's own key opens calls of its own: to join one, send an API key."
        return counted(house, Answer(403, "invalid_api_key", told), caller.tenant)
    host = house.phone_calls.get((caller.tenant, call_id))
    if host is None:
        told = "There is no phone call of this name: it is over, or another tenant's."
        return counted(house, Answer(404, "call_id_not_found", told), caller.tenant)
    if len(host.company.guests) >= MOST_GUESTS:
        told = f"{MOST_GUESTS} clients have joined this call already."
        return counted(house, Answer(429, "too_many_clients", told, retry_s=5), caller.tenant)
    await accept(scope, send)
    socket = CallSocket.of(scope)
    session = host.session or _session_of(house, host, scope)
    teller = SidebandTeller(outbox := Outbox(socket), host, session)
    host.company.guests.append(teller)
    try:
        await _attend(house, teller, outbox, socket, receive)
    except* Exception as bugs:  # noqa: BLE001 - it is written down there
        teller.fail(bugs)
    finally:
        host.company.guests.remove(teller)
    code = teller.gone.result() if teller.gone.done() else _OVER
    if code == _TOO_SLOW:
        socket.abort()
    elif not socket.disconnected:
        await close(send, socket, code)
    return None


def _session_of(house: House, host: PhoneCall, scope: Scope) -> Session:
    """A session as the call goes by: nobody has given it another."""
    assert host.call is not None, "only an open call is listed"
    query = {name: values for name, values in query_of(scope).items() if name == "model"}
    name = f"sess_{uuid4().hex[:16]}"
    return first_session(query, host.call.settings, house.model, name)


async def _attend(
    house: House, teller: SidebandTeller, outbox: Outbox, socket: CallSocket, receive: Receive
) -> None:
    host, llm = teller.host, house.engines.llm
    assert host.call is not None, "only an open call is listed"
    async with (
        open_asides(host.ration, house.engines.tts, teller.new_id) as asides,
        # None: each of those who have joined would run the same call of a tool.
        open_mcp(host.call, teller, McpSettings(), teller.new_id) as mcp,
    ):
        teller.greet()
        listener = RealtimeListener(
            host.call,
            teller,
            host.call.settings,
            teller.new_id,
            asides,
            mcp,
            sees_images=isinstance(llm, Sighted) and llm.sees_images,
            by_phone=True,
        )
        with connected(socket, teller.fail, listener, outbox, house.config.server.messages_per_s):
            logger.info("a client has joined %s", host.call.id)
            await first_of(receive(), asyncio.wait([teller.gone]), host.ended.wait())
