"""The livekit bot, in its own environment: one caller, one turn, one whole answer."""

import asyncio

import pytest

from loadtest.peers.calling import Caller, PlainWire
from loadtest.peers.comparison import make_program
from loadtest.peers.environments import PEERS, Bot, cache, command_of, make

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.engine]


async def test_the_livekit_bot_answers_a_turn_in_full() -> None:
    peer = PEERS[1]
    command, variables = command_of(peer, await asyncio.to_thread(make, peer, cache()))
    program, wire, loop = make_program(), PlainWire(), asyncio.get_running_loop()
    with Bot(command, variables, None) as bot:
        messages = program.messages(wire)
        _, caller = await loop.create_connection(
            lambda: Caller(wire, messages, bot.port), "127.0.0.1", bot.port
        )
        await asyncio.wait_for(caller.opened, 20)
        caller.start(loop.time())
        heard = caller.heard
        async with asyncio.timeout(program.seconds + 5):
            while sum(seconds for _, seconds in heard.arrivals) < 2.9:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        caller.hang_up()
    [wait] = heard.answers(caller.began, program, caller.began + program.seconds + 0.1)
    assert wait is not None
    assert 0.15 < wait < 1.0
