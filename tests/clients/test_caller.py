"""A caller in a real, short call to a small server."""

import asyncio
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from clients.caller import Clip, call_up
from clients.realtime import CallError
from voice.wire.realtime_client import ConversationItemTruncateEvent

SECOND = 24_000
CLIP = Clip(
    "clip.wav",
    np.concatenate([np.full(SECOND // 5, 4000, np.int16), np.zeros(SECOND // 10, np.int16)]),
)


def unwatched(doing: str, seconds: float) -> None:
    pass


async def test_turns_follow_each_other_in_one_call(small_server: Any) -> None:
    async with call_up(small_server.url, {"instructions": "Be brief."}) as caller:
        doings = []
        first = await caller.speak(CLIP, 5.0, lambda doing, seconds: doings.append(doing))
        second = await caller.speak(CLIP, 5.0, unwatched)
        said, heard = caller.recording()
    assert (first.transcript, first.reply) == ("words 1", "Hello, caller 1.")
    assert (second.transcript, second.reply) == ("words 2", "Hello, caller 2.")
    assert list(dict.fromkeys(doings)) == ["speaking", "listening"]
    delays = first.delays_ms()
    assert 60 <= (delays["speech_stopped"] or 0) < 1000
    assert (delays["first_audio"] or 0) >= (delays["speech_stopped"] or 0)
    assert len(said) == len(heard)
    assert np.count_nonzero(said == 4000) == 2 * SECOND // 5
    assert np.count_nonzero(heard == 1000) == pytest.approx(2 * 0.12 * SECOND, abs=2)
    assert np.flatnonzero(heard)[0] > 0.2 * SECOND


async def test_speaking_on_truncates_the_reply(small_server: Any) -> None:
    small_server.reply_ms = 10_000
    pause = np.zeros(SECOND // 5, np.int16)
    twice = Clip("twice.wav", np.concatenate([CLIP.samples, pause, CLIP.samples]))
    async with call_up(small_server.url, {}) as caller:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await caller.speak(twice, 5.0, unwatched)
    [truncation] = [
        event for event in small_server.heard if isinstance(event, ConversationItemTruncateEvent)
    ]
    assert truncation.item_id == "item_1"
    assert 100 < truncation.audio_end_ms < 600


async def test_a_reply_that_stays_away_is_a_problem(small_server: Any) -> None:
    small_server.deaf = True
    async with call_up(small_server.url, {}) as caller:
        turn = await caller.speak(CLIP, 0.1, unwatched)
    assert turn.failed
    assert turn.problems == ["the server heard no speech (no reply within 0.1 s)"]


async def test_speech_that_never_ends_for_the_server_is_told_from_silence(
    small_server: Any,
) -> None:
    small_server.silence_ms = 60_000
    async with call_up(small_server.url, {}) as caller:
        turn = await caller.speak(CLIP, 0.1, unwatched)
    assert turn.problems == ["the server heard speech begin, but not end (no reply within 0.1 s)"]


async def test_a_session_that_is_refused_ends_the_call(small_server: Any) -> None:
    small_server.refuse_session = True
    with pytest.raises(CallError, match=r"refused the session: No\."):
        async with call_up(small_server.url, {}):
            pass


async def test_a_server_that_hangs_up_is_told(small_server: Any) -> None:
    small_server.hang_up_on_turn = 1
    with pytest.raises(CallError, match="code 1011: too loud; the server's log says why"):
        async with call_up(small_server.url, {}) as caller:
            await caller.speak(CLIP, 5.0, unwatched)


async def test_a_server_that_only_says_goodbye_is_told() -> None:
    async def leave(socket: ServerConnection) -> None:
        await socket.recv()

    async with serve(leave, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(CallError, match="The server ended the call"):
            async with call_up(f"ws://127.0.0.1:{port}/v1/realtime", {}):
                pass
