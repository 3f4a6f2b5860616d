"""The Realtime door itself: who gets in, and how a call ends, however its client behaves."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from prometheus_client import generate_latest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from engines.scripted import (
    AsrOptions,
    LlmOptions,
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
)
from loadtest.caller import append_frame
from pipelines.strain import Strain
from voice.socket import CallSocket

KEYS = "server.api_keys=key1,key2"


async def refusal(server: Any, **options: Any) -> tuple[int, dict[str, Any], Any]:
    """The HTTP answer to a handshake that fails: status, the error, the headers."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url, proxy=None, **options):
            pass
    response = caught.value.response
    return response.status_code, json.loads(response.body)["error"], response.headers


# --- who gets in ----------------------------------------------------------------------------


async def test_a_call_begins_with_its_session(serve: Any) -> None:
    server = await serve()
    async with connect(server.url, proxy=None) as client:
        created, conversation = [json.loads(await client.recv()) for _ in range(2)]
        assert server.house.calls == 1
    assert created["type"] == "session.created"
    session = created["session"]
    assert session["model"] == "gpt-realtime"
    assert (session["type"], session["object"]) == ("realtime", "realtime.session")
    assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True
    assert session["instructions"] == server.house.config.agent.instructions
    assert conversation["type"] == "conversation.created"


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        (None, None),
        (["realtime"], "realtime"),
        (["realtime", "openai-insecure-api-key.key1"], "realtime"),
        (["openai-insecure-api-key.key1", "realtime"], "realtime"),
        (["something-else"], None),
    ],
)
async def test_realtime_is_spoken_only_where_it_was_offered(
    serve: Any, offered: list[Any] | None, selected: str | None
) -> None:
    server = await serve()
    async with server.call(subprotocols=offered) as client:
        assert client.socket.subprotocol == selected


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": {"Authorization": "Bearer key2"}},
        {"additional_headers": {"authorization": "bearer  key1 "}},
        {"subprotocols": ["realtime", "openai-insecure-api-key.key1"]},
    ],
)
async def test_who_has_a_key_gets_in(serve: Any, options: dict[str, Any]) -> None:
    server = await serve(KEYS)
    async with server.call(**options):
        assert server.house.calls == 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"additional_headers": {"Authorization": "Bearer wrong"}},
        {"additional_headers": {"Authorization": "Basic key1"}},
        {"additional_headers": {"Authorization": "key1"}},
        {"subprotocols": ["realtime", "openai-insecure-api-key.wrong"]},
    ],
)
async def test_who_has_no_key_stays_out(serve: Any, options: dict[str, Any]) -> None:
    server = await serve(KEYS)
    status, error, _ = await refusal(server, **options)
    assert (status, error["code"], error["type"]) == (401, "invalid_api_key",
                                                      "invalid_request_error")  # fmt: skip
    assert "wrong" not in error["message"]


async def test_pages_from_elsewhere_stay_out(serve: Any) -> None:
    server = await serve("server.allowed_origins=https://friend.example")
    status, error, _ = await refusal(server, origin="https://evil.example")
    assert (status, error["code"]) == (403, "origin_not_allowed")
    with pytest.raises(InvalidStatus, match="403"):  # a name that was made to point here
        async with connect(
            f"ws://evil.example:{server.port}/v1/realtime",
            origin=f"http://evil.example:{server.port}",
            host="127.0.0.1",
            port=server.port,
            proxy=None,
        ):
            pass
    for origin in ("https://friend.example", f"http://127.0.0.1:{server.port}"):
        async with server.call(origin=origin):
            assert server.house.calls == 1


async def test_nobody_gets_in_before_the_models_are_warm(serve: Any) -> None:
    server = await serve(ready=False)
    status, error, headers = await refusal(server)
    assert (status, error["code"], error["type"]) == (503, "not_ready", "server_error")
    assert int(headers["Retry-After"]) > 0
    server.house.ready = True
    await server.assert_works()


async def test_a_full_house_says_so_until_someone_leaves(serve: Any, eventually: Any) -> None:
    server = await serve("admission.max_calls=2")
    async with server.call():
        async with server.call():
            status, error, headers = await refusal(server)
        await eventually(lambda: server.house.calls == 1)
        await server.assert_works()
    assert (status, error["code"]) == (503, "server_full")
    assert "2 calls" in error["message"]
    assert int(headers["Retry-After"]) > 0


async def test_a_refusal_tells_the_place_in_the_queue(serve: Any) -> None:
    server = await serve("admission.max_calls=1")
    async with server.call():
        _, error, headers = await refusal(server)
    assert headers["X-Queue-Position"] == "1"
    assert error["queue_position"] == 1


async def test_a_strained_house_refuses_new_calls_and_keeps_its_own(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        server.house.strain = Strain.NO_CALLS
        status, error, headers = await refusal(server)
        assert (status, error["code"]) == (503, "overloaded")
        assert int(headers["Retry-After"]) > 0
        await client.take_turn()
        await client.until("response.done")
    server.house.strain = Strain.NONE
    await server.assert_works()


async def test_a_client_that_only_reads_events_is_told_by_one(serve: Any) -> None:
    server = await serve("admission.max_calls=1")
    server.query = "model=gpt-realtime&busy=event"
    async with server.call(), connect(server.url, proxy=None, subprotocols=["realtime"]) as late:
        event = json.loads(await late.recv())
        with pytest.raises(ConnectionClosed):
            await late.recv()
        assert (event["type"], event["error"]["code"]) == ("error", "server_full")
        assert (late.subprotocol, late.close_code) == ("realtime", 1013)
        assert server.house.calls == 1


async def test_a_page_that_comes_too_often_is_told_by_an_event(serve: Any) -> None:
    server = await serve(KEYS, "tenants.acme.keys=secret", "tenants.acme.sessions_per_minute=1")
    protocols = ["realtime", "openai-insecure-api-key.secret"]
    server.query = "busy=event"
    for code in (None, "rate_limit_exceeded"):
        async with connect(server.url, proxy=None, subprotocols=protocols) as page:
            event = json.loads(await page.recv())
            assert event.get("error", {}).get("code") == code


async def test_who_may_not_come_at_all_is_told_by_http(serve: Any) -> None:
    server = await serve(KEYS)
    server.query = "busy=event"
    assert (await refusal(server))[0] == 401


async def test_refusals_are_counted_by_reason_and_tenant_and_never_by_key(serve: Any) -> None:
    server = await serve(KEYS, "tenants.acme.keys=secret", "admission.max_calls=1")
    async with server.call(additional_headers={"Authorization": "Bearer secret"}):
        assert server.house.reception.admission().by_tenant() == {"acme": 1, "default": 0}
        for key in ("secret", "key1", "wrong"):
            await refusal(server, additional_headers={"Authorization": f"Bearer {key}"})
    value = server.house.metrics.registry.get_sample_value
    for reason, tenant in (
        ("server_full", "acme"), ("server_full", "default"), ("invalid_api_key", "")
    ):  # fmt: skip
        labels = {"reason": reason, "tenant": tenant}
        assert value("antiphon_refusals_total", labels) == 1
    assert b"secret" not in generate_latest(server.house.metrics.registry)


async def test_a_tenant_s_share_is_kept_for_its_keys(serve: Any) -> None:
    server = await serve(
        KEYS, "tenants.acme.keys=theirs", "tenants.acme.share=0.5", "admission.max_calls=2"
    )
    ours, theirs = (
        {"additional_headers": {"Authorization": f"Bearer {key}"}} for key in ("key1", "theirs")
    )
    async with server.call(**ours):
        _, error, _ = await refusal(server, **ours)
        assert error["code"] == "share_full"
        async with server.call(**theirs):
            assert server.house.calls == 2


# --- the waiting room -----------------------------------------------------------------------


@asynccontextmanager
async def raw(
    server: Any, *extra: bytes, query: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A handshake, and what comes right after it, by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET /v1/realtime" + query + b" HTTP/1.1\r\n"
        b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YW50aXBob24gbG9hZHRlcw==\r\n\r\n"
        + b"".join(extra)
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def waiting(server: Any) -> int:
    return int(server.house.reception.admission().waiting)


async def test_who_waits_gets_the_call_that_comes_free(serve: Any, eventually: Any) -> None:
    server = await serve("admission.max_calls=1", "admission.waiting=1")

    async def wait_and_talk() -> None:
        async with server.call() as client:
            await client.take_turn()
            await client.until("response.done")

    async with server.call():
        late = asyncio.create_task(wait_and_talk())
        await eventually(lambda: waiting(server) == 1)
        _, error, headers = await refusal(server)
        assert (error["code"], headers["X-Queue-Position"]) == ("server_full", "2")
    await late


async def test_who_has_waited_long_enough_is_told_so(serve: Any) -> None:
    server = await serve("admission.max_calls=1", "admission.waiting=1", "admission.wait_s=0.05")
    async with server.call():
        status, error, headers = await refusal(server)
    assert (status, error["code"]) == (503, "waited_too_long")
    assert int(headers["Retry-After"]) > 0


@pytest.mark.parametrize("leave", ["close", "reset", "half"])
async def test_who_hangs_up_while_waiting_frees_the_place(
    serve: Any, eventually: Any, leave: str
) -> None:
    server = await serve("admission.max_calls=1", "admission.waiting=1")
    async with server.call(), raw(server) as (_, writer):
        await eventually(lambda: waiting(server) == 1)
        if leave == "half":
            writer.write_eof()
        elif leave == "reset":
            sock = writer.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()
        await eventually(lambda: waiting(server) == 0)
        assert server.house.calls == 1
    await server.is_empty()
    await server.assert_works()


@pytest.mark.parametrize(
    "sent",
    [
        append_frame(b"\0\0"),
        append_frame(b"\0\0") * 1_000,
        b"\x89\x80\0\0\0\0",
        b"\x88\x80\0\0\0\0",
        b"garbage" * 100,
    ],
)
async def test_who_talks_before_being_let_in_harms_nobody(
    serve: Any, eventually: Any, sent: bytes
) -> None:
    server = await serve("admission.max_calls=1", "admission.waiting=1")
    async with server.call():
        async with raw(server, sent) as (_, writer):
            await writer.drain()
            await eventually(lambda: len(server.connections) == 2)
        await eventually(lambda: waiting(server) == 0 and len(server.connections) == 1)
    await server.is_empty()
    await server.assert_works()


async def test_many_at_once_for_one_place_get_it_once(serve: Any) -> None:
    server = await serve("admission.max_calls=1")

    async def attempt() -> int:
        async with raw(server) as (reader, _):
            status = (await reader.readline()).split()[1]
            if status == b"101":
                await left.wait()
            return int(status)

    left = asyncio.Event()
    attempts = [asyncio.create_task(attempt()) for _ in range(40)]
    for done, finished in enumerate(asyncio.as_completed(attempts), start=1):
        await finished
        if done == 39:
            assert server.house.calls == 1
            left.set()
    assert sorted(attempt.result() for attempt in attempts) == [101, *[503] * 39]


async def test_who_goes_while_being_let_in_leaves_nothing(serve: Any) -> None:
    server = await serve("admission.max_calls=1")
    for _ in range(20):
        async with raw(server) as (_, writer):
            await writer.drain()
    await server.is_empty()
    await server.assert_works()


async def test_a_call_whose_client_has_died_loses_its_place(serve: Any, eventually: Any) -> None:
    server = await serve("admission.max_calls=2", "admission.lost_s=30")
    async with server.call() as healthy, raw(server) as (reader, _):
        await reader.readuntil(b"session.created")
        await eventually(lambda: server.house.calls == 2)
        for connection in server.connections:
            connection.heard_at -= 31  # as if nothing had come from either since
        for lease in server.house.reception._lines:
            lease.beaten_at -= 31
        await healthy.hear(b"\0\0" * 480)
        await healthy.refusal("conversation.item.retrieve", item_id="x")
        server.house.reception.expire()
        assert server.house.calls == 1
        with suppress(ConnectionResetError):
            while await reader.read(65_536):
                pass
        await healthy.take_turn()
        await healthy.until("response.done")


@pytest.mark.parametrize("query", [b"", b"?busy=event"])
async def test_a_shutdown_that_meets_a_handshake_answers_it_once(
    serve: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, query: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    server = await serve("admission.max_calls=1")
    connect_ = CallSocket.handle_connect

    def connect_and_shut_down(socket: CallSocket, event: Any) -> None:
        connect_(socket, event)
        socket.shutdown()

    for strain in (Strain.NONE, Strain.NO_CALLS):
        with monkeypatch.context() as patch:
            patch.setattr(CallSocket, "handle_connect", connect_and_shut_down)
            patch.setattr(server.house.reception, "refuses", lambda _: None)
            server.house.strain = strain
            async with raw(server, query=query) as (reader, _):
                assert (await reader.readline()).startswith(b"HTTP/1.1 500")
                await eventually(lambda: not server.connections)
    server.house.strain = Strain.NONE
    assert caplog.text == ""
    await server.assert_works()


# --- messages that are too much -------------------------------------------------------------


async def test_a_message_of_100_megabytes_closes_its_call_and_no_other(serve: Any) -> None:
    server = await serve()
    async with server.call() as healthy, server.call() as client:
        with pytest.raises(ConnectionClosed):
            await client.socket.send("x" * 100_000_000)
            await client.socket.recv()
        assert client.socket.close_code == 1009
        await healthy.take_turn()
        await healthy.until("response.done")


async def test_fragments_that_come_to_too_much_close_the_call(serve: Any) -> None:
    server = await serve("server.max_message_bytes=100000")
    async with server.call() as client:
        with pytest.raises(ConnectionClosed):
            await client.socket.send(["x" * 1_000] * 200)
            await client.socket.recv()
        assert client.socket.close_code == 1009


async def test_a_client_that_never_reads_is_dropped_and_the_others_notice_nothing(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve()
    async with server.call() as healthy, server.call(max_queue=1) as client:
        await client.say("x" * 1_000_000, id="big")
        retrieve = json.dumps({"type": "conversation.item.retrieve", "item_id": "big"})
        with pytest.raises(ConnectionClosed):
            for _ in range(100):
                await client.socket.send(retrieve)
                await asyncio.sleep(0)
            await client.socket.wait_closed()
            await client.socket.send(retrieve)
        await healthy.take_turn()
        await healthy.until("response.done")
    assert "does not read" in caplog.text


# --- clients that vanish --------------------------------------------------------------------


def reset(client: Any) -> None:
    """Gone without a word: a TCP reset in place of a close."""
    sock = client.socket.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.transport.abort()


async def idle(client: Any) -> None:
    """Says nothing."""


async def in_mid_word(client: Any) -> None:
    await client.speak()
    await client.until("input_audio_buffer.speech_started")


async def before_the_transcript(client: Any) -> None:
    await client.take_turn()
    await client.until("input_audio_buffer.committed")


async def in_the_reply(client: Any) -> None:
    await client.send("response.create")
    await client.until("response.output_audio.delta")


async def in_the_interruption(client: Any) -> None:
    await in_the_reply(client)
    await client.speak()
    await client.until("response.done")


async def in_a_flood_of_audio(client: Any) -> None:
    await client.pause(20_000)


@pytest.mark.parametrize("leave", ["reset", "close"])
@pytest.mark.parametrize(
    "state",
    [idle, in_mid_word, before_the_transcript, in_the_reply, in_the_interruption,
     in_a_flood_of_audio],
)  # fmt: skip
async def test_nothing_is_left_of_a_client_that_goes(
    serve: Any, state: Callable[[Any], Awaitable[None]], leave: str
) -> None:
    hanging = state is before_the_transcript
    server = await serve(
        asr=ScriptedAsr(AsrOptions(hang_after=0 if hanging else -1)),
        llm=ScriptedLlm(LlmOptions(hang_after=12)),
    )
    async with server.call() as client:
        await state(client)
        assert server.house.calls == 1
        if leave == "reset":
            reset(client)
        else:
            await client.socket.close()
        await server.is_empty()


async def test_a_client_that_goes_does_not_disturb_the_others(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(item_delay_ms=2)))
    async with server.call() as healthy:
        await healthy.take_turn()
        for _ in range(5):
            async with server.call() as client:
                await in_the_reply(client)
                reset(client)
        done = await healthy.until("response.done")
    assert done["response"]["status"] == "completed"
    assert len(healthy.audio) == 3 * 2 * 24_000


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websoc", b"\x00\xff\x00\xff\r\n\r\n"],
)
async def test_a_handshake_that_breaks_off_takes_no_place(serve: Any, sent: bytes) -> None:
    server = await serve()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    await writer.drain()
    writer.transport.abort()
    await server.assert_works()


async def test_calls_that_come_and_go_leave_nothing(serve: Any) -> None:
    server = await serve()
    before = len(asyncio.all_tasks())
    for _ in range(25):
        async with server.call() as client:
            await client.speak(40)
        await server.is_empty()
    assert len(asyncio.all_tasks()) == before


# --- bugs -----------------------------------------------------------------------------------


class Buggy:
    """Fails in a way that no adapter may."""

    def open(self, request: Any) -> Any:
        raise RuntimeError("a bug in an engine")


@pytest.mark.parametrize("name", ["asr", "llm", "tts"])
async def test_a_bug_closes_its_own_call_and_no_other(
    serve: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve()
    async with server.call() as healthy:
        async with server.call() as client:
            engine = getattr(server, name)
            engine.engine, good = Buggy(), engine.engine
            await client.take_turn()
            with suppress(ConnectionClosed):
                while True:
                    await client.next()
            engine.engine = good
        assert client.socket.close_code == 1011
        await healthy.take_turn()
        done = await healthy.until("response.done")
    assert done["response"]["status"] == "completed"
    assert "a bug in an engine" in caplog.text


async def test_a_bug_in_what_a_message_asks_for_closes_the_call(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    async with server.call() as client:
        monkeypatch.setattr(
            "pipelines.conversation.dialogue.Dialogue.get", lambda *_: 1 / 0
        )  # fmt: skip
        for _ in range(3):
            await client.send("conversation.item.retrieve", item_id="x")
        assert await client.close_code() == 1011


async def test_a_bug_while_the_transport_gets_room_closes_the_call(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    async with server.call() as client:
        monkeypatch.setattr("voice.doors.outbox.Outbox.flush", lambda _: 1 / 0)
        (connection,) = server.connections
        connection.pause_writing()
        connection.resume_writing()
        assert await client.close_code() == 1011


async def test_a_client_that_does_not_take_its_close_is_dropped(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice.doors.connection.CLOSE_S", 0.01)
    server = await serve()
    async with server.call() as client:
        (connection,) = server.connections
        connection.pause_writing()
        monkeypatch.setattr("pipelines.conversation.dialogue.Dialogue.get", lambda *_: 1 / 0)
        await client.send("conversation.item.retrieve", item_id="x")
        assert await client.close_code() == 1006  # no close ever came


async def test_failures_of_all_engines_at_once_leave_the_call_open(serve: Any) -> None:
    server = await serve(
        asr=ScriptedAsr(AsrOptions(fail_code="failed")),
        llm=ScriptedLlm(LlmOptions(fail_code="failed")),
        tts=ScriptedTts(TtsOptions(fail_code="failed")),
    )
    async with server.call() as client:
        for _ in range(3):
            await client.take_turn()
            await client.until("conversation.item.input_audio_transcription.failed")
            await client.send("response.create")
            done = await client.until("response.done")
            assert done["response"]["status"] == "failed"
