"""Who asks at a door, and what is said to who may not come in."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from voice.admission import Caller
from voice.auth import caller_of, is_foreign_page, presented_key
from voice.client_secrets import PREFIX
from voice.doors.refusals import Answer, answer_to
from voice.house import House

logger = logging.getLogger(__name__)

Scope: TypeAlias = MutableMapping[str, Any]

PATH: Final = "/v1/realtime"


def query_of(scope: Scope) -> dict[str, list[str]]:
    """The parameters of the address."""
    return parse_qs(scope["query_string"].decode("latin-1"))


def asks_for_recording(scope: Scope) -> bool:
    """``?record=1``: an address is what any client of OpenAI's can be given."""
    return query_of(scope).get("record") == ["1"]


def call_to_join(scope: Scope) -> str:
    """``?call_id=NAME``: of a call that is there already; empty for a call of one's own."""
    return query_of(scope).get("call_id", [""])[0]


def reads_only_events(scope: Scope) -> bool:
    """``?busy=event``: a browser shows no page what its handshake was answered."""
    return query_of(scope).get("busy") == ["event"]


def judge(house: House, scope: Scope) -> Caller | Answer:
    """Who asks for a call; or why there is none for them, however much room there is. Refusals are
    counted."""
    headers = Headers(scope=scope)
    offered = ",".join(headers.getlist("sec-websocket-protocol")).split(",")
    caller = _known(house, headers, map(str.strip, offered), for_call=True)
    if isinstance(caller, Answer):
        return counted(house, caller)
    if asks_for_recording(scope) and not house.records.can_record:
        told = "This server keeps no recordings: see journal.recordings."
        return counted(house, Answer(400, "cannot_record", told), caller.tenant)
    if not house.ready:
        told = "The models are still loading."
        return counted(house, Answer(503, "not_ready", told, retry_s=2), caller.tenant)
    sessions = house.rates.of(caller).sessions
    if sessions is not None and (wait_s := sessions.wait_s(_now())):
        told = f"This key begins {sessions.size:.0f} sessions a minute at most."
        return counted(house, _too_often(told, wait_s), caller.tenant)
    return caller


def judge_request(house: House, headers: Headers) -> Caller | Answer:
    """Who makes a request of a REST door; or why it is refused. One that may be made counts
    against what the key may do. Refusals are counted."""
    caller = _known(house, headers, (), for_call=False)
    if isinstance(caller, Answer):
        return told_of(house, caller)
    requests = house.rates.of(caller).requests
    if requests is not None and not requests.take(_now()):
        told = f"This key makes {requests.size:.0f} requests a minute at most."
        return told_of(house, _too_often(told, requests.wait_s(_now())), caller.tenant)
    return caller


def _known(
    house: House, headers: Headers, subprotocols: Iterable[str], *, for_call: bool
) -> Caller | Answer:
    """Whose key the request has: one of a tenant's, or, ``for_call``, one that was made for a
    session."""
    keys, given = house.config.keys, presented_key(headers, subprotocols)
    origins, keyless = house.config.server.allowed_origins, not any(keys.values())
    if is_foreign_page(headers, origins, keyless=keyless):
        told = "This page may not use this server: see allowed_origins."
        return Answer(403, "origin_not_allowed", told)
    caller = caller_of(given, keys)
    grant = house.client_secrets.find(given, time.time()) if for_call else None
    if grant is not None:
        return Caller(grant.tenant, key=grant.key, session=grant.session)
    if caller is None:
        return unknown_key(given)
    return caller


def unknown_key(given: str, places: str = "Authorization: Bearer KEY") -> Answer:
    """What is said to who gave this key, which is nobody's, or none; ``places``: where one goes."""
    told = "Incorrect API key provided."
    if not given:
        told = f"You didn't provide an API key: send {places}."
    elif given.startswith(PREFIX):
        told = (
            f"A page's own key ({PREFIX}...) opens calls at {PATH} only, until it expires: for"
            " anything else, send an API key."
        )
    return Answer(401, "invalid_api_key", told)


def _too_often(told: str, wait_s: float) -> Answer:
    retry_s = max(1, math.ceil(wait_s))
    return Answer(429, "rate_limit_exceeded", f"{told} Try again in {retry_s} s.", retry_s)


def _now() -> float:
    return asyncio.get_running_loop().time()


def turn_away(house: House, scope: Scope) -> bytes | None:
    """The whole HTTP answer to a handshake that becomes no call and need not wait to know it; None
    for any other. Said before a WebSocket is made of the connection, it costs the calls that are in
    a third of what it would later."""
    if scope["path"] != PATH or reads_only_events(scope) or call_to_join(scope):
        return None
    caller = judge(house, scope)
    if isinstance(caller, Answer):
        return caller.http()
    refusal = house.reception.refuses(caller)
    if refusal is None:
        return None
    return counted(house, answer_to(refusal, house.room().most), caller.tenant).http()


def counted(house: House, answer: Answer, tenant: str = "") -> Answer:
    """The answer to who wanted a call, once it is counted, and written down now and then."""
    house.metrics.calls_opened.labels("refused").inc()
    write_refusal(house, "call", tenant, answer.code, f": {answer.message}")
    return told_of(house, answer, tenant)


def write_refusal(house: House, what: str, tenant: str, code: str, why: str = "") -> None:
    """A line in the log, now and then, for what of whose was refused."""
    whose = f"{what} of {tenant}" if tenant else what
    if times := house.refusals.due(f"{code}: {whose}", time.monotonic()):
        more = f" ({times - 1} more since this was said last)" if times > 1 else ""
        logger.info("a %s was refused: %s%s%s", whose, code, why, more)


def told_of(house: House, answer: Answer, tenant: str = "") -> Answer:
    """The answer to any request, once it is counted."""
    house.metrics.refusals.labels(answer.code, tenant).inc()
    return answer
