"""``POST /v1/realtime/client_secrets``: a key for a page, which must not have the tenant's own.

Source: https://platform.openai.com/docs/api-reference/realtime-sessions
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from voice.admission import Caller
from voice.client_secrets import DEFAULT_S, LEAST_S, MOST_S, ClientSecrets, TooManyKeysError
from voice.doors.companions import answer_for
from voice.doors.handshake import judge_request, told_of
from voice.doors.realtime_mcp_tools import check_session
from voice.doors.realtime_settings import first_session
from voice.doors.refusals import Answer
from voice.doors.uploads import TooLargeError, TooSlowError, read_body
from voice.house import House
from voice.wire.realtime_errors import WireError, wire_error
from voice.wire.realtime_session import Session, merge, without_secrets

PATH: Final = "/v1/realtime/client_secrets"
MOST_BYTES: Final = 1024 * 1024
_LEAST_BYTES_PER_S: Final = 32 * 1024
_GONE: Final = 499
"""As nginx has it, for a client that goes while it is being read."""


class _ExpiresAfter(Struct, frozen=True):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Meta(ge=LEAST_S, le=MOST_S)] = DEFAULT_S


class _Wanted(Struct, frozen=True):
    expires_after: _ExpiresAfter | None = None
    session: dict[str, Any] | None = None


class _Made(Struct, frozen=True):
    value: str
    expires_at: int
    session: Session


_wanted = msgspec.json.Decoder(_Wanted)


def client_secrets(house: House) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of this house."""

    async def make(request: Request) -> Response:
        caller = judge_request(house, request.headers)
        if isinstance(caller, Answer):
            return caller.response()
        try:
            body = await read_body(request, MOST_BYTES, _LEAST_BYTES_PER_S)
        except (TooLargeError, TooSlowError) as error:
            return told_of(house, answer_for(error), caller.tenant).response()
        except (ClientDisconnect, TimeoutError):
            return Response(status_code=_GONE)  # to nobody
        try:
            made = _make(house, caller, body)
        except WireError as error:
            return told_of(house, _answer(error), caller.tenant).response()
        except TooManyKeysError as full:
            told = f"There are as many client secrets as may be. Try again in {full.retry_s} s."
            answer = Answer(429, "rate_limit_exceeded", told, full.retry_s)
            return told_of(house, answer, caller.tenant).response()
        headers = {"Cache-Control": "no-store"}
        return Response(msgspec.json.encode(made), 200, headers, "application/json")

    return make


def _make(house: House, caller: Caller, body: bytes) -> _Made:
    """Raises WireError and TooManyKeysError."""
    try:
        wanted = _wanted.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise wire_error(error) from error
    session = first_session({}, house.call_settings, house.model, f"sess_{uuid4().hex[:20]}")
    session = merge(session, wanted.session or {})
    check_session(session, house.config.mcp)
    seconds = (wanted.expires_after or _ExpiresAfter()).seconds
    secrets: ClientSecrets = house.client_secrets
    value, grant = secrets.issue(caller.tenant, caller.key, session, seconds, time.time())
    return _Made(value, grant.expires_at, without_secrets(session))


def _answer(error: WireError) -> Answer:
    return Answer(400, error.code, error.message, param=error.param)
