"""A call whose caller makes sounds while the agent speaks: what is cut, and what goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, SpeechRequest, Tool, ToolCallDelta, Transcript
from engines.scripted import LlmOptions, ScriptedLlm, ScriptedTts, TtsOptions, tokens_of
from pipelines.conversation.dialogue import AgentItem, ToolCallItem, ToolResultItem
from pipelines.conversation.events import ReplyAudio, ReplyText
from pipelines.conversation.lines import LINES
from tests.pipelines.conversation.conftest import NotingDoor, now_ms

pytestmark = pytest.mark.virtual_clock

STORY = " ".join(f"Then came the {number}th of many days." for number in range(4, 20))


class Hears:
    """A recogniser that hears one text after the other, then always the last."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        del request
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        yield self._hear(text)

    async def _hear(self, text: str) -> AsyncIterator[Transcript]:
        yield Transcript(text, "en")


@pytest.fixture
def story(stage: Any) -> Any:
    """A stage whose agent tells a long story to whatever it hears."""
    stage.llm.engine = ScriptedLlm(LlmOptions(script=tokens_of(STORY), item_delay_ms=5))
    return stage


def replies(line: Any) -> list[AgentItem]:
    return [item for item in line.call.dialogue if isinstance(item, AgentItem)]


async def interrupt_in_vain(line: Any, after_ms: int) -> None:
    """Let a story be told, and say "mm-hm" to it."""
    await line.take_turn()
    await line.pause(after_ms)
    await line.speak(400)
    await line.pause(400)


def told(line: Any) -> list[str]:
    """What the model believes that its caller has heard."""
    return " ".join(item.heard_text for item in replies(line)).split()


async def test_a_sign_of_listening_makes_the_reply_go_on_where_it_was_cut(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await interrupt_in_vain(line, 2_000)
        resumed_at = (await line.door.wait("reply_started", 2)).at_ms
        opened_at = line.door.last("turn_opened").at_ms
        await line.door.wait("reply_finished")
        first, second = replies(line)
        heard = first.heard_text
        door = line.door
    assert resumed_at - opened_at < 450, "as soon as it is clear"
    assert f"{heard} {second.text}".split() == STORY.split(), "every word once"
    assert (first.status, second.status) == ("incomplete", "completed")
    assert door.last("turn_committed").args[0].text == "Mm-hm."
    assert len(story.llm.requests) == 1, "nobody answers a sign of listening"


async def test_a_short_sound_while_the_agent_speaks_is_never_heard_of(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "[cough]")
    async with story.call() as line:
        await line.take_turn()
        await line.pause(2_000)
        await line.speak(120)
        await line.pause(2_000)
        names = line.door.names
    assert names.count("turn_opened") == 1
    assert "reply_stopped" not in names


class Rustling(ScriptedTts):
    """A voice whose sound never repeats, as a tone does."""

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        draw = np.random.default_rng(len(request.text))

        async def rustle() -> AsyncIterator[Pcm]:
            for _ in range(2 * len(request.text.split())):
                loud = draw.uniform(1_000, 6_000)
                yield Pcm((loud * draw.standard_normal(1_000)).astype(np.int16), 24_000)

        yield rustle()


async def test_the_agents_own_voice_in_the_microphone_interrupts_nobody(story: Any) -> None:
    turns = replace(story.settings.turns, echo_guard=True)
    story.settings = replace(story.settings, turns=turns)
    story.tts.engine = Rustling()
    story.asr.engine = Hears("Tell me.", "Then came the")
    door = NotingDoor()
    async with story.call(door) as line:
        line.call.set_rate(24_000)
        line.call.request_reply()
        await door.wait("reply_said", 2)
        for _ in range(200):
            said = [t.args[1] for t in door.all("reply_said") if isinstance(t.args[1], ReplyAudio)]
            played = np.concatenate([output.pcm.samples for output in said])
            heard = 24 * int(now_ms() - door.last("reply_started").at_ms) - 24 * 120
            echo = played[max(0, heard - 480) : max(0, heard)] // 4
            line.call.hear(np.pad(echo, (480 - len(echo), 0)).astype(np.int16))
            await asyncio.sleep(0.02)
        assert "reply_stopped" not in door.names
        assert "turn_opened" not in door.names


async def test_words_cut_the_reply_for_good(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "No, stop that.")
    async with story.call() as line:
        await line.take_turn()
        await line.pause(2_000)
        await line.speak(500)
        silent_from = line.door.last("reply_stopped").at_ms
        await line.pause(700)
        second = await line.door.wait("reply_started", 2)
        first, asked = replies(line)[0], story.llm.requests[-1].messages
    said = [told for told in line.door.all("reply_said") if told.args[1].epoch == 1]
    assert said[-1].at_ms <= silent_from
    assert second.args == (2,)
    assert [message.content for message in asked[-2:]] == [first.heard_text, "No, stop that."]


async def test_what_the_client_says_was_heard_is_where_it_goes_on(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await line.take_turn()
        await line.pause(2_000)
        await line.speak(400)
        (first,) = replies(line)
        first.cut(500)
        await line.pause(400)
        await line.door.wait("reply_finished")
        second = replies(line)[1]
    assert f"{first.heard_text} {second.text}".split() == STORY.split()
    assert len(first.heard_text.split()) < 8


@pytest.mark.parametrize("word_ms", [20, 75, 95])
@pytest.mark.parametrize("after_ms", [300, 1_000, 2_150, 2_990])
async def test_no_word_is_lost_or_said_twice_while_its_sound_is_still_being_made(
    story: Any, word_ms: int, after_ms: int
) -> None:
    """Of a voice at any pace, some slower than speech (83 ms a word)."""
    story.tts.engine = ScriptedTts(TtsOptions(item_delay_ms=word_ms * 40 / 83, start_delay_ms=150))
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await interrupt_in_vain(line, after_ms)
        await line.door.wait("reply_finished")
        assert len(replies(line)) == 2
        assert told(line) == STORY.split()


@pytest.mark.parametrize("late_ms", [0, 300, 60_000])
async def test_a_client_s_word_that_comes_too_late_adds_nothing_that_is_said_again(
    story: Any, late_ms: int
) -> None:
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await interrupt_in_vain(line, 2_000)
        first, _ = replies(line)
        first.cut(first.audio_ms + late_ms)
        await line.door.wait("reply_finished")
        assert told(line) == STORY.split()


async def test_a_client_s_word_that_comes_too_late_takes_away_what_was_missed(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await interrupt_in_vain(line, 2_000)
        first, second = replies(line)
        known = first.heard_text.split()
        first.cut(first.audio_ms - 300)
        await line.door.wait("reply_finished")
        heard = first.heard_text.split()
    assert heard == known[: len(heard)]
    assert 2 <= len(known) - len(heard) <= 5
    assert second.heard_text.split() == STORY.split()[len(known) :], "it goes on where it did"


async def test_a_written_reply_that_is_cut_in_vain_is_written_once(story: Any) -> None:
    story.settings = replace(story.settings, spoken=False)
    story.llm.engine = ScriptedLlm(LlmOptions(script=tokens_of(STORY), item_delay_ms=50))
    story.asr.engine = Hears("Tell me.", "Mm-hm.")
    async with story.call() as line:
        await interrupt_in_vain(line, 1_000)
        await line.door.wait("reply_finished")
        assert len(replies(line)) == 2
        assert told(line) == STORY.split()


async def test_a_reply_that_is_cut_again_and_again_is_told_whole(story: Any) -> None:
    story.asr.engine = Hears("Tell me.", "Yeah.")
    async with story.call() as line:
        await line.take_turn()
        for _ in range(5):
            await line.pause(1_500)
            await line.speak(320)
        await line.pause(1_000)
        await line.door.wait("reply_finished")
        assert told(line) == STORY.split()


async def test_an_idle_caller_is_asked_and_the_call_ends(stage: Any) -> None:
    turns = replace(stage.settings.turns, idle_ms=3_000, hang_up_ms=2_000)
    stage.settings = replace(stage.settings, turns=turns, language="de")
    async with stage.call() as line:
        await line.pause(100)
        await line.door.wait("hung_up")
        texts = [
            told.args[1].text
            for told in line.door.all("reply_said")
            if isinstance(told.args[1], ReplyText)
        ]
        finished = line.door.last("reply_finished").at_ms
    assert "".join(texts).startswith(LINES["de"]["still_there"])
    assert LINES["de"]["farewell"].split()[-1] in "".join(texts)
    assert line.door.last("hung_up").at_ms > finished, "the farewell was heard"
    assert len(line.door.all("caller_idle")) == 1


def calling(name: str, arguments: str) -> LlmOptions:
    call = ToolCallDelta(0, "call_1", name, arguments)
    return LlmOptions(script=(*tokens_of("Your number, please?"), call))


async def test_a_model_chooses_how_long_it_waits_for_the_answer(stage: Any) -> None:
    stage.settings = replace(stage.settings, own_tools=("expect_answer",))
    stage.llm.engine = ScriptedLlm(calling("expect_answer", '{"kind": "digits"}'))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        await line.pause(4_000)
        await line.speak()
        began = line.call.position_ms
        await line.pause(2_000)
        committed = line.door.last("turn_committed").args[1]
        items = list(line.call.dialogue)
    assert committed - began > 900, "longer than the settings say"
    assert [type(item) for item in items if isinstance(item, ToolCallItem | ToolResultItem)] == [
        *(ToolCallItem, ToolResultItem)
    ] * (len(items) // 4 or 1)
    assert line.door.all("reply_called") == [], "it is nobody else's business"
    assert "expect_answer" in [tool.name for tool in stage.llm.requests[0].tools]


async def test_a_line_that_is_dead_from_the_beginning_is_hung_up(stage: Any) -> None:
    turns = replace(stage.settings.turns, idle_ms=3_000, hang_up_ms=2_000)
    stage.settings = replace(stage.settings, turns=turns)
    async with stage.call() as line:
        began = now_ms()
        asked = await line.door.wait("caller_idle")
        await line.door.wait("hung_up")
    assert asked.at_ms - began == pytest.approx(3_000, abs=20)


def only_calls(*names: str) -> LlmOptions:
    calls = tuple(ToolCallDelta(n, f"call_{n}", name, "{}") for n, name in enumerate(names))
    return LlmOptions(script=calls, tool_script=calls)


async def test_a_model_that_only_hangs_up_is_asked_for_words_once(stage: Any) -> None:
    stage.settings = replace(stage.settings, own_tools=("hang_up",))
    stage.llm.engine = ScriptedLlm(only_calls("hang_up"))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("hung_up")
    assert len(stage.llm.requests) == 2


async def test_a_model_that_never_has_words_is_asked_once_in_each_turn(stage: Any) -> None:
    stage.settings = replace(stage.settings, own_tools=("expect_answer",))
    stage.llm.engine = ScriptedLlm(only_calls("expect_answer"))
    async with stage.call() as line:
        for turns in (1, 2):
            await line.take_turn()
            await line.pause(5_000)
            assert len(stage.llm.requests) == 2 * turns


async def test_a_model_that_waits_for_a_client_is_not_asked_before_the_client_asks(
    stage: Any,
) -> None:
    stage.settings = replace(stage.settings, own_tools=("expect_answer",))
    stage.llm.engine = ScriptedLlm(only_calls("expect_answer", "lookup"))
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(1_000)
        assert len(stage.llm.requests) == 1
        assert not line.call.replying


async def test_a_client_s_tool_stands_in_for_ours_of_the_same_name(stage: Any) -> None:
    theirs = Tool("hang_up", "Ends the call.", {})
    stage.settings = replace(stage.settings, own_tools=("hang_up",), tools=(theirs,))
    stage.llm.engine = ScriptedLlm(calling("hang_up", "{}"))
    async with stage.call() as line:
        await line.take_turn()
        called = await line.door.wait("reply_called")
    assert called.args[0].call.name == "hang_up"
    assert stage.llm.requests[0].tools == (theirs,)


async def test_what_was_worked_out_under_other_settings_is_not_let_out(stage: Any) -> None:
    async with stage.call() as line:
        await line.speak()
        await line.pause(300)
        line.call.configure(replace(stage.settings, spoken=False, instructions="Write."))
        await line.pause(400)
        await line.door.wait("reply_finished")
        (said,) = [item for item in line.call.dialogue if isinstance(item, AgentItem)]
    assert [asked.messages[0].content for asked in stage.llm.requests] == ["Be brief.", "Write."]
    assert not said.spoken


async def test_a_model_hangs_up_once_it_was_heard(stage: Any) -> None:
    stage.settings = replace(stage.settings, own_tools=("hang_up",))
    stage.llm.engine = ScriptedLlm(calling("hang_up", "{}"))
    async with stage.call() as line:
        await line.take_turn()
        ended = await line.door.wait("hung_up")
    first = line.door.all("reply_said")[0]
    assert ended.at_ms - first.at_ms == pytest.approx(3 * 1_000 / 12, abs=30)
