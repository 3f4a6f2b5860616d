"""Each carrier, by its own simulator: greeted, answered, interrupted, typed to, and hung up on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from clients.phone import CARRIERS
from engines.ports import ToolCallDelta
from engines.scripted import SENTENCES, AsrOptions, LlmOptions, ScriptedLlm, tokens_of
from pipelines.conversation.dialogue import AgentItem
from tests.voice.doors.carriers import LOUD, CarrierCaller, CarrierLine, now_s
from tests.voice.doors.phoning import CALLER, Phone
from tests.voice.keypads import keys_in
from voice.doors.phone_call import serve_leg

pytestmark = [pytest.mark.virtual_clock, pytest.mark.parametrize("carrier", sorted(CARRIERS))]

TEXT = "".join(SENTENCES)
LONG = LlmOptions(script=tokens_of(" ".join([TEXT] * 4)))
CANNOT_TAKE_BACK = ("audiosocket",)


@asynccontextmanager
async def put_through(
    phone: Phone, carrier: str
) -> AsyncIterator[tuple[CarrierCaller, "asyncio.Task[None]"]]:
    line = CarrierLine(carrier)
    leg, caller = line.leg_of(phone.house), CarrierCaller(line)
    caller.hello()
    await caller.sound(200)
    await leg.wait_begun(1)
    serving = asyncio.create_task(serve_leg(phone.house, leg, CALLER, {}))
    try:
        yield caller, serving
        leg.end("the test is over")
        if not serving.done():
            await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        leg.close()
    assert phone.house.calls == 0


async def test_a_caller_is_greeted_and_answered_without_a_gap(vad: Any, carrier: str) -> None:
    phone = Phone(vad, ["phone.greeting=Good morning to you."])
    async with put_through(phone, carrier) as (caller, _):
        await caller.sound(1_000)
        greeted_ms = caller.heard_ms
        await caller.sound(600, LOUD)
        await caller.sound(4_600)
        [call] = phone.house.open_calls
        *_, said = call.dialogue
    frame_ms = caller.telephone.words.frame_ms
    assert greeted_ms == pytest.approx(4_000 / 12, abs=max(200, frame_ms))
    assert said.heard_text == TEXT
    assert caller.heard_ms == pytest.approx(greeted_ms + 3_000, abs=201)
    assert len([gap for gap in caller.gaps_ms() if gap < 400]) == 0  # only between the two


async def test_an_interruption_is_silent_at_once_and_the_model_knows_where(
    vad: Any, carrier: str
) -> None:
    phone = Phone(vad)
    phone.llm.engine = ScriptedLlm(LONG)
    async with put_through(phone, carrier) as (caller, _):
        await caller.sound(600, LOUD)
        await caller.sound(2_600)
        spoke_at = now_s()
        await caller.sound(600, LOUD)
        [call] = phone.house.open_calls
        said = next(item for item in call.dialogue if isinstance(item, AgentItem))
        run = caller.telephone.playout.runs[-1]
        ended_at = run.start + len(run.samples) / caller.telephone.words.rate
        heard_ms = caller.heard_ms
    # 200 ms of speech, the network there and back, and where nothing can be taken back, the lead
    most_s = 0.2 + 0.16 + (0.08 if carrier in CANNOT_TAKE_BACK else 0.0)
    assert ended_at - spoke_at <= most_s + caller.telephone.words.frame_ms / 1000
    assert said.status == "incomplete"
    assert said.played_ms == pytest.approx(heard_ms, abs=100)


async def test_what_is_typed_is_answered(vad: Any, carrier: str) -> None:
    phone = Phone(vad)
    async with put_through(phone, carrier) as (caller, _):
        caller.press("12#")
        await caller.sound(1_000)
        [call] = phone.house.open_calls
        typed, answer = call.dialogue
        assert (typed.text, isinstance(answer, AgentItem)) == ("[keypad: 1 2 #]", True)
        assert caller.heard_ms > 500
    assert phone.asr.requests == []


async def test_the_agent_types_in_the_wire_s_words_or_by_tones(vad: Any, carrier: str) -> None:
    phone = Phone(vad, ["agent.tools=send_digits"])
    typing = ToolCallDelta(0, "call_1", "send_digits", '{"digits": "1 904*#"}')
    phone.llm.engine = ScriptedLlm(LlmOptions(script=(*tokens_of("Here it is."), typing)))
    async with put_through(phone, carrier) as (caller, _):
        await caller.sound(600, LOUD)
        await caller.sound(3_600)
        assert len(phone.llm.requests) == 1  # what the other side says to it is waited for
        [offered] = phone.llm.requests[0].tools
    heard = np.concatenate([run.samples for run in caller.telephone.playout.runs])
    by_tones = keys_in(heard, caller.telephone.words.rate)
    assert offered.name == "send_digits"
    assert (caller.telephone.keys, by_tones) == (
        ("1904*#", "") if carrier == "plivo" else ("", "1904*#")
    )
    spoken_ms = 3 * 1_000 / 12
    typed_ms = 0 if carrier == "plivo" else 6 * 200
    assert caller.heard_ms == pytest.approx(spoken_ms + typed_ms, abs=300)


async def test_when_the_agent_hangs_up_its_farewell_is_heard(vad: Any, carrier: str) -> None:
    phone = Phone(vad, ["turns.idle_ms=1000", "turns.hang_up_ms=1000"])
    async with put_through(phone, carrier) as (caller, serving):
        while not serving.done():
            await caller.sound(100)
        await caller.sound(200)
    words = len(["Are", "you", "still", "there?"]) + 11
    assert caller.heard_ms == pytest.approx(words * 1_000 / 12, abs=401)
    says_so = carrier in ("genesys", "freeswitch", "asterisk", "audiosocket")
    assert caller.telephone.hung_up is says_so


async def test_a_caller_who_hangs_up_leaves_nothing(vad: Any, carrier: str) -> None:
    phone = Phone(vad)
    async with put_through(phone, carrier) as (caller, serving):
        await caller.sound(600, LOUD)
        await caller.sound(1_000)
        if farewell := caller.telephone.hang_up():
            caller.line._answer(farewell)
            await asyncio.sleep(0.1)
            assert serving.done()
        else:  # it just closes the line
            caller.line.abort()
            await serving
    assert phone.house.open_calls == set()
    assert vad.slots == set()
    assert AsrOptions().text in [message.content for message in phone.llm.requests[-1].messages]
