"""The HTTP chat engine against a server that says whatever a test wants, byte by byte."""

import asyncio
import gzip
import json
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engines.llm import openai as plugin
from engines.llm.openai import Options
from engines.ports import ChatRequest, EngineError, Message, TextDelta, Usage

QUESTION = ChatRequest((Message("user", "hello"),))
KEY = "sk-very-secret-0123456789"
FOREVER, CLOSE = None, ...


def chunk(text=None, finish=None, **more):
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


ANSWER = (
    chunk("Hi")
    + chunk(" caf\u00e9.", "stop")
    + b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'
    + b"data: [DONE]\n\n"
)
DELTAS = [TextDelta("Hi"), TextDelta(" caf\u00e9."), Usage(3, 2, 0, "stop")]


def head(status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/event-stream", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def whole(body, status="200 OK", *headers):
    """A complete response, after which the connection may be used again."""
    return head(status, f"Content-Length: {len(body)}", *headers) + body


@pytest.fixture
def asking(serve_http):
    """A server that answers the n-th request with the n-th script, the last one over and over,
    and the engine that asks it. A script is bytes, or a list of steps."""

    @asynccontextmanager
    async def asking(*scripts, **options):
        left = [script if isinstance(script, list) else [script] for script in scripts]

        def answer(*_):
            return left.pop(0) if len(left) > 1 else left[0]

        async with serve_http(answer) as server:
            settings = {"base_url": f"{server.url}/v1", "model": "m", "retries": 0} | options
            engine = plugin.create(Options(**settings), models=None)
            try:
                yield server, engine
            finally:
                await engine.close()

    return asking


async def deltas_of(engine, request=QUESTION):
    async with engine.open(request) as deltas:
        return [delta async for delta in deltas]


async def error_of(engine, request=QUESTION):
    with pytest.raises(EngineError) as caught:
        await deltas_of(engine, request)
    return caught.value


async def test_an_answer_is_streamed(asking):
    async with asking(whole(ANSWER), api_key=KEY) as (endpoint, engine):
        assert await deltas_of(engine) == DELTAS
    line, headers, sent = endpoint.requests[0]
    body = json.loads(sent)
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert headers["authorization"] == f"bearer {KEY}"
    assert body["stream"] is True
    assert body["messages"] == [{"role": "user", "content": "hello"}]


async def test_the_options_are_what_the_request_leaves_open(asking):
    options = {"max_tokens": 7, "temperature": 0.5, "extra_body": {"top_k": 3}}
    async with asking(whole(ANSWER), **options) as (endpoint, engine):
        await deltas_of(engine)
        await deltas_of(engine, ChatRequest((), max_tokens=1, temperature=0.0))
    bodies = [json.loads(body) for _, _, body in endpoint.requests]
    assert [(b["max_tokens"], b["temperature"], b["top_k"]) for b in bodies] == [
        (7, 0.5, 3),
        (1, 0.0, 3),
    ]


async def test_an_answer_that_was_packed_unasked_is_not_unpacked(asking):
    bomb = gzip.compress(ANSWER + b"\n" * 1_000_000)
    async with asking(whole(bomb, "200 OK", "Content-Encoding: gzip")) as (endpoint, engine):
        assert (await error_of(engine)).code == "bad_response"
    assert endpoint.requests[0][1]["accept-encoding"] == "identity"


async def test_without_a_key_none_is_sent(asking):
    async with asking(whole(ANSWER)) as (endpoint, engine):
        await deltas_of(engine)
    assert "authorization" not in endpoint.requests[0][1]


async def test_the_first_delta_comes_while_the_rest_is_still_unwritten(asking):
    rest = asyncio.Event()
    script = [head(), chunk("First."), rest, ANSWER, CLOSE]
    async with asking(script) as (_, engine), engine.open(QUESTION) as deltas:
        assert await anext(deltas) == TextDelta("First.")
        rest.set()
        assert [delta async for delta in deltas] == DELTAS


async def test_bytes_may_be_cut_anywhere(asking):
    chunked = [b"1\r\n" + bytes([byte]) + b"\r\n" for byte in ANSWER.replace(b"\n", b"\r\n")]
    script = [head("200 OK", "Transfer-Encoding: chunked"), *chunked, b"0\r\n\r\n"]
    async with asking(script) as (_, engine):
        assert await deltas_of(engine) == DELTAS


async def test_the_next_request_uses_the_same_connection(asking):
    script = [
        head("200 OK", "Transfer-Encoding: chunked"),
        f"{len(ANSWER):x}\r\n".encode() + ANSWER + b"\r\n",
        b"0\r\n\r\n",
    ]
    async with asking(script) as (endpoint, engine):
        for _ in range(3):
            assert await deltas_of(engine) == DELTAS
    assert (len(endpoint.requests), endpoint.connections) == (3, 1)


async def test_leaving_the_context_closes_the_connection(asking):
    async with asking([head(), chunk("Once upon"), FOREVER]) as (endpoint, engine):
        async with engine.open(QUESTION) as deltas:
            assert await anext(deltas) == TextDelta("Once upon")
        async with asyncio.timeout(5):
            await endpoint.gone.wait()


@pytest.mark.parametrize("script", [[FOREVER], [head(), FOREVER], [head(), chunk("A"), FOREVER]])
async def test_cancelling_the_reader_closes_the_connection(asking, script):
    async with asking(script) as (endpoint, engine):
        reader = asyncio.create_task(deltas_of(engine))
        async with asyncio.timeout(5):
            await endpoint.asked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        async with asyncio.timeout(5):
            await endpoint.gone.wait()


async def test_an_endpoint_that_is_down_is_unavailable_and_named():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    url = f"http://user:hunter2@127.0.0.1:{port}/v1"
    engine = plugin.create(Options(base_url=url, model="m", retries=1), models=None)
    error = await error_of(engine)
    await engine.close()
    assert error.code == "unavailable"
    assert f"http://127.0.0.1:{port}/v1" in error.message
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("301 Moved", "bad_response"),
        ("400 Bad Request", "bad_request"),
        ("401 Unauthorized", "unauthorized"),
        ("403 Forbidden", "unauthorized"),
        ("404 Not Found", "bad_request"),
        ("422 Unprocessable", "bad_request"),
        ("429 Too Many Requests", "rate_limited"),
        ("500 Internal Server Error", "unavailable"),
        ("503 Service Unavailable", "unavailable"),
    ],
)
async def test_a_refusal_has_a_code_and_says_why(asking, status, code):
    body = json.dumps({"error": {"message": f"because of {KEY}"}}).encode()
    async with asking(whole(body, status), api_key=KEY) as (_, engine):
        error = await error_of(engine)
    assert error.code == code
    assert status[:3] in error.message
    assert "because of [api key]" in error.message


async def test_a_refusal_is_read_only_so_far(asking):
    script = [head("400 Bad Request"), b"x" * 200_000, FOREVER]
    async with asking(script) as (endpoint, engine):
        assert (await error_of(engine)).code == "bad_request"
        async with asyncio.timeout(5):
            await endpoint.gone.wait()


async def test_a_refusal_that_breaks_off_is_still_a_refusal(asking):
    script = [head("401 Unauthorized", "Content-Length: 100"), b"no", CLOSE]
    async with asking(script) as (_, engine):
        assert (await error_of(engine)).code == "unauthorized"


@pytest.mark.parametrize(
    "failing",
    [
        [CLOSE],
        whole(b"", "429 Too Many Requests"),
        whole(b"", "503 Service Unavailable", "Retry-After: 0"),
        whole(b"", "503 Service Unavailable", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"),
        whole(b"", "503 Service Unavailable", "Retry-After: Wed, 21 Oct 2015 07:28:00 -0000"),
        whole(b"", "503 Service Unavailable", "Retry-After: \u00b2"),
        whole(b"", "503 Service Unavailable", "Retry-After: soon"),
    ],
)
async def test_what_fails_before_its_first_byte_is_tried_again(asking, failing):
    async with asking(failing, whole(ANSWER), retries=1) as (endpoint, engine):
        assert await deltas_of(engine) == DELTAS
    assert len(endpoint.requests) == 2


async def test_the_attempts_are_bounded(asking):
    failing = whole(b"", "503 Service Unavailable", "Retry-After: 0")
    async with asking(failing, retries=2) as (endpoint, engine):
        assert (await error_of(engine)).code == "unavailable"
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "retry_after", ["60", format_datetime(datetime.now(UTC) + timedelta(hours=1))]
)
async def test_a_long_retry_after_fails_at_once(asking, retry_after):
    failing = whole(b"", "429 Too Many Requests", f"Retry-After: {retry_after}")
    async with asking(failing, retries=2) as (endpoint, engine):
        assert (await error_of(engine)).code == "rate_limited"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", ["401 Unauthorized", "500 Internal Server Error"])
async def test_other_refusals_are_not_tried_again(asking, status):
    async with asking(whole(b"", status), retries=2) as (endpoint, engine):
        await error_of(engine)
    assert len(endpoint.requests) == 1


async def test_an_answer_that_has_begun_is_not_tried_again(asking):
    async with asking([head(), chunk("Half"), CLOSE], retries=2) as (endpoint, engine):
        assert (await error_of(engine)).code == "bad_response"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (b"\x00\x01 not HTTP at all\r\n\r\n", "bad_response"),
        (whole(b"<html>hello</html>"), "bad_response"),
        (whole(b"data: {broken\n\n"), "bad_response"),
        (whole(b"not gzip", "200 OK", "Content-Encoding: gzip"), "bad_response"),
        ([CLOSE], "unavailable"),
        ([head("200 OK", "Content-Length: 999"), chunk("Half"), CLOSE], "unavailable"),
        (whole(b""), "empty"),
        (whole(b"data: [DONE]\n\n"), "empty"),
        (whole(chunk(finish="content_filter")), "empty"),
        (whole(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'), "unavailable"),
    ],
)
async def test_what_is_no_answer_is_an_error(asking, script, code):
    async with asking(script) as (_, engine):
        error = await error_of(engine)
    assert error.code == code


@pytest.mark.parametrize(
    "script",
    [[FOREVER], [head(), FOREVER], [head(), b": ping\n\n", FOREVER], [head(), chunk("A"), FOREVER]],
)
async def test_a_slow_endpoint_times_out(asking, script):
    times = {"first_token_timeout_s": 0.1, "idle_timeout_s": 0.1}
    async with asking(script, **times) as (endpoint, engine):
        error = await error_of(engine)
        async with asyncio.timeout(5):
            await endpoint.gone.wait()
    assert error.code == "timeout"
    assert "0.1 s" in error.message


async def test_after_a_failure_the_next_request_works(asking):
    async with asking([head(), b"data: {broken\n\n", FOREVER], whole(ANSWER)) as (_, engine):
        await error_of(engine)
        assert await deltas_of(engine) == DELTAS


async def test_warming_the_cache_asks_nothing(asking):
    async with asking(whole(ANSWER)) as (endpoint, engine):
        usage = [Usage(finish_reason="skipped")]
        assert await deltas_of(engine, ChatRequest((), max_tokens=0)) == usage
    assert endpoint.requests == []


async def test_warm_up_takes_the_only_model(asking):
    listed = whole(b'{"data": [{"id": "llama"}]}')
    async with asking(listed, whole(ANSWER), model="") as (endpoint, engine):
        await engine.warm_up()
        await deltas_of(engine)
    assert endpoint.requests[0][0] == "GET /v1/models HTTP/1.1"
    assert json.loads(endpoint.requests[1][2])["model"] == "llama"


@pytest.mark.parametrize(
    "listed", [whole(b"", "404 Not Found"), whole(b"{}"), whole(b"[1]"), whole(b"<p>")]
)
async def test_an_endpoint_that_lists_no_models_is_taken_on_trust(asking, listed):
    async with asking(listed, whole(ANSWER)) as (_, engine):
        await engine.warm_up()
        assert await deltas_of(engine) == DELTAS


async def test_warm_up_refuses_to_guess_a_model(asking):
    async with asking(whole(b"", "404 Not Found"), model="") as (_, engine):
        with pytest.raises(EngineError, match=r"set \[llm\] model"):
            await engine.warm_up()
        assert (await error_of(engine)).code == "bad_request"


async def test_warm_up_warns_of_a_model_that_is_not_listed(asking, caplog):
    async with asking(whole(b'{"data": [{"id": "llama"}]}')) as (_, engine):
        await engine.warm_up()
    assert "does not list the model m, only: llama" in caplog.text


@pytest.mark.parametrize(
    ("script", "code"), [(whole(b"", "401 Unauthorized"), "unauthorized"), ([FOREVER], "timeout")]
)
async def test_warm_up_fails_with_the_reason(asking, script, code):
    async with asking(script, first_token_timeout_s=0.1) as (_, engine):
        with pytest.raises(EngineError) as caught:
            await engine.warm_up()
    assert caught.value.code == code


@pytest.mark.parametrize(
    "url", ["localhost:8000", "", "ftp://host/v1", "http://", "http://host:port"]
)
def test_a_base_url_that_is_none_is_refused(url):
    with pytest.raises(EngineError, match="base_url"):
        plugin.create(Options(base_url=url), models=None)


async def test_the_key_is_in_no_log_no_error_and_no_repr(asking, caplog):
    caplog.set_level(logging.DEBUG)
    refused = whole(KEY.encode(), "401 Unauthorized")
    broken = whole(b'data: {"error": "' + KEY.encode() + b'"}\n\n')
    async with asking(whole(ANSWER), refused, broken, api_key=KEY) as (_, engine):
        await deltas_of(engine)
        errors = [await error_of(engine), await error_of(engine)]
        shown = [caplog.text, *map(str, errors), *map(repr, errors), repr(engine)]
        shown.append(repr(Options(api_key=KEY)))
    assert not any(KEY in text for text in shown)
