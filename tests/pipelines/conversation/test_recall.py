"""What the documents say is told for one turn, in time or not at all."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engines.ports import ChatRequest, EngineError, Message, Priority, Tool, ToolCall
from engines.scripted import AsrOptions, ScriptedAsr
from pipelines.conversation.memory import tokens_of
from pipelines.conversation.recall import Recall, informed
from pipelines.conversation.recalled import Citation, ReplyRecalled
from pipelines.memory.settings import MemorySettings
from pipelines.memory.store import Found

pytestmark = pytest.mark.virtual_clock

BREAKFAST = Found("house.md", "Meals, line 3", "Meals\nBreakfast is from seven to ten.", 0.8)
QUESTION = "when is breakfast served please"


class Documents:
    """Knows one passage; gives it as late or as wrongly as it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.settings = MemorySettings(**settings)
        self.takes_s = 0.0
        self.fails = False
        self.found: tuple[Found, ...] = (BREAKFAST,)
        self.asked: list[tuple[str, str, Priority]] = []
        self.open_now = 0

    async def find(self, words: str, call: str, priority: Priority) -> tuple[Found, ...]:
        self.asked.append((words, call, priority))
        self.open_now += 1
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.open_now -= 1
        if self.fails:
            raise EngineError("memory", "failed", "the disk is gone")
        return self.found


@dataclass
class Recalling:
    documents: Documents
    recall: Recall

    async def inform(self, words: str = QUESTION, room: int = 6_000) -> Any:
        return await self.recall.inform(chat_of(words), words, 7, room)


def chat_of(*said: str, tools: tuple[Tool, ...] = ()) -> ChatRequest:
    """A system message, and then the caller and the agent by turns, the caller last."""
    roles = ("user", "assistant")
    messages = [
        Message(roles[(len(said) - 1 - n) % 2], text)  # type: ignore[arg-type]
        for n, text in enumerate(said)
    ]
    return ChatRequest((Message("system", "Be brief."), *messages), tools)


@pytest.fixture
async def recalling() -> AsyncIterator[Recalling]:
    documents = Documents()
    async with asyncio.TaskGroup() as tasks:
        recall = Recall(documents, tasks, "call_1")
        yield Recalling(documents, recall)
        recall.close()
    assert documents.open_now == 0


async def test_what_is_found_stands_before_the_words_and_is_cited(recalling: Recalling) -> None:
    chat, told = await recalling.inform()
    assert chat.messages[0] == Message("system", "Be brief.")
    content = chat.messages[-1].content
    assert content.index("house.md, Meals, line 3: Meals") < content.index(QUESTION)
    assert content.endswith(f"The caller says: {QUESTION}")
    cited = (Citation("house.md", "Meals, line 3", 0.8),)
    assert told == ReplyRecalled(7, QUESTION, "found", 0.0, cited)
    assert recalling.documents.asked == [(QUESTION, "call_1", Priority.FINAL)]


async def test_nothing_found_changes_nothing(recalling: Recalling) -> None:
    recalling.documents.found = ()
    chat, told = await recalling.inform()
    assert chat == chat_of(QUESTION)
    assert (told.outcome, told.citations) == ("nothing", ())


async def test_what_is_late_is_left_out(recalling: Recalling) -> None:
    recalling.documents.takes_s = 10
    began = asyncio.get_running_loop().time()
    chat, told = await recalling.inform()
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.15)
    assert chat == chat_of(QUESTION)
    assert (told.outcome, told.waited_ms) == ("late", pytest.approx(150))


async def test_what_fails_is_no_failure_of_the_call(
    recalling: Recalling, caplog: pytest.LogCaptureFixture
) -> None:
    recalling.documents.fails = True
    chat, told = await recalling.inform()
    assert chat == chat_of(QUESTION)
    assert told.outcome == "failed"
    assert "the disk is gone" in caplog.text


async def test_what_was_asked_ahead_is_not_asked_again(recalling: Recalling) -> None:
    recalling.documents.takes_s = 0.1
    read: list[Any] = []
    recalling.recall.look_ahead("When is breakfast served, please?", "en", read.append)
    await asyncio.sleep(0.08)
    chat, told = await recalling.inform()
    assert told.waited_ms == pytest.approx(20)
    assert "from seven to ten" in chat.messages[-1].content
    assert read == [(BREAKFAST,)]
    assert [priority for _, _, priority in recalling.documents.asked] == [Priority.SPECULATIVE]


async def test_other_words_are_asked_anew(recalling: Recalling) -> None:
    recalling.documents.takes_s = 0.1
    read: list[Any] = []
    recalling.recall.look_ahead("when is breakfast", "en", read.append)
    await asyncio.sleep(0.05)
    _, told = await recalling.inform()
    assert told.waited_ms == pytest.approx(100)
    assert read == []
    assert recalling.documents.open_now == 0, "nobody wants the first any more"


async def test_what_failed_ahead_is_told_once(recalling: Recalling) -> None:
    recalling.documents.fails = True
    read: list[Any] = []
    recalling.recall.look_ahead(QUESTION, "en", read.append)
    await asyncio.sleep(1)
    _, told = await recalling.inform()
    assert told.outcome == "failed"
    assert read == []


@pytest.mark.parametrize("words", ["", "mm-hm", "yeah", "okay", "[cough]"])
async def test_signs_of_listening_ask_nothing(recalling: Recalling, words: str) -> None:
    recalling.recall.look_ahead(words, "en", lambda found: None)
    assert recalling.recall.question(chat_of(words), "en") == ""
    await asyncio.sleep(1)
    assert recalling.documents.asked == []


async def test_the_question_is_the_callers_last_words_if_nobody_has_answered_them() -> None:
    called = Message("assistant", "", (ToolCall("c1", "weather", "{}"),))
    given = Message("tool", "sunny", tool_call_id="c1")
    async with asyncio.TaskGroup() as tasks:
        recall = Recall(Documents(), tasks, "call_1")
        asked = chat_of("hello there", "Hello!", QUESTION)
        assert recall.question(asked, "en") == QUESTION
        after_tool = ChatRequest((*asked.messages, called, given))
        assert recall.question(after_tool, "en") == QUESTION
        answered = ChatRequest((*asked.messages, Message("assistant", "At seven.")))
        assert recall.question(answered, "en") == ""
        assert recall.question(ChatRequest((Message("system", "Greet."),)), "en") == ""
        recall.close()


async def test_without_documents_nothing_is_asked() -> None:
    async with asyncio.TaskGroup() as tasks:
        recall = Recall(None, tasks, "call_1")
        recall.look_ahead(QUESTION, "en", lambda found: None)
        assert recall.question(chat_of(QUESTION), "en") == ""
        recall.close()


def test_the_beginning_of_the_dialogue_makes_room() -> None:
    before = [f"turn {n} " + "word " * 40 for n in range(20)]
    chat = chat_of(*before, QUESTION)
    whole = informed(chat, (BREAKFAST,), 60_000)
    assert len(whole.messages) == len(chat.messages)
    short = informed(chat, (BREAKFAST,), 600)
    assert tokens_of(short.messages) <= 600
    assert short.messages[0] == chat.messages[0]
    assert short.messages[-1] == whole.messages[-1]
    tool = Tool("weather", "tells the weather " * 40)
    assert len(
        informed(chat_of(*before, QUESTION, tools=(tool,)), (BREAKFAST,), 600).messages
    ) < len(short.messages)


# --- in a call ------------------------------------------------------------------------------


class Reader:
    def __init__(self) -> None:
        self.recalled: list[tuple[float, ReplyRecalled]] = []

    def stepped(self, event: Any, commands: Any, now: int) -> None: ...

    def said(self, output: Any, now: float) -> None:
        if isinstance(output, ReplyRecalled):
            self.recalled.append((now, output))

    def staged(self, stages: Any) -> None: ...


async def test_a_turn_is_answered_with_what_was_found_and_the_next_knows_nothing_of_it(
    stage: Any,
) -> None:
    stage.knowledge, reader = Documents(), Reader()
    stage.observers = (reader,)
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        stage.knowledge.found = ()
        stage.asr.engine = ScriptedAsr(AsrOptions(text="and where may I park my car"))
        await asyncio.sleep(10)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
        kept = line.call.messages(stage.settings)
    first, second = stage.llm.requests
    assert "from seven to ten" in first.messages[-1].content
    assert not any("from seven to ten" in message.content for message in second.messages)
    assert not any("from seven to ten" in message.content for message in kept)
    assert [told.outcome for _, told in reader.recalled] == ["found", "nothing"]
    assert reader.recalled[0][1].epoch == 1


async def test_looking_up_adds_nothing_to_a_turn_that_was_worked_out_ahead(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(text=QUESTION, start_delay_ms=100))
    committed, heard = [], []
    for documents in (None, Documents()):
        stage.knowledge = documents
        if documents is not None:
            documents.takes_s = 0.1
        async with stage.call() as line:
            await line.take_turn()
            await line.door.wait("reply_finished")
            committed.append(line.door.last("turn_committed").at_ms)
            heard.append(line.door.all("reply_said")[1].at_ms)
    assert heard[0] - committed[0] == heard[1] - committed[1] == 0


async def test_a_call_goes_on_while_its_documents_are_slow(stage: Any) -> None:
    stage.knowledge, reader = Documents(deadline_ms=50), Reader()
    stage.knowledge.takes_s = 60
    stage.observers = (reader,)
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
    assert reader.recalled[0][1].outcome == "late"
    assert "from seven" not in stage.llm.requests[0].messages[-1].content


async def test_what_is_found_for_the_words_so_far_is_read_ahead(stage: Any) -> None:
    stage.knowledge = Documents()
    stage.asr.engine = ScriptedAsr(AsrOptions(text=QUESTION, start_delay_ms=120))
    turns = replace(stage.settings.turns, partials=True, partial_ms=200)
    stage.settings = replace(stage.settings, turns=turns)
    read: list[ChatRequest] = []
    opened = stage.llm.engine.open
    stage.llm.engine.open = lambda request: read.append(request) or opened(request)
    async with stage.call() as line:
        await line.speak(1_500)
        await line.pause()
        await line.door.wait("reply_finished")
    ahead = [chat for chat in read if chat.max_tokens == 0]
    (asked,) = (chat for chat in read if chat.max_tokens != 0)
    assert "from seven to ten" in ahead[-1].messages[-1].content
    assert ahead[-1].messages == asked.messages
    assert ahead[-1].priority is Priority.BATCH
    assert len(stage.knowledge.asked) == 1, "the words were the same"


async def test_of_a_typed_megabyte_the_beginning_is_looked_up(recalling: Recalling) -> None:
    typed = QUESTION + " and so on" * 100_000
    asked = recalling.recall.question(chat_of(typed), "en")
    assert len(asked) == 2_000
    assert typed.startswith(asked)
    recalling.recall.look_ahead(typed, "en", lambda found: None)
    _, told = await recalling.inform(asked)
    assert (told.words, told.outcome) == (asked, "found")
    assert len(recalling.documents.asked) == 1
