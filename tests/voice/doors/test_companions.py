"""What the REST doors share: what clients are told, and work that ends with its client."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from engines.ports import EngineError
from pipelines.media.reading import MediaError
from voice.admission import Reason, Refusal
from voice.doors.companions import EVENTS, Companion, Outlet, Upload, answer_for, while_there
from voice.doors.uploads import STALL_S, TooLargeError, TooSlowError, read_body
from voice.reception import RefusedError
from voice.wire.realtime_errors import WireError


class Wire:
    """The server's side of one request: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.reads = True

    async def send(self, message: Any) -> None:
        if not self.reads:
            await asyncio.Event().wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def headers(self) -> dict[str, str]:
        raw = self.sent[0]["headers"]
        assert len({name for name, _ in raw}) == len(raw)
        return {name.decode(): value.decode() for name, value in raw}


# --- what went wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code", "retries"),
    [
        (WireError("invalid_value", "no", "input"), 400, "invalid_value", False),
        (MediaError("truncated", "cut off"), 400, "audio_truncated", False),
        (MediaError("unsupported", "what?"), 400, "unsupported_value", False),
        (TooLargeError("long"), 413, "request_too_large", False),
        (TooSlowError("slow"), 408, "request_timeout", False),
        (RefusedError(Refusal(Reason.SERVER_FULL, 0, 5)), 503, "server_full", True),
        (RefusedError(Refusal(Reason.CLOSING, 0, 5)), 503, "shutting_down", True),
        (EngineError("asr", "bad_request", "English only"), 400, "engine_bad_request", False),
        (EngineError("asr", "unavailable", "gone"), 503, "engine_unavailable", True),
        (EngineError("asr", "timeout", "slow"), 504, "engine_timeout", False),
        (EngineError("asr", "rate_limited", "often"), 429, "engine_rate_limited", True),
        (EngineError("asr", "failed", "broken"), 500, "engine_failed", False),
    ],
)
def test_what_a_client_is_told(error: Any, status: int, code: str, retries: bool) -> None:
    answer = answer_for(error)
    assert (answer.status, answer.code, answer.retry_s is not None) == (status, code, retries)
    assert answer.message


@pytest.mark.parametrize(
    "reason", [Reason.SERVER_FULL, Reason.TENANT_FULL, Reason.WAITED, Reason.OVERLOADED]
)
def test_who_is_refused_is_told_when_to_come_again(reason: Reason) -> None:
    assert "again in 7 s" in answer_for(RefusedError(Refusal(reason, 0, 7))).message


def test_a_bug_is_told_to_nobody() -> None:
    with pytest.raises(ZeroDivisionError):
        answer_for(ZeroDivisionError())


# --- the outlet -----------------------------------------------------------------------------


async def test_an_answer_in_pieces() -> None:
    wire = Wire()
    out = Outlet(wire.send)
    for piece in (b"a", b"b"):
        await out.piece(piece, "audio/wav")
    await out.finish()
    assert wire.body == b"ab"
    assert wire.headers["content-type"] == "audio/wav"
    assert [message.get("more_body") for message in wire.sent[1:]] == [True, True, False]


async def test_an_error_before_anything_was_sent_is_an_error() -> None:
    wire = Wire()
    await Outlet(wire.send).fail(answer_for(EngineError("tts", "unavailable", "gone")))
    assert wire.sent[0]["status"] == 503
    assert wire.headers["retry-after"] == "5"
    assert wire.headers["content-length"] == str(len(wire.body))
    assert json.loads(wire.body)["error"]["type"] == "server_error"


async def test_an_error_among_events_is_one_and_the_last() -> None:
    wire = Wire()
    out = Outlet(wire.send)
    await out.piece(b"data: 1\n\n", EVENTS)
    await out.fail(answer_for(EngineError("tts", "failed", "broken")))
    last = wire.sent[-1]
    assert json.loads(last["body"][6:])["error"]["code"] == "engine_failed"
    assert (last["more_body"], last["body"][-2:]) == (False, b"\n\n")


async def test_a_file_that_fails_in_its_middle_has_no_end() -> None:
    wire = Wire()
    out = Outlet(wire.send)
    await out.piece(b"RIFF", "audio/wav")
    await out.fail(answer_for(EngineError("tts", "failed", "broken")))
    assert wire.body == b"RIFF"
    assert wire.sent[-1]["more_body"] is True


@pytest.mark.virtual_clock
async def test_a_client_that_takes_nothing_has_gone() -> None:
    wire = Wire()
    out = Outlet(wire.send)
    await out.piece(b"a", "audio/wav")
    wire.reads = False
    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await out.piece(b"b", "audio/wav")
    assert asyncio.get_running_loop().time() - began == pytest.approx(STALL_S)


# --- while there is a client ----------------------------------------------------------------


def request_of(gone: asyncio.Event) -> Request:
    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


async def test_work_ends_with_its_client() -> None:
    gone, ended = asyncio.Event(), []

    async def work() -> None:
        gone.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(ClientDisconnect):
        await while_there(request_of(gone), work())
    assert ended == [True]


async def test_work_that_is_done_needs_no_client() -> None:
    done = []

    async def work() -> None:
        done.append(True)

    await while_there(request_of(asyncio.Event()), work())
    assert done == [True]


async def test_what_work_raises_is_raised() -> None:
    async def work() -> None:
        raise EngineError("tts", "failed", "broken")

    with pytest.raises(EngineError, match="broken"):
        await while_there(request_of(asyncio.Event()), work())


# --- the endpoint ---------------------------------------------------------------------------


async def ask(house: Any, serve: Any, body: bytes = b"", **headers: str) -> Wire:
    wire = Wire()

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": raw}
    await Companion(house, "tts", serve)(scope, receive, wire.send)
    return wire


async def test_a_job_is_counted_and_booked_on_its_tenant(serve: Any) -> None:
    server = await serve("tenants.acme.keys=secret")
    booked = []

    async def work(upload: Upload) -> None:
        assert server.house.files.count == 0
        async with upload.begin() as job:
            booked.append((server.house.files.count, server.house.meter.tenant_of(job.call)))
            await job.out.whole(b"done", "text/plain")

    wire = await ask(server.house, work, authorization="Bearer secret")
    assert (wire.body, booked, server.house.files.count) == (b"done", [(1, "acme")], 0)
    assert server.house.metrics.file_jobs.labels("tts", "done")._value.get() == 1


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        (["server.api_keys=key1"], {"authorization": "Bearer key2"}, 401),
        ([], {"origin": "http://evil.example"}, 403),
        (["files.max_jobs=0"], {}, 503),
    ],
)
async def test_who_may_not_is_told_before_anything_is_read(
    serve: Any, settings: Any, headers: Any, status: int
) -> None:
    server = await serve(*settings)

    async def work(upload: Upload) -> None:
        raise AssertionError

    wire = await ask(server.house, work, **headers)
    assert wire.sent[0]["status"] == status
    assert "error" in json.loads(wire.body)


async def test_models_that_are_not_warm_yet(serve: Any) -> None:
    server = await serve(ready=False)

    async def work(upload: Upload) -> None:
        raise AssertionError

    wire = await ask(server.house, work)
    assert (wire.sent[0]["status"], wire.headers["retry-after"]) == (503, "5")


async def test_outcomes_are_counted(serve: Any) -> None:
    server = await serve()
    for error, outcome in (
        (WireError("invalid_value", "no"), "refused"),
        (EngineError("tts", "failed", "broken"), "failed"),
        (ClientDisconnect(), "gone"),
        (TimeoutError(), "gone"),
    ):

        async def work(upload: Upload, error: Exception = error) -> None:
            raise error

        counter = server.house.metrics.file_jobs.labels("tts", outcome)
        before = counter._value.get()
        await ask(server.house, work)
        assert counter._value.get() == before + 1


async def test_a_bug_is_loud_and_frees_its_job(serve: Any) -> None:
    server = await serve()

    async def work(upload: Upload) -> None:
        async with upload.begin():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ask(server.house, work)
    assert server.house.files.count == 0


async def test_those_who_send_slowly_keep_nobody_waiting(serve: Any, eventually: Any) -> None:
    server = await serve("files.max_jobs=1")
    never = asyncio.Event()
    body = {"type": "http.request", "body": b"a text", "more_body": False}

    async def work(upload: Upload) -> None:
        read = await read_body(upload.request, 100, 1)
        async with upload.begin() as job:
            await job.out.whole(read, "text/plain")

    async def send_slowly() -> Any:
        await never.wait()
        return body

    scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": []}
    endpoint, wires = Companion(server.house, "tts", work), [Wire() for _ in range(8)]
    slow = [asyncio.ensure_future(endpoint(scope, send_slowly, wire.send)) for wire in wires]
    await eventually(lambda: server.house.files._uploads.taken.total() == len(slow))
    wire = await ask(server.house, work, body=b"quick")
    assert wire.body == b"quick"
    never.set()
    await asyncio.gather(*slow)
    assert [wire.body for wire in wires] == [b"a text"] * len(slow)
