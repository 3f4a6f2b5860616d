"""How a call ends: heard to its last sound, and then at once."""

import asyncio
import time
from typing import Any

import pytest

from engines.ports import ToolCallDelta
from engines.scripted import RATE, SAMPLES_PER_WORD, LlmOptions, ScriptedLlm, tokens_of
from voice.doors.realtime_teller import RealtimeTeller
from voice.socket import CallSocket

FAREWELL = "Thank you for your call, and have a very nice day. Goodbye."
SOON_S = 2.0
"""Far less than any time-out of a socket or a server."""


async def test_a_farewell_is_heard_to_its_last_sample_before_the_call_is_closed(serve: Any) -> None:
    script = (*tokens_of(FAREWELL), ToolCallDelta(0, "call_1", "hang_up", "{}"))
    server = await serve("agent.tools=hang_up", llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        await client.send("response.create")
        began = time.monotonic()
        assert await client.close_code() == 1000
        took_s = time.monotonic() - began
        await server.is_empty()
    (done,) = client.all("response.done")
    assert done["response"]["status"] == "completed"
    samples = len(FAREWELL.split()) * SAMPLES_PER_WORD
    assert len(client.audio) == 2 * samples
    assert samples / RATE - 0.1 <= took_s <= samples / RATE + SOON_S, "it has been played, too"


async def test_what_a_slow_client_has_not_taken_yet_goes_out_before_the_call_is_closed(
    serve: Any, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    room, hung_up = True, []
    tell_end = RealtimeTeller.hung_up
    monkeypatch.setattr(CallSocket, "is_writable", property(lambda _: room))
    monkeypatch.setattr(
        RealtimeTeller, "hung_up", lambda self: (tell_end(self), hung_up.append(self))
    )
    script = (*tokens_of("Goodbye."), ToolCallDelta(0, "call_1", "hang_up", "{}"))
    server = await serve("agent.tools=hang_up", llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        room = False
        await client.send("response.create")
        await eventually(lambda: hung_up)
        for _ in range(20):  # time to close the call, for a server that would not wait
            await asyncio.sleep(0)
        room = True
        (connection,) = server.connections
        connection.on_writable()
        assert await client.close_code() == 1000
    assert client.story[-1] == "rate_limits.updated"
    assert len(client.audio) == 2 * SAMPLES_PER_WORD


@pytest.mark.parametrize("speaking", [False, True])
async def test_a_client_whose_half_of_the_line_is_shut_holds_no_place(
    serve: Any, speaking: bool
) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=12)))
    async with server.call() as client:
        if speaking:
            await client.send("response.create")
            await client.until("response.output_audio.delta")
        client.socket.transport.write_eof()
        async with asyncio.timeout(SOON_S):
            await server.is_empty()


async def test_a_client_that_sends_too_much_waits_and_loses_nothing(serve: Any) -> None:
    """Others are served meanwhile."""
    server = await serve("server.messages_per_s=100")
    loop = asyncio.get_running_loop()
    async with server.call() as flood, server.call() as other:
        began = loop.time()
        for number in range(500):
            await flood.send("conversation.item.delete", item_id=f"n{number}")
        await other.take_turn()
        await other.until("response.done")
        for _ in range(500):
            await flood.until("error")
        assert loop.time() - began >= 0.9  # 400 at once, the rest at a hundred a second
    told = [event["error"]["message"] for event in flood.all("error")]
    assert [message.split("'")[1] for message in told] == [f"n{number}" for number in range(500)]


async def test_pings_too_many_make_their_client_wait(serve: Any) -> None:
    server = await serve("server.messages_per_s=100")
    async with server.call() as flood:
        began = asyncio.get_running_loop().time()
        for number in range(1_000):  # 400 at once, and 512 at most are in the message's slice
            await flood.socket.ping(f"{number:0120}")
        await flood.send("conversation.item.delete", item_id="n")
        await flood.until("error")
        assert asyncio.get_running_loop().time() - began >= 0.8
