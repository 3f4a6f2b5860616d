"""The speaker: what is prepared stays unheard of, what is stopped stays silent."""

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import ANY

import pytest

from engines.ports import EngineError, Priority
from engines.scripted import SENTENCES, LlmOptions, ScriptedLlm, ScriptedTts
from pipelines.conversation.dialogue import CallerItem, Dialogue
from pipelines.conversation.events import Event, ReplyEnded, ReplySounded
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.speaker import Speaker

pytestmark = pytest.mark.virtual_clock

SETTINGS = CallSettings(instructions="Be brief.")


class Door:
    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append(name)

    @property
    def story(self) -> list[str]:
        return [name for name, _ in itertools.groupby(self.told)]


@dataclass
class Speaking:
    speaker: Speaker
    door: Door
    dialogue: Dialogue
    llm: Any
    events: list[Event] = field(default_factory=list)


@pytest.fixture
async def speaking() -> AsyncIterator[Speaking]:
    door, dialogue, events = Door(), Dialogue(), []
    llm = ScriptedLlm(LlmOptions(item_delay_ms=10))
    requests: list[Any] = []
    opened = llm.open
    llm.open = lambda request: requests.append(request) or opened(request)
    llm.requests = requests
    numbers = itertools.count(1)
    async with asyncio.TaskGroup() as tasks:
        speaker = Speaker(
            Engines(None, None, llm, ScriptedTts()),
            dialogue,
            door,
            tasks,
            events.append,
            new_id=lambda: f"item_{next(numbers)}",
            call_id="call_1",
            observers=(),
        )
        yield Speaking(speaker, door, dialogue, llm, events)
        speaker.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_is_prepared_is_heard_of_by_nobody(speaking: Speaking) -> None:
    speaking.speaker.prepare(1, SETTINGS, "hello")
    await asyncio.sleep(5)
    assert speaking.door.told == []
    assert len(speaking.dialogue) == 0
    assert speaking.events == []
    (asked,) = speaking.llm.requests
    assert asked.messages[-1].content == "hello"
    assert asked.priority is Priority.SPECULATIVE


async def test_what_is_released_comes_out_in_its_order(speaking: Speaking) -> None:
    speaking.speaker.prepare(1, SETTINGS, "hello")
    await asyncio.sleep(30)
    speaking.speaker.release(1)
    assert speaking.door.story == [
        *("reply_started", "reply_began_item", "reply_said", "reply_finished"),
    ]
    assert speaking.events == [ReplySounded(1), ReplyEnded(1, lead_ms=3_000)]
    (item,) = speaking.dialogue
    assert (item.status, item.spoken) == ("completed", True)


async def test_what_is_released_early_goes_on(speaking: Speaking) -> None:
    speaking.speaker.prepare(1, SETTINGS, "hello")
    await asyncio.sleep(0.15)
    speaking.speaker.release(1)
    said = len(speaking.door.told)
    await asyncio.sleep(5)
    assert 1 < said < len(speaking.door.told)
    assert speaking.events == [ReplySounded(1), ReplyEnded(1, lead_ms=1_840)]


@pytest.mark.parametrize("after_s", [0, 0.15, 5])
async def test_what_is_dropped_never_was(speaking: Speaking, after_s: float) -> None:
    speaking.speaker.prepare(1, SETTINGS, "hello")
    await asyncio.sleep(after_s)
    speaking.speaker.drop(1)
    await asyncio.sleep(5)
    speaking.speaker.release(1)
    assert speaking.door.told == ["reply_started"]
    assert len(speaking.dialogue) == 0
    assert speaking.events == []


async def test_a_started_reply_answers_the_dialogue_as_it_stands(speaking: Speaking) -> None:
    speaking.dialogue.add(CallerItem("typed", "hello"))
    speaking.speaker.start(1, SETTINGS)
    assert speaking.door.told == ["reply_started"]
    await asyncio.sleep(5)
    (asked,) = speaking.llm.requests
    assert [message.content for message in asked.messages] == ["Be brief.", "hello"]
    assert asked.priority is Priority.FINAL
    assert speaking.events == [ReplySounded(1), ReplyEnded(1, lead_ms=2_000)]


async def test_a_stopped_reply_falls_silent_in_one_step(speaking: Speaking) -> None:
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(0.3)
    speaking.speaker.stop(1, "turn_detected")
    told = list(speaking.door.told)
    assert told[-1] == "reply_stopped"
    await asyncio.sleep(5)
    assert speaking.door.told == told
    (item,) = speaking.dialogue
    assert item.status == "incomplete"
    assert 0 < item.heard_ms < item.audio_ms


async def test_a_reply_stopped_before_it_said_anything_is_no_item(speaking: Speaking) -> None:
    speaking.speaker.start(1, SETTINGS)
    speaking.speaker.stop(1, "client_cancelled")
    await asyncio.sleep(5)
    assert speaking.door.told == ["reply_started", "reply_stopped"]
    assert len(speaking.dialogue) == 0


async def test_what_the_client_knows_of_the_listener_is_not_written_over(
    speaking: Speaking,
) -> None:
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(2)
    (item,) = speaking.dialogue
    item.cut(250)
    speaking.speaker.pause(1)
    assert item.heard_ms == 250


async def test_a_paused_reply_is_made_on_in_silence_and_goes_on(speaking: Speaking) -> None:
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(0.3)
    speaking.speaker.pause(1)
    told = list(speaking.door.told)
    assert told[-1] == "reply_stopped"
    await asyncio.sleep(5)
    assert speaking.door.told == told
    speaking.speaker.resume(1)
    await asyncio.sleep(5)
    first, second = speaking.dialogue
    assert (first.status, second.status) == ("incomplete", "completed")
    assert f"{first.heard_text} {second.text}".split() == "".join(SENTENCES).split()
    assert speaking.door.told[len(told)] == "reply_started"
    assert speaking.events == [ReplySounded(1), ReplyEnded(1, lead_ms=ANY)]


async def test_a_reply_of_which_nothing_is_left_ends_without_beginning_again(
    speaking: Speaking,
) -> None:
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(10)
    speaking.speaker.pause(1)
    told = list(speaking.door.told)
    speaking.speaker.resume(1)
    assert speaking.door.told == told
    assert speaking.events[-1] == ReplyEnded(1)
    assert len(speaking.dialogue) == 1


async def test_a_paused_reply_that_is_stopped_is_not_told_of_twice(speaking: Speaking) -> None:
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(0.3)
    speaking.speaker.pause(1)
    speaking.speaker.stop(1, "turn_detected")
    await asyncio.sleep(5)
    assert speaking.door.told.count("reply_stopped") == 1
    speaking.speaker.resume(1)
    await asyncio.sleep(5)
    assert "reply_finished" not in speaking.door.told


async def test_the_model_reads_what_was_said_while_the_caller_speaks(speaking: Speaking) -> None:
    speaking.dialogue.add(CallerItem("a", "Who are you?"))
    speaking.speaker.read_ahead(SETTINGS)
    await asyncio.sleep(1)
    request = speaking.llm.requests[0]
    assert [message.content for message in request.messages] == ["Be brief.", "Who are you?"]
    assert (request.max_tokens, request.priority) == (0, Priority.BATCH)
    assert speaking.door.story == [], "nobody hears of it"


async def test_a_model_that_cannot_read_ahead_fails_nothing(speaking: Speaking) -> None:
    def refuse(request: Any) -> Any:
        raise EngineError("llm", "unavailable", "not now")

    speaking.llm.open = refuse
    speaking.speaker.read_ahead(SETTINGS)
    await asyncio.sleep(1)
    assert (speaking.door.story, speaking.events) == ([], [])


async def test_a_long_call_is_summed_up_once_a_reply_has_ended(speaking: Speaking) -> None:
    settings = replace(SETTINGS, context_tokens=1_000)
    for number in range(9):
        speaking.dialogue.add(CallerItem(f"c{number}", f"question {number} " + "x" * 300))
    speaking.speaker.start(1, settings)
    await asyncio.sleep(5)
    _, notes = speaking.llm.requests
    assert notes.priority is Priority.BATCH
    speaking.speaker.start(2, settings)
    await asyncio.sleep(1)
    speaking.speaker.stop(2, "turn_detected")
    await asyncio.sleep(1)
    third = speaking.llm.requests[2]
    assert third.messages[0].content.endswith(SENTENCES[-1].strip())
    assert [message.content[:10] for message in third.messages[1:3]] == ["question 3", "question 4"]


async def test_a_call_that_is_over_lets_go_of_its_echo_guard_at_once(speaking: Speaking) -> None:
    """It is most of what a call holds, and what is left of one goes only when cycles are found."""
    alive = weakref.ref(speaking.speaker.echo)
    speaking.speaker.start(1, SETTINGS)
    await asyncio.sleep(1)
    speaking.speaker.close()
    assert alive() is None
