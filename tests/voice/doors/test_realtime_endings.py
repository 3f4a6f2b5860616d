"""How a call ends: heard to its last sound, and then at once."""

import asyncio
import time
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from engines.ports import ToolCallDelta
from engines.scripted import RATE, SAMPLES_PER_WORD, LlmOptions, ScriptedLlm, tokens_of

FAREWELL = "Thank you for your call, and have a very nice day. Goodbye."
SOON_S = 2.0
"""Far less than any time-out of a socket or a server."""


async def test_a_farewell_is_heard_to_its_last_sample_before_the_call_is_closed(serve: Any) -> None:
    script = (*tokens_of(FAREWELL), ToolCallDelta(0, "call_1", "hang_up", "{}"))
    server = await serve("agent.tools=hang_up", llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        await client.send("response.create")
        began = time.monotonic()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await client.next()
        took_s = time.monotonic() - began
        await server.is_empty()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    (done,) = client.all("response.done")
    assert done["response"]["status"] == "completed"
    samples = len(FAREWELL.split()) * SAMPLES_PER_WORD
    assert len(client.audio) == 2 * samples
    assert samples / RATE - 0.1 <= took_s <= samples / RATE + SOON_S, "it has been played, too"


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
