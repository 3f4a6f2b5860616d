"""Clients that join a phone call: what they see, what they may do, and that it is not theirs."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types import realtime as sdk
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from clients.phone import PhoneCall, Twilio, dial
from engines.ports import ToolCallDelta
from engines.scripted import SENTENCES, LlmOptions, ScriptedLlm, tokens_of
from tests.voice.conftest import Client, eventually

CALL = "CA00000000000000000000000000000001"
TEXT = "".join(SENTENCES)
SILENT = "phone.greeting="


@asynccontextmanager
async def telephone(server: Any, query: str = "") -> AsyncIterator[PhoneCall]:
    """Somebody calls, whom clients may join."""
    async with dial(f"ws://127.0.0.1:{server.port}/phone{query}", Twilio()) as phone:
        await eventually(lambda: bool(server.house.phone_calls))
        yield phone


@asynccontextmanager
async def joined(server: Any, **options: Any) -> AsyncIterator[Client]:
    server.query = f"call_id={CALL}"
    async with server.call(**options) as client:
        yield client


async def status_of(server: Any, query: str, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(
            f"ws://127.0.0.1:{server.port}/v1/realtime?{query}", proxy=None, **options
        ):
            pass
    body = json.loads(refused.value.response.body or b"{}")
    return refused.value.response.status_code, body["error"]["code"]


async def test_keys_and_all_that_follows_are_seen_and_no_audio(serve: Any) -> None:
    server = await serve(SILENT)
    async with telephone(server) as phone, joined(server) as client:
        phone.press("4#")
        done = await client.until("response.done")
        await phone.wait_heard_s(1.0)
    keys = client.all("input_audio_buffer.dtmf_event_received")
    assert [key["event"] for key in keys] == ["4", "#"]
    assert all(abs(key["received_at"] - time.time()) < 60 for key in keys)
    sdk.InputAudioBufferDtmfEventReceivedEvent.model_validate(keys[0])
    typed = client.all("conversation.item.added")[0]["item"]
    assert typed["content"] == [{"type": "input_text", "text": "[keypad: 4 #]"}]
    said = client.all("response.output_audio_transcript.done")[0]["transcript"]
    assert (said, done["response"]["status"]) == (TEXT, "completed")
    assert client.all("response.output_audio.delta") == []


async def test_a_client_changes_the_session_and_answers_tools_and_the_caller_hears_it(
    serve: Any,
) -> None:
    asks = (ToolCallDelta(0, "call_1", "weather", "{}"),)
    llm = ScriptedLlm(LlmOptions(script=asks, tool_script=tokens_of("Sunny.")))
    server = await serve(SILENT, "turns.filler_ms=30000", llm=llm)
    weather = {"type": "function", "name": "weather", "parameters": {}}
    async with telephone(server) as phone, joined(server) as client, joined(server) as other:
        session = await client.update(instructions="Be the weatherman.", tools=[weather])
        assert session["instructions"] == "Be the weatherman."
        assert (await other.until("session.updated"))["session"] == session
        phone.press("1#")
        called = await client.until("response.function_call_arguments.done")
        assert called["name"] == "weather"
        await client.until("response.done")
        output = {"type": "function_call_output", "call_id": "call_1", "output": "sun"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        await phone.wait_heard_s(0.05)
        done = await client.until("response.done")
    assert done["response"]["status"] == "completed"
    asked = server.llm.requests[-1]
    assert asked.messages[0].content == "Be the weatherman."
    assert [tool.name for tool in asked.tools] == ["weather"]


async def test_a_client_that_joins_later_finds_the_session_as_it_is(serve: Any) -> None:
    server = await serve(SILENT)
    async with telephone(server):
        async with joined(server) as client:
            await client.update(instructions="Be brief.")
        async with joined(server) as client:
            session = await client.update()
    assert session["instructions"] == "Be brief."


async def test_the_caller_s_audio_comes_by_phone_alone(serve: Any) -> None:
    server = await serve(SILENT)
    async with telephone(server), joined(server) as client:
        error = await client.refusal("input_audio_buffer.append", audio="AAAA")
        assert error["message"] == "The caller of this call speaks by phone."
        form = {"type": "audio/pcmu"}
        await client.update(audio={"input": {"format": form}})  # says nothing of the telephone
        assert (await client.say("Hello."))["role"] == "user"


async def test_the_call_goes_on_without_them_and_ends_with_its_caller(serve: Any) -> None:
    server = await serve(SILENT)
    async with telephone(server) as phone:
        async with joined(server):
            pass
        await eventually(lambda: not any(c.company.guests for c in _calls(server)))
        assert server.house.calls == 1
        async with joined(server) as client:
            await phone.hang_up()
            assert await client.close_code() == 1000
    assert server.house.phone_calls == {}


def _calls(server: Any) -> set[Any]:
    return set(server.house.phone_calls.values())


async def test_our_own_name_for_the_call_will_do_too_and_it_takes_no_place(serve: Any) -> None:
    server = await serve(SILENT, "admission.max_calls=1")
    async with telephone(server):
        [call] = server.house.open_calls
        server.query = f"call_id={call.id}"
        async with server.call() as client:
            await client.update()
            assert server.house.calls == 1


async def test_who_may_not_join_is_told_why(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice.doors.realtime_sideband.MOST_GUESTS", 1)
    server = await serve(SILENT, "server.api_keys=k", "tenants.other.keys=o")
    ours = {"Authorization": "Bearer k"}
    async with telephone(server, "?key=k"):
        query = f"call_id={CALL}"
        assert await status_of(server, query) == (401, "invalid_api_key")
        stranger = {"Authorization": "Bearer o"}
        assert await status_of(server, query, additional_headers=stranger) == (
            404,
            "call_id_not_found",
        )
        assert (await status_of(server, "call_id=nobody", additional_headers=ours))[0] == 404
        async with joined(server, additional_headers=ours):
            assert await status_of(server, query, additional_headers=ours) == (
                429,
                "too_many_clients",
            )


async def test_a_page_s_own_key_joins_nothing(serve: Any) -> None:
    server = await serve(SILENT, "server.api_keys=k")
    url = f"http://127.0.0.1:{server.port}/v1"
    async with AsyncOpenAI(api_key="k", base_url=url) as client:
        made = await client.realtime.client_secrets.create(session={"type": "realtime"})
    async with telephone(server, "?key=k"):
        page = {"Authorization": f"Bearer {made.value}"}
        assert await status_of(server, f"call_id={CALL}", additional_headers=page) == (
            403,
            "invalid_api_key",
        )


async def test_a_client_that_does_not_read_is_dropped_and_the_call_goes_on(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(SILENT)
    async with telephone(server) as phone, joined(server) as client:
        monkeypatch.setattr("voice.doors.outbox.MOST_BYTES", 100)
        [call] = _calls(server)
        connection = next(each for each in server.connections if each.scope["path"] != "/phone")
        connection.pause_writing()
        call.company.turn_opened("item_1", 0)
        call.company.turn_opened("item_2", 0)
        assert await client.close_code() == 1006
        phone.press("1#")
        await phone.wait_heard_s(0.2)


async def test_a_bug_in_what_a_client_asks_ends_its_connection_alone(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(SILENT)
    async with telephone(server) as phone, joined(server) as client:
        with monkeypatch.context() as broken:
            broken.setattr("pipelines.conversation.dialogue.Dialogue.get", lambda *_: 1 / 0)
            await client.send("conversation.item.retrieve", item_id="x")
            assert await client.close_code() == 1011
        phone.press("1#")
        await phone.wait_heard_s(0.2)
    assert "met a bug" in caplog.text


async def test_a_bug_while_a_client_is_served_ends_its_connection_alone(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(SILENT)
    async with telephone(server):
        monkeypatch.setattr("voice.doors.realtime_sideband.connected", lambda *_: 1 / 0)
        async with joined(server) as client:
            assert await client.close_code() == 1011
        assert server.house.calls == 1


async def test_the_stock_client_joins_by_call_id(serve: Any) -> None:
    server = await serve(SILENT)
    async with telephone(server) as phone:
        client = AsyncOpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.port}/v1")
        options: Any = {"proxy": None}
        async with (
            client,
            client.realtime.connect(
                call_id=CALL, websocket_connection_options=options
            ) as connection,
        ):
            phone.press("7")
            async with asyncio.timeout(10):
                async for event in connection:
                    if event.type == "input_audio_buffer.dtmf_event_received":
                        break
        assert event.event == "7"
