"""The plain HTTP door."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pipelines.strain import Strain
from voice.doors.rest import API, PAGE
from voice.server import make_app


@pytest.fixture
async def ask() -> AsyncIterator[Callable[..., Any]]:
    """``await ask(server, "/path")``"""
    async with httpx.AsyncClient(trust_env=False) as client:

        async def get(server: Any, path: str, **headers: str) -> httpx.Response:
            return await client.get(f"http://127.0.0.1:{server.port}{path}", headers=headers)

        yield get


async def test_the_house_is_alive_before_it_is_ready(serve: Any, ask: Any) -> None:
    server = await serve(ready=False)
    alive, ready = await ask(server, "/health"), await ask(server, "/ready")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (503, {"status": "loading"})
    assert int(ready.headers["Retry-After"]) > 0
    server.house.ready = True
    ready = await ask(server, "/ready")
    assert (ready.status_code, ready.json()["status"], ready.json()["calls"]) == (200, "ready", 0)


async def test_who_is_ready_tells_what_is_free(serve: Any, ask: Any) -> None:
    server = await serve(
        "admission.max_calls=4",
        "admission.asr=3",
        "admission.waiting=2",
        "admission.phone_share=0.5",
    )
    async with server.call():
        server.house.strain, server.house.voices = Strain.NO_PARTIALS, ("tara", "leo")
        told = (await ask(server, "/ready")).json()
        server.house.strain = Strain.NONE
    assert (told["calls"], told["waiting"], told["strain"]) == (1, 0, "no_partials")
    assert told["voices"] == ["tara", "leo"]
    assert told["slots"] == {
        "calls": {"total": 3, "leased": 1, "free": 2},
        "asr": {"total": 3, "leased": 1, "free": 2},
    }
    assert told["kept"] == {"phone": 1}


async def test_a_house_that_closes_is_not_ready_any_more(serve: Any, ask: Any) -> None:
    server = await serve()
    async with server.call():
        server.house.close()
        answer = await ask(server, "/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "closing", "calls": 1})
    server.house.closing = False


async def test_slots_and_refusals_are_metrics(serve: Any, ask: Any) -> None:
    server = await serve("admission.max_calls=1", "admission.tts=5", "tenants.acme.keys=secret")
    key = {"additional_headers": {"Authorization": "Bearer secret"}}
    async with server.call(**key):
        for _ in range(2):
            with pytest.raises(InvalidStatus):
                async with connect(server.url, proxy=None, **key):
                    pass
        lines = (await ask(server, "/metrics")).text.splitlines()
    for line in (
        'antiphon_slots{of="calls",state="total"} 1.0',
        'antiphon_slots{of="calls",state="leased"} 1.0',
        'antiphon_slots{of="calls",state="free"} 0.0',
        'antiphon_slots{of="tts",state="free"} 4.0',
        'antiphon_tenant_calls{tenant="acme"} 1.0',
        'antiphon_refusals_total{reason="server_full",tenant="acme"} 2.0',
        "antiphon_waiting 0.0",
    ):
        assert line in lines


async def test_metrics_count_what_has_happened(serve: Any, ask: Any) -> None:
    server = await serve()
    await server.assert_works()
    await server.is_empty()
    answer = await ask(server, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    assert 'antiphon_calls_opened_total{outcome="admitted"} 1.0' in lines
    assert 'antiphon_turns_total{outcome="heard"} 1.0' in lines
    assert 'antiphon_replies_total{outcome="completed"} 1.0' in lines
    assert 'antiphon_prepared_replies_total{outcome="released"} 1.0' in lines
    assert "antiphon_calls 0.0" in lines
    assert "antiphon_first_audio_seconds_count 1.0" in lines


async def test_the_page_and_its_files_are_there(serve: Any, ask: Any) -> None:
    server = await serve()
    page = await ask(server, "/")
    assert page.headers["Content-Type"].startswith("text/html")
    for path in PAGE.iterdir():
        if path.is_file() and path.suffix in (".js", ".css", ".html"):
            assert (await ask(server, f"/{path.name}")).content == path.read_bytes()


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/../pyproject.toml", "/%2e%2e/x"])
async def test_nothing_else_is_there(serve: Any, ask: Any, path: str) -> None:
    server = await serve()
    assert (await ask(server, path)).status_code == 404


async def test_what_no_engine_can_is_told(serve: Any) -> None:
    server = await serve()
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"http://127.0.0.1:{server.port}/v1/audio/translations")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "translations_unavailable"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/nothing"),
        ("GET", "/v1/audio/speech"),
        ("DELETE", "/v1/models"),
    ],
)
async def test_who_asks_for_more_of_the_api_is_told_what_there_is(
    serve: Any, method: str, path: str
) -> None:
    server = await serve()
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.request(method, f"http://127.0.0.1:{server.port}{path}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (
        404, "unknown_url", "invalid_request_error"
    )  # fmt: skip
    assert error["message"].startswith(f"There is no {method} {path} here. There are: ")


async def test_a_call_at_the_wrong_address_is_told_the_right_one(serve: Any) -> None:
    server = await serve()
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{server.port}/v1/realtme", proxy=None)
    assert refused.value.response.status_code == 404
    assert b"WebSocket /v1/realtime" in refused.value.response.body


async def test_all_of_the_api_is_named(serve: Any) -> None:
    server = await serve()
    paths = {getattr(route, "path", "") for route in make_app(server.house).routes}
    there = {path for path in paths if path.startswith("/v1/") and "{" not in path}
    assert {path for path in there if path not in API} == {"/v1/audio/translations"}


@pytest.mark.parametrize("path", ["/v1/realtime", "/phone", "/phone/twilio", "/phone/any/key"])
async def test_a_door_for_websockets_refuses_plain_requests(
    serve: Any, ask: Any, path: str
) -> None:
    server = await serve()
    answer = await ask(server, path)
    assert (answer.status_code, answer.headers["Upgrade"]) == (426, "websocket")
    assert "WebSocket" in answer.json()["error"]["message"]
