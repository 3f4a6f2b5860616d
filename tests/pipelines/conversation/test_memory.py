"""Long calls: what notes are taken of, when, and what the model reads before and after."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.llm import smollm2
from engines.models import ModelStore
from engines.ports import (
    ChatRequest,
    Delta,
    EngineError,
    Image,
    Message,
    Priority,
    TextDelta,
    Tool,
    ToolCall,
    Usage,
)
from pipelines.conversation.dialogue import (
    AgentItem,
    CallerItem,
    Dialogue,
    Hosted,
    Item,
    SystemItem,
    ToolCallItem,
    ToolResultItem,
)
from pipelines.conversation.heard import Span
from pipelines.conversation.memory import (
    KEPT_TURNS,
    MOST_NOTES_TOKENS,
    PATIENCE_S,
    TOKENS_PER_IMAGE,
    Memory,
    fitted,
    oldest,
    tokens,
    tokens_of,
    tokens_of_tools,
)
from pipelines.conversation.ports import CallSettings

SETTINGS = CallSettings(instructions="Be brief.", context_tokens=1_000)


def caller(number: int, text: str | None = "") -> CallerItem:
    return CallerItem(f"c{number}", text if text is None else f"question {number} {text}")


def agent(number: int, text: str = "") -> AgentItem:
    return AgentItem(f"a{number}", [Span(f"answer {number} {text}", 0, 0)], status="completed")


def turns(*numbers: int, text: str = "") -> list[Item]:
    return [item for n in numbers for item in (caller(n, text), agent(n, text))]


def call(name: str) -> ToolCallItem:
    return ToolCallItem(f"call-{name}", ToolCall(name, f"look_up_{name}", "{}"))


def hosted(name: str, output: str | None = None) -> ToolCallItem:
    item = call(name)
    item.hosted = Hosted("house", name, output)
    return item


def result(name: str, output: str = "found") -> ToolResultItem:
    return ToolResultItem(f"result-{name}", name, output)


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


# --- how much it is -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("The capital of France is Paris.", 9), ("東京は日本の首都です", 9), ("\ud800", 1)],
)
def test_tokens_are_guessed_from_bytes(text: str, expected: int) -> None:
    assert tokens(text) == expected


def test_calls_and_tools_count() -> None:
    plain = Message("assistant", "hm")
    calling = replace(plain, tool_calls=(ToolCall("1", "look_up", '{"name": "Anna"}'),))
    assert tokens_of([calling]) > tokens_of([plain]) > 0
    pictured = replace(plain, images=(Image("data:image/png;base64,AAAA"),))
    assert tokens_of([pictured]) == tokens_of([plain]) + TOKENS_PER_IMAGE
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    tool = Tool("look_up", "Finds a customer.", schema)
    assert tokens_of_tools([tool]) > tokens_of_tools([replace(tool, parameters={})]) > 5
    assert tokens_of_tools([]) == 0


# --- what notes are taken of ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        (turns(1, 2), []),
        ([agent(0), *turns(1, 2)], []),
        (turns(1, 2, 3), ["c1", "a1"]),
        ([agent(0), *turns(1, 2, 3)], ["a0", "c1", "a1"]),
        ([SystemItem("s", "Be kind."), *turns(1, 2, 3)], ["c1", "a1"]),
        ([caller(1, None), agent(1), *turns(2, 3)], ["a1"]),
        (
            [caller(1), call("x"), result("x"), agent(1), *turns(2, 3)],
            ["c1", "call-x", "result-x", "a1"],
        ),
        ([caller(1), call("x"), *turns(2, 3), result("x")], ["c1"]),
        ([caller(1), call("x"), *turns(2, 3)], ["c1"]),
        ([caller(1), hosted("x"), *turns(2, 3)], ["c1"]),
        ([caller(1), hosted("x", "42"), *turns(2, 3)], ["c1", "call-x"]),
        ([caller(1), result("x"), *turns(2), caller(3), call("x")], ["c1"]),
        ([caller(1), result("x"), *turns(2, 3)], ["c1", "result-x"]),
    ],
)
def test_notes_are_taken_of_old_turns_alone(items: list[Item], expected: list[str]) -> None:
    assert ids(oldest(items, 1_000, kept_turns=2)) == expected


def test_notes_are_taken_of_so_much_at_a_time_but_of_a_turn_at_least() -> None:
    items = turns(*range(10), text="x" * 300)
    assert ids(oldest(items, 500, kept_turns=2)) == ["c0", "a0", "c1", "a1"]
    assert ids(oldest(items, 1, kept_turns=2)) == ["c0", "a0"]


# --- what is left out -----------------------------------------------------------------------


def said(*texts: str) -> list[Message]:
    roles = itertools.cycle(("user", "assistant"))
    return [Message(next(roles), text) for text in texts]  # type: ignore[arg-type]


def test_what_fits_is_left_alone() -> None:
    messages = said("a", "b", "c")
    assert fitted(messages, tokens_of(messages)) == tuple(messages)


def test_the_oldest_turns_are_left_out_and_no_system_message() -> None:
    system = Message("system", "Be kind.")
    messages = [*said("a" * 350, "b" * 350), system, *said("c" * 350, "d" * 350, "e")]
    assert fitted(messages, 300) == (system, *messages[3:])
    assert fitted(messages, 50) == (system, messages[-1])


def test_several_turns_go_at_once_so_that_the_next_prompt_begins_alike() -> None:
    messages = said(*(f"{number:0>30}" for number in range(41)))
    first = fitted(messages, 400)
    longer = [*messages, *said("one", "more")[1:], Message("user", "and one")]
    assert fitted(longer, 400)[: len(first)] == first


def test_a_last_turn_that_is_too_long_is_cut_in_the_middle() -> None:
    asked = Message("user", "What does it say?")
    calling = Message("assistant", "", (ToolCall("1", "read", "{}"),))
    found = Message("tool", "begin" + "x" * 9_000 + "end", tool_call_id="1")
    left = fitted([*said("old", "older"), asked, calling, found], 200)
    assert left[:2] == (asked, calling)
    assert (left[2].content[:5], left[2].content[-3:]) == ("begin", "end")
    assert 150 < tokens_of(left) <= 200


def test_instructions_that_are_too_long_stay_whole() -> None:
    system = Message("system", "x" * 1_000)
    assert fitted([system, Message("user", "hi")], 50) == (system, Message("user", "hi"))
    assert fitted([system], 50) == (system,)


# --- any dialogue ------------------------------------------------------------------------------


@st.composite
def dialogues(draw: st.DrawFn) -> list[Item]:
    kinds = draw(st.lists(st.sampled_from("scccaaatr"), max_size=40))
    items: list[Item] = []
    open_calls: list[str] = []
    for number, kind in enumerate(kinds):
        text = "word " * draw(st.integers(0, 60))
        if kind == "s":
            items.append(SystemItem(f"s{number}", f"rule {number}"))
        elif kind == "c":
            items.append(caller(number, text))
        elif kind == "a":
            items.append(agent(number, text))
        elif kind == "t":
            open_calls.append(str(number))
            items.append(call(str(number)))
        elif open_calls:
            items.append(result(open_calls.pop(draw(st.integers(0, len(open_calls) - 1))), text))
    return items


def dialogue_of(items: list[Item]) -> Dialogue:
    dialogue = Dialogue()
    for item in items:
        dialogue.add(item)
    return dialogue


def assert_calls_are_answered(messages: tuple[Message, ...]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [tool_call.id for tool_call in message.tool_calls]
    assert waiting == []


def assert_in_order(part: tuple[Message, ...], whole: tuple[Message, ...]) -> None:
    rest = iter(whole)
    assert all(any(message == other for other in rest) for message in part)


@given(dialogues(), st.integers(100, 2_000))
def test_what_is_read_is_never_too_long_and_in_order(items: list[Item], room: int) -> None:
    whole = dialogue_of(items).messages("Be brief.", "and now?")
    read = fitted(whole, room)
    instructions = tuple(message for message in whole if message.role == "system")
    assert tokens_of(read) <= max(room, tokens_of(instructions) + 40)
    assert tuple(message for message in read if message.role == "system") == instructions
    assert read[-1] == Message("user", "and now?")
    assert_calls_are_answered(read)
    assert_in_order(read, whole)


@given(dialogues(), st.integers(1, 2_000), st.integers(1, 8))
def test_what_notes_are_taken_of_leaves_a_dialogue_in_order(
    items: list[Item], room: int, kept: int
) -> None:
    old = ids(oldest(items, room, kept))
    left = [item for item in items if item.id not in old]
    assert ids([item for item in items if item.id in old]) == old, "the order"
    starts = [place for place, item in enumerate(items) if isinstance(item, CallerItem)]
    last = items[starts[-kept] :] if len(starts) >= kept else items
    assert left[len(left) - len(last) :] == last, "the last turns"
    assert {item.id for item in items if isinstance(item, SystemItem)}.isdisjoint(old)
    calls = {item.call.id for item in left if isinstance(item, ToolCallItem)}
    results = {item.call_id for item in left if isinstance(item, ToolResultItem)}
    assert results <= calls, "no result without its call"
    answered = {item.call_id for item in items if isinstance(item, ToolResultItem)}
    assert calls & answered <= results, "no call without its result"
    assert_calls_are_answered(dialogue_of(items).messages(without=set(old)))


# --- notes of a call ---------------------------------------------------------------------------


@dataclass
class Scribe:
    """An Llm that writes these notes once it may."""

    notes: list[Any]
    may_write: asyncio.Event = field(default_factory=asyncio.Event)
    has_written: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[ChatRequest] = field(default_factory=list)
    open_now: int = 0

    @asynccontextmanager
    async def open(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        self.requests.append(request)
        self.open_now += 1
        try:
            yield self._write(self.notes.pop(0) if len(self.notes) > 1 else self.notes[0])
        finally:
            self.open_now -= 1
            self.has_written.set()

    async def _write(self, notes: Any) -> AsyncIterator[Delta]:
        await self.may_write.wait()
        if isinstance(notes, Exception):
            raise notes
        for word in notes.split(" "):
            yield TextDelta(f"{word} ")
        yield Usage()


@dataclass
class Remembering:
    memory: Memory
    dialogue: Dialogue
    scribe: Scribe

    def talk(self, *numbers: int, text: str = "x" * 140) -> None:
        for item in turns(*numbers, text=text):
            self.dialogue.add(item)

    async def write(self) -> None:
        """Whoever has begun to take notes may finish."""
        self.scribe.may_write.set()
        await self.scribe.has_written.wait()
        self.scribe.may_write.clear()
        self.scribe.has_written.clear()

    def read(self) -> list[str]:
        return [message.content for message in self.memory.messages(SETTINGS)]


@pytest.fixture
async def remembering() -> AsyncIterator[Remembering]:
    dialogue, scribe = Dialogue(), Scribe(["Anna wants a table."])
    async with asyncio.TaskGroup() as tasks:
        memory = Memory(dialogue, scribe, tasks, "call_1")  # type: ignore[arg-type]
        yield Remembering(memory, dialogue, scribe)
        memory.close()
    assert scribe.open_now == 0


async def test_a_short_call_is_read_as_it_is(remembering: Remembering) -> None:
    remembering.talk(1, 2, 3)
    remembering.memory.maintain(SETTINGS)
    await asyncio.sleep(0)
    assert remembering.scribe.requests == []
    assert remembering.memory.messages(SETTINGS, (), "hm") == remembering.dialogue.messages(
        "Be brief.", "hm"
    )


async def test_no_notes_are_taken_of_the_last_turns_however_long_they_are(
    remembering: Remembering,
) -> None:
    remembering.talk(*range(KEPT_TURNS), text="x" * 400)
    remembering.memory.maintain(SETTINGS)
    await asyncio.sleep(0)
    assert remembering.scribe.requests == []


async def test_notes_stand_for_the_old_turns(remembering: Remembering) -> None:
    remembering.talk(*range(9))
    before = remembering.read()
    remembering.memory.maintain(SETTINGS)
    await asyncio.sleep(0)
    assert remembering.read() == before, "nothing waits for them"
    await remembering.write()
    instructions, *rest = remembering.read()
    assert instructions.startswith("Be brief.\n\n")
    assert instructions.endswith("\nAnna wants a table.")
    assert rest == before[-2 * KEPT_TURNS :]
    assert len(remembering.dialogue) == 18, "the client's items stay"


async def test_notes_are_asked_for_without_haste(remembering: Remembering) -> None:
    remembering.talk(*range(9))
    settings = replace(SETTINGS, language="de", temperature=0.5)
    remembering.memory.maintain(settings)
    await remembering.write()
    (request,) = remembering.scribe.requests
    assert (request.priority, request.call) == (Priority.BATCH, "call_1")
    assert (request.tools, request.temperature) == ((), 0.5)
    assert 0 < (request.max_tokens or 0) <= MOST_NOTES_TOKENS
    assert tokens_of(request.messages) + (request.max_tokens or 0) < SETTINGS.context_tokens
    how, what = request.messages
    assert "in the language de" in how.content
    assert what.content.startswith("Notes so far:\nnone\n\nSaid since:\nCaller: question 0 ")
    assert "\nAgent: answer 2 " in what.content
    assert "question 3" not in what.content


async def test_tools_are_in_the_notes_too(remembering: Remembering) -> None:
    remembering.dialogue.add(caller(0))
    remembering.dialogue.add(call("x"))
    remembering.dialogue.add(result("x", "42 tables"))
    remembering.talk(*range(1, 9))
    remembering.memory.maintain(SETTINGS)
    await remembering.write()
    assert "\nAgent calls look_up_x: {}\nResult: 42 tables\n" in (
        remembering.scribe.requests[0].messages[1].content
    )


async def test_what_was_done_elsewhere_is_in_the_notes_with_its_result(
    remembering: Remembering,
) -> None:
    remembering.dialogue.add(caller(0))
    remembering.dialogue.add(hosted("x", "42 tables"))
    remembering.talk(*range(1, 9))
    remembering.memory.maintain(SETTINGS)
    await remembering.write()
    assert "\nAgent calls look_up_x: {}\nResult: 42 tables\n" in (
        remembering.scribe.requests[0].messages[1].content
    )


async def test_notes_are_folded_into_the_next(remembering: Remembering) -> None:
    remembering.scribe.notes = ["First notes.", "Second notes."]
    remembering.talk(*range(9))
    remembering.memory.maintain(SETTINGS)
    await remembering.write()
    remembering.talk(*range(9, 14))
    remembering.memory.maintain(SETTINGS)
    await remembering.write()
    first, second = remembering.scribe.requests
    said_since = second.messages[1].content
    assert said_since.startswith("Notes so far:\nFirst notes.\n\nSaid since:\nCaller: question 3 ")
    instructions, *rest = remembering.read()
    assert instructions.endswith("\nSecond notes.")
    assert len(rest) == 2 * KEPT_TURNS
    assert first.messages[0] == second.messages[0]


async def test_one_takes_notes_at_a_time(remembering: Remembering) -> None:
    remembering.talk(*range(9))
    for _ in range(3):
        remembering.memory.maintain(SETTINGS)
        await asyncio.sleep(0)
    assert len(remembering.scribe.requests) == 1


async def test_the_oldest_turns_are_left_out_until_there_are_notes(
    remembering: Remembering, caplog: pytest.LogCaptureFixture
) -> None:
    remembering.talk(*range(20))
    for _ in range(2):
        messages = remembering.memory.messages(SETTINGS, (), "and now?")
        assert tokens_of(messages) <= SETTINGS.context_tokens
        assert messages[0].content == "Be brief."
        assert messages[-1].content == "and now?"
    (warning,) = caplog.messages
    assert "agent.context_tokens (1000)" in warning


async def test_tools_leave_less_room(remembering: Remembering) -> None:
    remembering.talk(*range(8))
    tools = [Tool(f"tool{number}", "what it does " * 10) for number in range(12)]
    messages = remembering.memory.messages(SETTINGS, tools)
    assert tokens_of(messages) + tokens_of_tools(tools) <= SETTINGS.context_tokens
    assert len(messages) < len(remembering.memory.messages(SETTINGS))


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        (EngineError("llm", "unavailable", "it is gone"), "llm: it is gone"),
        ("  ", "the model wrote none"),
        ("word " * 2_000, "the model wrote more than was said"),
    ],
)
async def test_notes_that_fail_are_told_once_and_tried_again(
    remembering: Remembering, caplog: pytest.LogCaptureFixture, notes: Any, why: str
) -> None:
    remembering.scribe.notes = [notes, notes, "At last."]
    remembering.talk(*range(9))
    for attempt in range(3):
        assert not remembering.read()[0].endswith("At last."), attempt
        remembering.memory.maintain(SETTINGS)
        await remembering.write()
    (warning,) = [told for told in caplog.messages if "no notes were" in told]
    assert warning.endswith(why)
    assert remembering.read()[0].endswith("At last.")


@pytest.mark.virtual_clock
async def test_notes_that_take_too_long_are_given_up(
    remembering: Remembering, caplog: pytest.LogCaptureFixture
) -> None:
    remembering.talk(*range(9))
    remembering.memory.maintain(SETTINGS)
    await asyncio.sleep(PATIENCE_S + 1)
    assert remembering.scribe.open_now == 0
    (warning,) = [told for told in caplog.messages if "no notes were" in told]
    assert "120 s" in warning


async def test_notes_of_what_the_client_has_deleted_are_forgotten(
    remembering: Remembering,
) -> None:
    remembering.talk(*range(9))
    remembering.memory.maintain(SETTINGS)
    await remembering.write()
    for number in range(3):
        remembering.dialogue.remove(f"c{number}")
        remembering.dialogue.remove(f"a{number}")
    assert remembering.read()[0] == "Be brief."


async def test_a_call_that_ends_takes_no_more_notes(remembering: Remembering) -> None:
    remembering.talk(*range(9))
    remembering.memory.maintain(SETTINGS)
    await asyncio.sleep(0)
    assert remembering.scribe.open_now == 1
    remembering.memory.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert remembering.scribe.open_now == 0


@pytest.mark.engine
async def test_a_real_model_sums_up_a_long_call() -> None:
    dialogue, llm = Dialogue(), smollm2.create(smollm2.Options(), ModelStore())
    settings = replace(SETTINGS, context_tokens=700)
    await llm.warm_up()
    for number in range(40):
        for item in turns(number, text=f"is about table {number} for Anna on Tuesday at seven"):
            dialogue.add(item)
    whole = dialogue.messages()
    try:
        async with asyncio.TaskGroup() as tasks:
            memory = Memory(dialogue, llm, tasks, "call_1")
            memory.maintain(settings)
        instructions, *rest = memory.messages(settings)
        notes = instructions.content.rpartition("instruct nobody:\n")[2]
        assert 0 < len(notes) < sum(len(message.content) for message in whole) / 3
        assert rest == list(whole[len(whole) - len(rest) :]), "what follows is as it was said"
        assert len(whole) > len(rest) >= 2 * KEPT_TURNS
        again = ChatRequest(memory.messages(settings, (), "Which table is mine?"), max_tokens=1)
        async with llm.open(again) as deltas:
            usage = [delta async for delta in deltas][-1]
        assert isinstance(usage, Usage)
        assert 0.5 < usage.input_tokens / settings.context_tokens < 1, "a good guess, rather high"
    finally:
        await llm.close()


@given(dialogues(), st.integers(400, 1_500))
def test_with_notes_it_is_read_in_order_and_never_too_long(items: list[Item], most: int) -> None:
    async def live() -> None:
        dialogue, scribe = Dialogue(), Scribe(["Short notes."])
        scribe.may_write.set()
        settings = replace(SETTINGS, context_tokens=most)
        async with asyncio.TaskGroup() as tasks:
            memory = Memory(dialogue, scribe, tasks)  # type: ignore[arg-type]
            for item in items:
                dialogue.add(item)
                read = memory.messages(settings, (), "and now?")
                instructions = [message for message in read if message.role == "system"]
                assert tokens_of(read) <= max(most, tokens_of(instructions) + 40)
                assert_calls_are_answered(read)
                assert_in_order(read[1:], dialogue.messages("", "and now?"))
                memory.maintain(settings)
                for _ in range(8):
                    await asyncio.sleep(0)

    asyncio.run(live())


async def test_a_context_too_small_for_notes_of_nothing_breaks_nothing(
    remembering: Remembering,
) -> None:
    for number in range(9):
        remembering.dialogue.add(CallerItem(f"c{number}", ""))
        remembering.dialogue.add(AgentItem(f"a{number}", status="incomplete"))
    remembering.memory.maintain(CallSettings(instructions="x" * 500, context_tokens=100))
    await asyncio.sleep(1)
