"""A call in a strained house: what it leaves off, that it still answers, and that it recovers."""

from dataclasses import replace
from typing import Any

import pytest

from engines.ports import Priority
from engines.scripted import LlmOptions, ScriptedLlm
from pipelines.conversation.brevity import BRIEFLY
from pipelines.conversation.events import StrainChanged
from pipelines.strain import Strain

pytestmark = pytest.mark.virtual_clock


class Reader:
    def __init__(self) -> None:
        self.strains: list[Strain] = []

    def stepped(self, event: Any, commands: Any, now: int) -> None:
        if isinstance(event, StrainChanged):
            self.strains.append(event.strain)

    def said(self, output: Any, now: float) -> None: ...

    def staged(self, stages: Any) -> None: ...


async def test_observers_hear_of_each_step_once(stage: Any) -> None:
    reader = Reader()
    stage.observers = (reader,)
    async with stage.call() as line:
        for strain in (0, 2, 2, 6, 0):
            line.call.bear(Strain(strain))
    assert reader.strains == [Strain.NO_PARTIALS, Strain.NO_CALLS, Strain.NONE]


async def test_nothing_is_worked_out_ahead_nor_read_ahead_and_the_caller_is_answered(
    stage: Any,
) -> None:
    async with stage.call() as line:
        line.call.bear(Strain.NO_SPECULATION)
        await line.take_turn()
        await line.door.wait("reply_finished")
        assert len(stage.llm.asked_at_ms) == 1, "the model was asked for the answer alone"
        assert stage.llm.requests[0].priority is Priority.FINAL
        assert len(stage.asr.requests) == 1
        line.call.bear(Strain.NONE)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
    assert stage.llm.requests[1].priority is Priority.SPECULATIVE
    assert len(stage.llm.asked_at_ms) == 3, "and read ahead again"


async def test_replies_are_asked_to_be_short_and_are_cut_where_they_are_not(stage: Any) -> None:
    stage.settings = replace(stage.settings, short_tokens=5)
    async with stage.call() as line:
        line.call.bear(Strain.SHORT_REPLIES)
        await line.take_turn()
        finished = await line.door.wait("reply_finished")
        line.call.bear(Strain.NO_SPECULATION)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
    short, long = stage.llm.requests
    assert short.messages[-1].content.endswith(f"({BRIEFLY['en']})")
    assert (short.max_tokens, finished.args[0].usage.output_tokens) == (5, 5)
    assert (long.max_tokens, BRIEFLY["en"] in str(long.messages)) == (None, False)
    assert BRIEFLY["en"] not in str(list(line.call.dialogue))


async def test_a_reply_that_is_being_made_is_let_go_on(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(item_delay_ms=50))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_said", 2)
        line.call.bear(Strain.NO_CALLS)
        finished = await line.door.wait("reply_finished")
    assert finished.args[0].usage.output_tokens == 36


class Buggy(Reader):
    def stepped(self, event: Any, commands: Any, now: int) -> None:
        assert not isinstance(event, StrainChanged), "a bug in an observer"


async def test_a_bug_under_strain_ends_the_call_and_not_whoever_told_it(stage: Any) -> None:
    stage.observers = (Buggy(),)
    with pytest.RaisesGroup(AssertionError):
        async with stage.call() as line:
            line.call.bear(Strain.NO_CALLS)  # raises nothing here
            await line.pause(100)
