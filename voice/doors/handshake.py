"""Who asks for a call of the Realtime door, and what is said to who may have none."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from voice.admission import Caller
from voice.auth import is_foreign_page, presented_key, tenant_of
from voice.doors.refusals import Answer, answer_to
from voice.house import House

Scope: TypeAlias = MutableMapping[str, Any]

PATH: Final = "/v1/realtime"


def query_of(scope: Scope) -> dict[str, list[str]]:
    """The parameters of the address."""
    return parse_qs(scope["query_string"].decode("latin-1"))


def asks_for_recording(scope: Scope) -> bool:
    """``?record=1``: an address is what any client of OpenAI's can be given."""
    return query_of(scope).get("record") == ["1"]


def reads_only_events(scope: Scope) -> bool:
    """``?busy=event``: a browser shows no page what its handshake was answered."""
    return query_of(scope).get("busy") == ["event"]


def judge(house: House, scope: Scope) -> Caller | Answer:
    """Who asks; or why there is no call for them, however much room there is. Refusals are
    counted."""
    headers, keys = Headers(scope=scope), house.config.keys
    offered = ",".join(headers.getlist("sec-websocket-protocol")).split(",")
    tenant = tenant_of(presented_key(headers, map(str.strip, offered)), keys)
    origins, keyless = house.config.server.allowed_origins, not any(keys.values())
    if is_foreign_page(headers, origins, keyless=keyless):
        told = "This page may not use this server: see allowed_origins."
        return counted(house, Answer(403, "origin_not_allowed", told))
    if tenant is None:
        return counted(house, Answer(401, "invalid_api_key", "Incorrect API key provided."))
    if asks_for_recording(scope) and not house.records.can_record:
        told = "This server keeps no recordings: see journal.recordings."
        return counted(house, Answer(400, "cannot_record", told), tenant)
    if not house.ready:
        told = "The models are still loading."
        return counted(house, Answer(503, "not_ready", told, retry_s=2), tenant)
    return Caller(tenant)


def turn_away(house: House, scope: Scope) -> bytes | None:
    """The whole HTTP answer to a handshake that becomes no call and need not wait to know it; None
    for any other. Said before a WebSocket is made of the connection, it costs the calls that are in
    a third of what it would later."""
    if scope["path"] != PATH or reads_only_events(scope):
        return None
    caller = judge(house, scope)
    if isinstance(caller, Answer):
        return caller.http()
    refusal = house.reception.refuses(caller)
    if refusal is None:
        return None
    return counted(house, answer_to(refusal, house.room().most), caller.tenant).http()


def counted(house: House, answer: Answer, tenant: str = "") -> Answer:
    """The answer, once it is counted."""
    house.metrics.calls_opened.labels("refused").inc()
    house.metrics.refusals.labels(answer.code, tenant).inc()
    return answer
