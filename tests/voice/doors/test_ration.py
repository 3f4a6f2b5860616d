"""What a call may ask of the model, on a clock that jumps."""

import asyncio
from typing import Any

import pytest

from engines.ports import ChatRequest, EngineError, Message, Priority
from engines.scripted import ScriptedLlm
from voice.doors.ration import RationedLlm
from voice.rates import Bucket

pytestmark = pytest.mark.virtual_clock


async def ask(llm: Any, priority: Priority = Priority.FINAL) -> int:
    request = ChatRequest((Message("user", "hello"),), priority=priority)
    async with llm.open(request) as deltas:
        return len([delta async for delta in deltas])


async def test_a_reply_beyond_the_limit_fails_until_there_is_one_again() -> None:
    llm = RationedLlm(ScriptedLlm(), Bucket(1, 0.1))
    llm.begin_reply()
    assert await ask(llm)
    assert await ask(llm)  # the same reply may ask more than once
    llm.begin_reply()
    with pytest.raises(EngineError, match=r"^This key asks .* again in 10 s\.$") as refused:
        await ask(llm)
    assert refused.value.code == "rate_limited"
    await asyncio.sleep(10)
    llm.begin_reply()
    assert await ask(llm)


async def test_what_is_worked_out_ahead_takes_nothing() -> None:
    llm = RationedLlm(ScriptedLlm(), Bucket(1, 0.1))
    for _ in range(3):
        assert await ask(llm, Priority.SPECULATIVE)
    llm.begin_reply()
    with pytest.raises(EngineError, match="1 replies a minute"):
        await ask(llm, Priority.SPECULATIVE)
    assert await ask(llm, Priority.BATCH)


async def test_a_reply_beside_the_others_takes_one_too_and_spoils_none() -> None:
    llm = RationedLlm(ScriptedLlm(), Bucket(2, 0.1))
    llm.begin_reply()
    assert await ask(llm.aside())
    with pytest.raises(EngineError):
        llm.aside()
    assert await ask(llm)


async def test_the_client_is_told_of_what_is_left() -> None:
    llm = RationedLlm(ScriptedLlm(), Bucket(6, 0.1))
    llm.begin_reply()
    (limit,) = llm.limits()
    assert (limit.name, limit.limit, limit.remaining) == ("requests", 6, 5)
    assert limit.reset_seconds == 10.0


async def test_without_a_limit_there_is_nothing_to_tell() -> None:
    llm = RationedLlm(ScriptedLlm(), None)
    for _ in range(50):
        llm.begin_reply()
    assert await ask(llm)
    assert await ask(llm.aside())
    assert llm.limits() == []
    await llm.warm_up()
    await llm.close()
