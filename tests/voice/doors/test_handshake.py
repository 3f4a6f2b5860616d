"""Who asks for a call, judged before there is a WebSocket; and who is turned away at once."""

import asyncio
import json
import time
from typing import Any

import pytest
from starlette.datastructures import Headers

from pipelines.strain import Strain
from voice.admission import Caller
from voice.config import load
from voice.doors.handshake import (
    asks_for_recording,
    judge,
    judge_request,
    reads_only_events,
    turn_away,
)
from voice.doors.refusals import Answer
from voice.house import House
from voice.wire.realtime_session import RealtimeSession


def house(*settings: str, ready: bool = True) -> House:
    nothing: Any = type("Nothing", (), {"tts": None})()
    return House(load(settings=settings), nothing, ready=ready)


def handshake(
    *headers: tuple[str, str], query: str = "", path: str = "/v1/realtime"
) -> dict[str, Any]:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": "http", "path": path, "query_string": query.encode(), "headers": raw}


def code_of(judged: object) -> str:
    assert isinstance(judged, Answer)
    return judged.code


KEYS = ("server.api_keys=ours", "tenants.acme.keys=theirs")


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ([("authorization", "Bearer ours")], "default"),
        ([("authorization", "Bearer theirs")], "acme"),
        ([("sec-websocket-protocol", "realtime, openai-insecure-api-key.theirs")], "acme"),
        (
            [
                ("sec-websocket-protocol", "realtime"),
                ("sec-websocket-protocol", "openai-insecure-api-key.ours"),
            ],
            "default",
        ),
    ],
)
def test_a_caller_is_known_by_the_key(headers: list[tuple[str, str]], tenant: str) -> None:
    assert judge(house(*KEYS), handshake(*headers)) == Caller(tenant)


def test_who_may_have_no_call_is_told_why_and_counted() -> None:
    home = house(*KEYS)
    foreign = handshake(("origin", "https://evil.example"), ("host", "voice.example"))
    key = ("authorization", "Bearer theirs")
    assert code_of(judge(home, foreign)) == "origin_not_allowed"
    assert code_of(judge(home, handshake())) == "invalid_api_key"
    assert code_of(judge(home, handshake(key, query="record=1"))) == "cannot_record"
    home.ready = False
    assert code_of(judge(home, handshake(key))) == "not_ready"
    counted = home.metrics.registry.get_sample_value
    assert counted("antiphon_calls_opened_total", {"outcome": "refused"}) == 4
    for reason, tenant in (
        ("origin_not_allowed", ""), ("invalid_api_key", ""), ("cannot_record", "acme"),
        ("not_ready", "acme"),
    ):  # fmt: skip
        labels = {"reason": reason, "tenant": tenant}
        assert counted("antiphon_refusals_total", labels) == 1


def test_a_missing_a_wrong_and_a_page_s_key_are_told_apart() -> None:
    home = house(*KEYS)
    page_s, _ = home.client_secrets.issue("acme", "1", RealtimeSession(id="s"), 60, time.time())
    told = {}
    for key in ("", "wrong", page_s):
        judged = judge_request(home, Headers({"authorization": f"Bearer {key}"} if key else {}))
        assert isinstance(judged, Answer)
        assert (judged.status, judged.code) == (401, "invalid_api_key")
        told[key] = judged.message
    assert told[""] == "You didn't provide an API key: send Authorization: Bearer KEY."
    assert told["wrong"] == "Incorrect API key provided."
    assert "opens calls at /v1/realtime only" in told[page_s]
    assert page_s not in told[page_s]
    assert isinstance(judge(home, handshake(("authorization", f"Bearer {page_s}"))), Caller)


async def test_what_needs_no_waiting_is_answered_in_full() -> None:
    home = house()
    home.strain = Strain.NO_CALLS
    answer = turn_away(home, handshake())
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"http/1.1 503 service unavailable"
    assert b"retry-after: 5" in lines
    assert b"connection: close" in lines
    assert f"content-length: {len(body)}".encode() in lines
    assert json.loads(body)["error"]["code"] == "overloaded"
    assert turn_away(house(*KEYS), handshake()) is not None


@pytest.mark.parametrize(
    "scope", [handshake(query="busy=event"), handshake(path="/v1/other"), handshake(path="/")]
)
async def test_others_get_their_answer_later(scope: dict[str, Any]) -> None:
    home = house()
    home.strain = Strain.NO_CALLS
    assert turn_away(home, scope) is None
    counted = home.metrics.registry.get_sample_value
    assert counted("antiphon_calls_opened_total", {"outcome": "refused"}) is None


async def test_who_is_let_in_or_may_wait_is_not_turned_away() -> None:
    assert turn_away(house(), handshake()) is None
    assert turn_away(house("admission.tts=1", "admission.waiting=1"), handshake()) is None


def test_an_address_says_what_its_caller_wants() -> None:
    assert asks_for_recording(handshake(query="model=x&record=1"))
    assert not asks_for_recording(handshake(query="record=0"))
    assert reads_only_events(handshake(query="busy=event"))
    assert not reads_only_events(handshake(query="busy=tone"))


async def test_a_refusal_is_written_down_once_for_each_tenant_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="voice.doors.handshake")
    home = house(*KEYS, "tenants.acme.max_calls=1", "admission.waiting=0")
    theirs = handshake(("authorization", "Bearer theirs"))
    gone = asyncio.Event()
    async with home.reception.admit(Caller("acme"), Line(), gone.wait):
        for _ in range(3):
            assert turn_away(home, theirs)
    assert turn_away(home, handshake(("authorization", "Bearer wrong")))
    first, second = caplog.messages
    assert first.startswith(
        "a call of acme was refused: tenant_full: All the calls are taken that this key may have"
    )
    assert second == "a call was refused: invalid_api_key: Incorrect API key provided."


class Line:
    """A connection that is there."""

    heard_at = 0.0

    def abort(self) -> None: ...
