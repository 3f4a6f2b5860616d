"""All carriers at once, each by its own simulator, through a real server and real sockets."""

import asyncio
import socket
from typing import Any

import numpy as np

from clients.phone import CARRIERS, PhoneCall, dial
from pipelines.conversation.dialogue import AgentItem
from voice.doors.audiosocket import serve_audiosocket

LOUD = 8_000


async def one_call(url: str, carrier: str) -> None:
    """Greeted; a turn that is answered; keys over the answer; and a caller who hangs up."""
    try:
        async with asyncio.timeout(20), dial(url, CARRIERS[carrier]()) as call:
            await call.wait_heard_s(0.2)
            await call.say(sound(call, 600))
            await call.wait_heard_s(1.0)
            silent_from = call.heard_s
            call.press("7#")
            await call.wait_heard_s(silent_from + 1.0)
            await call.hang_up()
    except BaseException as error:
        error.add_note(carrier)
        raise


def sound(call: PhoneCall, milliseconds: int) -> np.ndarray:
    return np.full(call.telephone.words.rate * milliseconds // 1000, LOUD, np.int16)


async def test_all_carriers_at_once(serve: Any, eventually: Any) -> None:
    server = await serve("phone.greeting=Good morning to you.", "turns.endpoint.silence_ms=320")
    listener = socket.create_server(("127.0.0.1", 0))
    audiosocket = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    base = f"ws://127.0.0.1:{server.port}/phone"
    dialogues: list[Any] = []
    async with asyncio.TaskGroup() as tasks:
        answering = tasks.create_task(serve_audiosocket(server.house, listener))
        calls = [
            tasks.create_task(
                one_call(
                    audiosocket if carrier == "audiosocket" else where_of(base, carrier), carrier
                )
            )
            for carrier in CARRIERS
        ]
        await eventually(lambda: len(server.house.open_calls) == len(CARRIERS))
        dialogues = [call.dialogue for call in server.house.open_calls]
        await asyncio.wait(calls)
        await eventually(lambda: server.house.calls == 0)
        answering.cancel()
    for dialogue in dialogues:
        texts = [getattr(item, "text", "") for item in dialogue]
        assert texts[0] == "Good morning to you."
        assert "[keypad: 7 #]" in texts
        assert isinstance(list(dialogue)[-1], AgentItem)
    assert len(server.asr.requests) >= len(CARRIERS)


def where_of(base: str, carrier: str) -> str:
    """Half of them are found out."""
    return base if carrier in ("twilio", "telnyx", "plivo", "exotel") else f"{base}/{carrier}"
