"""Keys for pages over HTTP, by the stock openai package and by hand."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, BadRequestError, RateLimitError
from openai.types import realtime as sdk
from pydantic import TypeAdapter
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.voice.doors.stock import stock_call

KEYS = ("server.api_keys=ours", "tenants.acme.keys=theirs,second")
MADE: TypeAdapter[Any] = TypeAdapter(sdk.ClientSecretCreateResponse)


def client_of(server: Any, key: str = "theirs") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=f"http://127.0.0.1:{server.port}/v1", max_retries=0)


async def post(server: Any, body: Any, **headers: str) -> httpx.Response:
    url = f"http://127.0.0.1:{server.port}/v1/realtime/client_secrets"
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    headers = {"Authorization": "Bearer theirs", **headers}
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(url, content=content, headers=headers)


async def test_a_page_gets_a_key_that_begins_with_its_session(serve: Any) -> None:
    server = await serve(*KEYS)
    wanted = {"type": "realtime", "model": "gpt-x", "instructions": "Be a pirate.",
              "audio": {"output": {"voice": "anna"}}}  # fmt: skip
    async with client_of(server) as client:
        made = await client.realtime.client_secrets.create(
            session=wanted, expires_after={"anchor": "created_at", "seconds": 10}
        )
    assert isinstance(made.session, sdk.RealtimeSessionCreateResponse)
    assert (made.session.instructions, made.session.model) == ("Be a pirate.", "gpt-x")
    async with stock_call(server, made.value) as connection:
        created = await connection.recv()
    assert created.session.instructions == "Be a pirate."
    assert created.session.audio.output.voice == "anna"
    assert created.session.id != made.session.id
    protocols = ["realtime", f"openai-insecure-api-key.{made.value}"]
    async with server.call(subprotocols=protocols) as page:
        assert page.socket.subprotocol == "realtime"
        assert server.house.reception.admission().used("acme") >= 1
        await page.say("Hello.")
        await page.send("response.create")
        assert (await page.until("response.done"))["response"]["status"] == "completed"
    assert server.llm.requests[-1].messages[0].content == "Be a pirate."


async def test_the_answer_is_openais_and_is_not_cached(serve: Any) -> None:
    server = await serve(*KEYS)
    answer = await post(server, {})
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    made = MADE.validate_python(answer.json())
    assert made.value.startswith("ek_")
    answer = await post(server, {"session": {"type": "transcription"}})
    made = MADE.validate_python(answer.json())
    assert isinstance(made.session, sdk.RealtimeTranscriptionSessionCreateResponse)
    query = f"ws://127.0.0.1:{server.port}/v1/realtime"
    headers = {"Authorization": f"Bearer {made.value}"}
    async with connect(query, proxy=None, additional_headers=headers) as socket:
        assert json.loads(await socket.recv())["session"]["type"] == "transcription"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"expires_after": {"anchor": "created_at", "seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"seconds": 7_201}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "whenever"}}, "expires_after.anchor"),
        ({"session": {"audio": {"output": {"speed": 9}}}}, "session.audio.output.speed"),
        ({"session": []}, "session"),
        ("{", None),
        (b"\xff", None),
        ("[" * 5_000, None),
    ],
)
async def test_what_makes_no_key_is_told(serve: Any, body: Any, param: str | None) -> None:
    server = await serve(*KEYS)
    answer = await post(server, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (
        400, "invalid_request_error", param)  # fmt: skip
    assert error["message"]


async def test_only_a_tenants_own_key_makes_others(serve: Any) -> None:
    server = await serve(*KEYS)
    async with client_of(server) as client:
        made = await client.realtime.client_secrets.create()
    for key in (made.value, "wrong"):
        async with client_of(server, key) as client:
            with pytest.raises(AuthenticationError) as refused:
                await client.realtime.client_secrets.create()
            assert key not in str(refused.value)
            with pytest.raises(AuthenticationError):
                await client.models.list()
    async with client_of(server) as client:
        with pytest.raises(BadRequestError, match="seconds"):
            await client.realtime.client_secrets.create(expires_after={"seconds": 1})


async def test_a_key_that_has_expired_opens_nothing(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(*KEYS)
    made = (await post(server, {"expires_after": {"seconds": 10}})).json()
    monkeypatch.setattr("voice.doors.handshake.time.time", lambda: made["expires_at"] + 0.0)
    with pytest.raises(InvalidStatus, match="401"):
        async with server.call(additional_headers={"Authorization": f"Bearer {made['value']}"}):
            pass


async def test_pages_from_elsewhere_and_large_bodies_are_refused(serve: Any) -> None:
    server = await serve(*KEYS)
    answer = await post(server, {}, Origin="https://evil.example")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    answer = await post(server, " " * (1024 * 1024 + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_a_client_that_goes_amid_its_request_is_no_bug(
    serve: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(*KEYS)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer theirs"
    writer.write(f"{head}\r\nContent-Length: 99\r\n\r\n{{".encode())
    await eventually(lambda: len(server.connections) == 1)
    writer.write_eof()
    async with asyncio.timeout(10):
        await reader.read()
    writer.close()
    await eventually(lambda: not server.connections)
    assert "Exception" not in caplog.text


async def test_keys_and_their_pages_count_against_the_key_that_made_them(serve: Any) -> None:
    server = await serve(
        *KEYS, "tenants.acme.requests_per_minute=2", "tenants.acme.sessions_per_minute=1"
    )
    made = (await post(server, {})).json()
    await post(server, {})
    async with client_of(server) as client:
        with pytest.raises(RateLimitError) as refused:
            await client.realtime.client_secrets.create()
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 30
    async with client_of(server, "second") as client:  # its tenant's other key has its own
        await client.realtime.client_secrets.create()
    page = {"additional_headers": {"Authorization": f"Bearer {made['value']}"}}
    async with server.call(**page):
        pass
    with pytest.raises(InvalidStatus) as full:
        async with server.call(**page):
            pass
    response = full.value.response
    assert (response.status_code, json.loads(response.body)["error"]["code"]) == (
        429, "rate_limit_exceeded")  # fmt: skip
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    async with server.call(additional_headers={"Authorization": "Bearer second"}):
        pass
    async with server.call(additional_headers={"Authorization": "Bearer ours"}):
        pass
