"""The phone door over a real socket: whose call it is, and how it begins and ends."""

import asyncio
import base64
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from voice.doors import phone as phone_door

SILENT = "phone.greeting="


def url_of(server: Any, path: str = "/phone") -> str:
    return f"ws://127.0.0.1:{server.port}{path}"


def twilio_start(**parameters: str) -> list[str]:
    start = {
        "streamSid": "MZ1",
        "callSid": "CA1",
        "tracks": ["inbound"],
        "customParameters": parameters,
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
    }
    return [
        json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}),
        json.dumps({"event": "start", "sequenceNumber": "1", "start": start, "streamSid": "MZ1"}),
    ]


async def closed(socket: ClientConnection) -> int | None:
    """Wait until the server has closed it; with which code."""
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(10):
            while True:
                await socket.recv()
    return socket.close_code


@pytest.mark.parametrize("path", ["/phone", "/phone/twilio", "/phone/any/whatever"])
async def test_whose_call_it_is_is_told_or_found_out(serve: Any, path: str) -> None:
    server = await serve("phone.greeting=Hello there.")
    async with connect(url_of(server, path), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        message = json.loads(await socket.recv())
        assert (message["event"], message["streamSid"]) == ("media", "MZ1")
        assert len(base64.b64decode(message["media"]["payload"])) == 160
        assert server.house.calls == 1
        await socket.send(json.dumps({"event": "stop", "streamSid": "MZ1", "stop": {}}))
        assert await closed(socket) == 1000


@pytest.mark.parametrize("first", [['{"event": "hello"}'] * 2, ["{"] * 2, [""] * 2])
async def test_who_is_nobody_we_know_is_told_at_once(
    serve: Any, first: list[str], caplog: Any
) -> None:
    server = await serve(SILENT)
    async with connect(url_of(server), proxy=None) as socket:
        for message in first:
            await socket.send(message)
        assert await closed(socket) == 1002
    assert server.house.calls == 0
    assert "Point it at /phone/NAME" in caplog.text


async def test_who_says_nothing_is_not_waited_for(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phone_door, "START_S", 0.05)
    server = await serve(SILENT)
    async with connect(url_of(server), proxy=None) as socket:
        assert await closed(socket) == 1002


async def test_a_carrier_whose_proof_is_missing_is_shown_out_once_it_is_known(serve: Any) -> None:
    """By ``/phone`` anybody with a key may come in, but not as Twilio."""
    server = await serve("server.api_keys=key1", "phone.twilio_token=t")
    async with connect(url_of(server, "/phone/any/key1"), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        assert await closed(socket) == 1008
    assert server.house.calls == 0


async def test_what_is_no_text_ends_the_call_and_nothing_else(serve: Any) -> None:
    server = await serve(SILENT)
    async with connect(url_of(server, "/phone/twilio"), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        await socket.send(b"\xff\xfe" * 100)
        assert await closed(socket) == 1002


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_a_line_that_is_lost_frees_its_place(serve: Any, how: str, eventually: Any) -> None:
    server = await serve("phone.greeting=Hello there, how are you?")
    async with connect(url_of(server), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        await socket.recv()
        if how == "abort":
            socket.transport.abort()
        else:
            await socket.close()
        await eventually(lambda: server.house.calls == 0)


async def test_the_end_of_the_server_ends_the_call(serve: Any) -> None:
    server = await serve("phone.greeting=Hello there, how are you?")
    async with connect(url_of(server), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        await socket.recv()
        for connection in tuple(server.connections):
            connection.shutdown()
        assert await closed(socket) == 1012
    await server.is_empty()


async def test_a_subprotocol_that_was_offered_is_spoken(serve: Any) -> None:
    server = await serve(SILENT)
    for offered, chosen in (("media", "media"), ("audiohook", "audiohook")):
        async with connect(
            url_of(server, "/phone/asterisk"), subprotocols=[offered], proxy=None
        ) as socket:
            assert socket.subprotocol == chosen


async def test_a_bug_ends_that_call_with_1011(serve: Any, caplog: Any) -> None:
    class Buggy:
        def open(self, request: Any) -> Any:
            raise RuntimeError("a bug in an engine")

    server = await serve("phone.greeting=Hello.", tts=Buggy())
    async with connect(url_of(server), proxy=None) as socket:
        for message in twilio_start():
            await socket.send(message)
        assert await closed(socket) == 1011
    assert "a phone call ended by a bug" in caplog.text
