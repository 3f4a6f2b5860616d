"""The Realtime door itself: who gets in, and how a call ends, however its client behaves."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
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
        with pytest.raises(ConnectionClosed):
            await client.until("never")
        assert client.socket.close_code == 1011


async def test_a_bug_while_the_transport_gets_room_closes_the_call(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    async with server.call() as client:
        monkeypatch.setattr("voice.doors.outbox.Outbox.flush", lambda _: 1 / 0)
        (connection,) = server.connections
        connection.pause_writing()
        connection.resume_writing()
        with pytest.raises(ConnectionClosed):
            await client.until("never")
        assert client.socket.close_code == 1011


async def test_a_client_that_does_not_take_its_close_is_dropped(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice.doors.realtime.CLOSE_S", 0.01)
    server = await serve()
    async with server.call() as client:
        (connection,) = server.connections
        connection.pause_writing()
        monkeypatch.setattr("pipelines.conversation.dialogue.Dialogue.get", lambda *_: 1 / 0)
        await client.send("conversation.item.retrieve", item_id="x")
        with pytest.raises(ConnectionClosed):
            await client.until("never")
        assert client.socket.close_code == 1006  # no close ever came


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
