"""The Realtime door: one WebSocket is one call, from the handshake to the last event."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from starlette.datastructures import Headers

from engines.ports import Sighted
from pipelines.conversation.call import open_call
from voice.admission import Caller
from voice.doors.connection import CLOSE_S, Receive, Send, close, first_of
from voice.doors.handshake import (
    Scope,
    asks_for_recording,
    call_to_join,
    counted,
    judge,
    query_of,
    reads_only_events,
)
from voice.doors.outbox import Outbox, SlowClientError
from voice.doors.ration import RationedLlm
from voice.doors.realtime_asides import open_asides
from voice.doors.realtime_line import accept, connected, id_source
from voice.doors.realtime_listener import RealtimeListener
from voice.doors.realtime_mcp import open_mcp
from voice.doors.realtime_settings import call_settings, first_session
from voice.doors.realtime_sideband import join
from voice.doors.realtime_teller import RealtimeTeller
from voice.doors.refusals import Answer, answer_to
from voice.doors.voicing import rate_of
from voice.house import House
from voice.reception import CallerGoneError, RefusedError
from voice.socket import CallSocket

logger = logging.getLogger(__name__)

_BUG, _TOO_SLOW, _TRY_AGAIN = 1011, 1008, 1013


class RealtimeDoor:
    """An ASGI application for ``/v1/realtime``."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake, which is in the scope
        judged = judge(self._house, scope)
        call_id = call_to_join(scope)
        if isinstance(judged, Caller) and call_id:
            answer = await join(self._house, judged, call_id, scope, receive, send)
        elif isinstance(judged, Caller):
            answer = await self._admit(judged, scope, receive, send)
        else:
            answer = judged
        if answer is not None:
            await _refuse(answer, scope, receive, send)

    async def _admit(
        self, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> Answer | None:
        """Serve a call; or say why there is none."""
        house = self._house
        sessions = house.rates.of(caller).sessions
        try:
            async with house.reception.admit(caller, CallSocket.of(scope), receive):
                if sessions is not None:
                    sessions.spend(1, asyncio.get_running_loop().time())
                await accept(scope, send)
                await self._serve(caller, scope, receive, send)
        except RefusedError as refused:
            return counted(house, answer_to(refused.refusal, house.room().most), caller.tenant)
        except CallerGoneError:
            house.metrics.calls_opened.labels("gone").inc()
        return None

    async def _serve(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        socket = CallSocket.of(scope)
        code = 1000
        try:
            await self._talk(caller, scope, receive, socket)
        except* SlowClientError as slow:
            logger.warning("a call was dropped: %s", slow.exceptions[0])
            code = _TOO_SLOW
        except* Exception:
            logger.exception("a call ended by a bug")
            code = _BUG
        if code == _TOO_SLOW:
            socket.abort()
        elif not socket.disconnected:
            await close(send, socket, code)

    async def _talk(
        self, caller: Caller, scope: Scope, receive: Receive, socket: CallSocket
    ) -> None:
        house, new_id = self._house, id_source()
        base = house.call_settings
        session = first_session(query_of(scope), base, house.model, new_id("sess"), caller.session)
        settings = call_settings(session, base)
        outbox, hung_up = Outbox(socket), asyncio.Event()
        ration = RationedLlm(house.engines.llm, house.rates.of(caller).requests)
        teller = RealtimeTeller(outbox, session, settings, new_id, hung_up.set, ration)
        rate, asked = rate_of(session.audio.input.format), asks_for_recording(scope)
        with (
            house.records.keep(session.id, rate, settings.turns, record=asked) as kept,
            house.watched(session.id, caller.tenant, Headers(scope=scope)) as watching,
        ):
            async with (
                open_call(
                    replace(house.engines, llm=ration),
                    settings,
                    teller,
                    rate=rate,
                    new_id=lambda: new_id("item"),
                    call_id=session.id,
                    observers=(*watching, *kept.observers),
                    recorder=kept.recorder,
                ) as call,
                open_asides(ration, house.engines.tts, new_id) as asides,
                open_mcp(call, teller, house.config.mcp, new_id) as mcp,
            ):
                teller.greet()
                sees = isinstance(house.engines.llm, Sighted) and house.engines.llm.sees_images
                mcp.list_new(session)
                listener = RealtimeListener(
                    call, teller, base, new_id, asides, mcp, sees_images=sees
                )
                pace = house.config.server.messages_per_s
                with house.knows(call), connected(socket, call.crash, listener, outbox, pace):
                    await first_of(receive(), hung_up.wait())  # messages take the short cut
                    if hung_up.is_set():
                        await outbox.wait_empty(CLOSE_S)


async def _refuse(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    """By HTTP, or by an event where a client that may come later reads nothing else."""
    if answer.retry_s is None or not reads_only_events(scope):
        await answer.response()(scope, receive, send)
        return
    socket = CallSocket.of(scope)
    await accept(scope, send)
    socket.write_text(answer.event())
    await close(send, socket, _TRY_AGAIN)
