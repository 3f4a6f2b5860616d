"""What the REST doors share: who may ask, how work ends when its client goes, and what went wrong.

A request is a file job (``voice.files``) from when its body is there: one who sends it slowly keeps
nobody waiting. Its work and the watch for its client are one task group, so that nobody works for a
client who has gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from engines.ports import EngineError
from pipelines.failures import cause_of
from pipelines.media.reading import MediaError
from voice.admission import Reason
from voice.doors.handshake import judge_request, told_of
from voice.doors.refusals import Answer, without_paths
from voice.doors.uploads import STALL_S, TooLargeError, TooSlowError
from voice.files import FilePlace
from voice.house import House
from voice.reception import RefusedError
from voice.wire.realtime_errors import WireError

logger = logging.getLogger(__name__)

EVENTS: Final = "text/event-stream"

_STATUS: Final = {"bad_request": 400, "rate_limited": 429, "unavailable": 503, "timeout": 504}
_REFUSALS: Final = {
    Reason.SERVER_FULL: "The server has as many requests for files as it takes at once.",
    Reason.TENANT_FULL: "This tenant has as many requests for files as it may have at once.",
    Reason.WAITED: "Calls have all of the server for now.",
    Reason.OVERLOADED: "Calls need all of the server for now.",
    Reason.CLOSING: "The server is shutting down.",
}
_RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class Job:
    """One request that is being served: its name, where it works, and its client."""

    call: str
    place: FilePlace
    request: Request
    out: Outlet


@dataclass(frozen=True, slots=True)
class Upload:
    """One request whose body is still to be read, and the job that it then is: ``begin``."""

    request: Request
    begin: Callable[[], AbstractAsyncContextManager[Job]]


Serve: TypeAlias = Callable[[Upload], Awaitable[None]]


class Companion:
    """An endpoint as an ASGI application. ``engine`` is what it needs; ``serve`` reads the body,
    begins the job and does the work, and may raise whatever is told to clients: see
    ``answer_for``."""

    def __init__(self, house: House, engine: str, serve: Serve) -> None:
        self._house = house
        self._engine = engine
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request, out = Request(scope, receive), Outlet(send)
        caller = judge_request(self._house, request.headers)
        if isinstance(caller, Answer):
            await out.fail(caller)
            return
        outcome = "done"
        try:
            with ExitStack() as reading:
                reading.enter_context(self._house.files.upload(caller.tenant))
                self._check_open()
                begin = partial(self._begin, caller.tenant, request, out, reading)
                await self._serve(Upload(request, begin))
        except (ClientDisconnect, TimeoutError):
            outcome = "gone"
        except TOLD as error:
            answer = told_of(self._house, answer_for(error), caller.tenant)
            outcome = "refused" if answer.status < 500 or answer.retry_s else "failed"
            whole = error if isinstance(error, EngineError) else answer.message
            logger.info("%s: %s: %s", scope["path"], answer.code, whole)
            await out.fail(answer)
        self._house.metrics.file_jobs.labels(self._engine, outcome).inc()

    @asynccontextmanager
    async def _begin(
        self, tenant: str, request: Request, out: Outlet, reading: ExitStack
    ) -> AsyncIterator[Job]:
        """The body is there, and ``reading`` over."""
        call = f"file_{uuid4().hex[:12]}"
        async with self._house.files.job(self._engine, tenant) as place:
            reading.close()
            with self._house.meter.call(call, tenant):
                yield Job(call, place, request, out)

    def _check_open(self) -> None:
        if not self._house.ready:
            raise EngineError("server", "unavailable", "the models are still loading")


class Outlet:
    """The answer to a request, which may be sent in pieces."""

    def __init__(self, send: Send) -> None:
        self.begun = False
        self._send = send
        self._type = ""

    async def whole(self, body: bytes, content_type: str) -> None:
        """All of it at once."""
        await self._begin(200, content_type, [(b"content-length", str(len(body)).encode())])
        await self._put(body, more=False)

    async def piece(self, data: bytes, content_type: str) -> None:
        """More of it. Raises TimeoutError where the client takes nothing."""
        if not self.begun:
            await self._begin(200, content_type, [(b"cache-control", b"no-cache")])
        await self._put(data, more=True)

    async def finish(self) -> None:
        """There is no more."""
        await self._put(b"", more=False)

    async def fail(self, answer: Answer) -> None:
        """Tell what went wrong. A file that has begun is broken off, so that nobody takes it for
        whole: the server closes a connection whose answer has no end."""
        response = answer.response()
        if not self.begun:
            await self._begin(answer.status, "application/json", response.raw_headers)
            await self._put(bytes(response.body), more=False)
        elif self._type == EVENTS:
            await self._put(b"data: " + bytes(response.body) + b"\n\n", more=False)

    async def _begin(self, status: int, kind: str, headers: list[tuple[bytes, bytes]]) -> None:
        self.begun, self._type = True, kind
        named = [each for each in headers if each[0] != b"content-type"]
        headers = [*named, (b"content-type", kind.encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _put(self, body: bytes, *, more: bool) -> None:
        async with asyncio.timeout(STALL_S):
            await self._send({"type": "http.response.body", "body": body, "more_body": more})


TOLD = (WireError, MediaError, EngineError, RefusedError, TooLargeError, TooSlowError)
"""What clients are told of; anything else is a bug."""


def answer_for(error: Exception) -> Answer:
    """What a client is told of an error that ended its request."""
    match error:
        case WireError():
            return Answer(400, error.code, error.message, param=error.param)
        case MediaError():
            code = "unsupported_value" if error.code == "unsupported" else f"audio_{error.code}"
            return Answer(400, code, error.message, param="file")
        case TooLargeError():
            return Answer(413, "request_too_large", str(error))
        case TooSlowError():
            return Answer(408, "request_timeout", str(error))
        case RefusedError():
            told = f"{_REFUSALS[error.refusal.reason]} Try again in {error.refusal.retry_s} s."
            return Answer(503, error.refusal.reason.value, told, error.refusal.retry_s)
        case EngineError():
            status = _STATUS.get(error.code, 500)
            retry_s = _RETRY_S if status in (429, 503) else None
            return Answer(status, f"engine_{error.code}", without_paths(str(error)), retry_s)
    raise error


async def while_there(request: Request, work: Awaitable[None]) -> None:
    """Do it, unless the client goes: then it is cancelled. The body must have been read. Raises
    ClientDisconnect, and what ``work`` raises."""
    try:
        async with asyncio.TaskGroup() as tasks:
            gone = tasks.create_task(_wait_gone(request))
            await work
            gone.cancel()
    except ExceptionGroup as group:
        raise cause_of(group) from group


async def _wait_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect
