"""A call from end to end, with scripted engines: what its door is told, and what is left of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import Message, Priority, ToolCallDelta
from engines.scripted import (
    SENTENCES,
    AsrOptions,
    LlmOptions,
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
    tokens_of,
)
from pipelines.conversation.call import MOST_UNDETECTED_MS
from pipelines.conversation.dialogue import AgentItem, CallerItem, SystemItem
from pipelines.conversation.endpoint import EndpointSettings
from pipelines.conversation.events import (
    CommitTurn,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    WindowHeard,
)
from pipelines.conversation.reply import MOST_LEAD_MS, READ_LEAD_MS
from pipelines.conversation.takes import MOST_TAKES

pytestmark = pytest.mark.virtual_clock

TEXT = "".join(SENTENCES)
HEARD = AsrOptions().text
LONG_TEXT = " ".join([TEXT] * 4)
LONG = tokens_of(LONG_TEXT)
MS_PER_WORD = 1000 / 12
RATE, LOUD = 16_000, 8_000


def words_said(door: Any, epoch: int) -> str:
    outputs = [told.args[1] for told in door.all("reply_said")]
    return "".join(o.text for o in outputs if isinstance(o, ReplyText) and o.epoch == epoch)


def audio_said(door: Any) -> list[tuple[float, ReplyAudio]]:
    said = [(told.at_ms, told.args[1]) for told in door.all("reply_said")]
    return [(at, output) for at, output in said if isinstance(output, ReplyAudio)]


class Buggy:
    """An engine with a bug: what it raises is not an EngineError."""

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        raise RuntimeError("a bug in an engine")
        yield


class Stubborn:
    """A voice that takes no notice of being cancelled until it has said all."""

    def __init__(self) -> None:
        self.given = 0
        self.was_cancelled_after: int | None = None

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[AsyncIterator[Pcm]]:
        yield self._speak()

    async def _speak(self) -> AsyncIterator[Pcm]:
        for _ in range(20):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                self.was_cancelled_after = self.given
            self.given += 1
            yield Pcm.silence(100, 24_000)


# --- a turn ---------------------------------------------------------------------------------


async def test_what_is_said_is_heard_answered_and_kept(stage: Any) -> None:
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        door, items = line.door, list(line.call.dialogue)
    assert door.names == [
        *("turn_opened", "turn_committed", "transcript_ready"),
        *("reply_started", "reply_began_item", "reply_said", "reply_finished"),
    ]
    caller, agent = items
    assert (caller.text, caller.spoken) == (HEARD, True)
    assert (agent.text, agent.heard_text, agent.status) == (TEXT, TEXT, "completed")
    assert agent.audio_ms == pytest.approx(3_000)
    assert door.last("turn_opened").args[0] == caller.id
    assert door.last("turn_committed").args[0::2] == (caller, None)
    assert door.last("reply_began_item").args == (agent, caller.id)
    (heard,) = stage.asr.requests
    assert 600 <= heard.pcm.duration_ms <= 600 + 300
    assert heard.pcm.rate == 16_000
    (asked,) = stage.llm.requests
    assert asked.messages == (Message("system", "Be brief."), Message("user", HEARD))
    assert heard.call == asked.call == "call_1"


async def test_a_turn_is_told_of_on_the_clock_of_its_audio(stage: Any) -> None:
    async with stage.call() as line:
        await line.pause(640)
        await line.take_turn()
        door = line.door
        position = line.call.position_ms
    opened, committed = door.last("turn_opened").args[1], door.last("turn_committed").args[1]
    assert opened == pytest.approx(640 - 300, abs=32)
    assert committed == pytest.approx(640 + 600 + 512, abs=32)
    assert position == (640 + 600 + 700) // 32 * 32


async def test_a_second_turn_knows_of_the_first(stage: Any) -> None:
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(3_000)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
    roles = [message.role for message in stage.llm.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert stage.llm.requests[-1].messages[2].content == TEXT


async def test_nothing_understood_is_not_answered(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(text=""))
    async with stage.call() as line:
        await line.take_turn()
        door = line.door
    assert door.names == ["turn_opened", "turn_committed", "transcript_ready"]
    assert stage.llm.requests == []


async def test_a_caller_who_vanishes_in_mid_word_is_answered_all_the_same(stage: Any) -> None:
    async with stage.call() as line:
        await line.speak()
        gone_at = asyncio.get_running_loop().time() * 1000
        committed = await line.door.wait("turn_committed")
        await line.door.wait("reply_finished")
    stall = stage.settings.turns.stall_ms
    assert committed.at_ms - gone_at == pytest.approx(stall, abs=40)


async def test_a_tool_call_reaches_the_door_and_the_dialogue(stage: Any) -> None:
    script = (
        *tokens_of("Let me see."),
        *(ToolCallDelta(0, "call_1", "weather", '{"city":'), ToolCallDelta(0, arguments='"Rome"}')),
    )
    stage.llm.engine = ScriptedLlm(LlmOptions(script=script))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        items = list(line.call.dialogue)
    item, previous = line.door.last("reply_called").args
    assert (item.call.id, item.call.name) == ("call_1", "weather")
    assert item.call.arguments == '{"city":"Rome"}'
    assert items[-1] is item
    assert previous == items[-2].id
    assert line.door.last("reply_finished").args[0].usage.finish_reason == "tool_calls"


async def test_observers_read_along(stage: Any) -> None:
    class Reader:
        def __init__(self) -> None:
            self.events: list[Any] = []
            self.commands: list[Any] = []
            self.outputs: list[Any] = []
            self.stages: list[Any] = []

        def stepped(self, event: Any, commands: Any, now: int) -> None:
            self.events.append(event)
            self.commands.extend(commands)

        def said(self, output: Any, now: float) -> None:
            self.outputs.append(output)

        def staged(self, stages: Any) -> None:
            self.stages.append(stages)

    reader = Reader()
    stage.observers = (reader,)
    stage.llm.engine = ScriptedLlm(LlmOptions(start_delay_ms=100))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        await asyncio.sleep(0)
    windows = [event for event in reader.events if isinstance(event, WindowHeard)]
    assert windows[0].probability == 1.0
    assert windows[0].level_db == pytest.approx(-12.2, abs=0.1)
    assert sum(isinstance(command, CommitTurn) for command in reader.commands) == 1
    assert isinstance(reader.outputs[-1], ReplyFinished)
    (stages,) = reader.stages
    assert stages.first_token - stages.began == pytest.approx(0.1, abs=0.01)
    assert stages.first_token <= stages.first_phrase <= stages.first_audio


# --- working ahead --------------------------------------------------------------------------


def slow_down(stage: Any, each_ms: int = 100) -> None:
    """Every engine takes so long to begin."""
    stage.asr.engine = ScriptedAsr(AsrOptions(start_delay_ms=each_ms))
    stage.llm.engine = ScriptedLlm(LlmOptions(start_delay_ms=each_ms))
    stage.tts.engine = ScriptedTts(TtsOptions(start_delay_ms=each_ms))


async def test_what_was_worked_out_ahead_is_there_when_the_turn_ends(stage: Any) -> None:
    slow_down(stage)
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        door = line.door
    committed_at = door.last("turn_committed").at_ms
    assert audio_said(door)[0][0] == committed_at
    assert stage.llm.asked_at_ms[0] < committed_at - 100
    assert stage.llm.requests[0].priority is Priority.SPECULATIVE
    assert len(stage.asr.requests) == len(stage.llm.requests) == 1


async def test_without_working_ahead_the_stages_come_one_after_the_other(stage: Any) -> None:
    slow_down(stage)
    stage.settings = replace(stage.settings, turns=replace(stage.settings.turns, speculate=False))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
        door = line.door
    assert audio_said(door)[0][0] - door.last("turn_committed").at_ms == pytest.approx(300, abs=5)
    assert stage.llm.requests[0].priority is Priority.FINAL


@pytest.mark.parametrize("pause_ms", [180, 300, 400, 480])
async def test_a_caller_who_goes_on_never_hears_of_the_reply_to_half_a_sentence(
    stage: Any, pause_ms: int
) -> None:
    """The pauses end while it is transcribed, thought about, spoken, and once it is ready."""
    slow_down(stage, 80)
    stage.llm.engine = ScriptedLlm(LlmOptions(start_delay_ms=80, script=LONG))
    async with stage.call() as line:
        await line.speak()
        await line.pause(pause_ms)
        await line.speak(100)
        told_by_then, said_by_then = list(line.door.names), len(line.call.dialogue)
        open_by_then = [engine.open_now for engine in (stage.asr, stage.llm, stage.tts)]
        await line.pause()
        await line.door.wait("reply_finished")
        items = list(line.call.dialogue)
    assert told_by_then == ["turn_opened"]
    assert said_by_then == 0
    assert open_by_then == [0, 0, 0]
    assert [type(item) for item in items] == [CallerItem, AgentItem]
    assert len(line.door.all("reply_started")) == 1
    assert words_said(line.door, line.door.last("reply_started").args[0]) == LONG_TEXT
    assert 700 + pause_ms <= stage.asr.requests[-1].pcm.duration_ms


async def test_a_transcript_that_failed_ahead_is_tried_again(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(fail_code="failed", fail_times=1))
    async with stage.call() as line:
        await line.take_turn()
        await line.door.wait("reply_finished")
    assert [request.priority for request in stage.asr.requests] == [
        Priority.SPECULATIVE,
        Priority.FINAL,
    ]
    assert line.door.all("transcript_failed") == []


# --- interrupting ---------------------------------------------------------------------------


async def test_after_an_interruption_not_one_more_output_gets_out(stage: Any) -> None:
    stubborn = Stubborn()
    stage.tts.engine = stubborn
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(400)
        await line.speak(200)
        await asyncio.sleep(3)
        door = line.door
    assert stubborn.was_cancelled_after is not None
    assert stubborn.given > stubborn.was_cancelled_after + 3  # it did go on
    epoch, reason, item = door.last("reply_stopped").args
    assert (epoch, reason, item.status) == (1, "turn_detected", "incomplete")
    after = door.told[door.told.index(door.last("reply_stopped")) + 1 :]
    assert {told.args[1].epoch for told in after if told.name == "reply_said"} == {2}
    assert {told.args[0].epoch for told in after if told.name == "reply_finished"} <= {2}


async def test_the_model_learns_just_what_was_heard_of_an_interrupted_reply(stage: Any) -> None:
    async with stage.call() as line:
        await line.take_turn()
        started_at = (await line.door.wait("reply_started")).at_ms
        await line.pause(1_000)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
        opened_at = line.door.last("turn_opened").at_ms
    (said,) = [m.content for m in stage.llm.requests[-1].messages if m.role == "assistant"]
    assert TEXT.startswith(said)
    assert len(said.split()) == pytest.approx((opened_at - started_at) / MS_PER_WORD, abs=2)


async def test_a_reply_still_being_made_is_stopped_and_cut(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(script=LONG, item_delay_ms=40))
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(1_500)
        await line.speak(400)
        await line.pause(300)
        door = line.door
        made, said_after = stage.llm.open_now, len(door.all("reply_said"))
        await line.pause(100)
    epoch, reason, item = door.last("reply_stopped").args
    assert (epoch, reason, item.status) == (1, "turn_detected", "incomplete")
    assert door.all("reply_finished") == []
    assert made == 1, "the second only"
    assert len(door.all("reply_said")) == said_after
    assert 0 < len(item.heard_text) < len(item.text) < len(LONG_TEXT)


async def test_what_the_client_says_was_heard_counts_for_more(stage: Any) -> None:
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(1_000)
        await line.speak()
        (reply,) = (item for item in line.call.dialogue if isinstance(item, AgentItem))
        reply.cut(4 * MS_PER_WORD)
        await line.pause()
        await line.door.wait("reply_finished", 2)
    (said,) = [m.content for m in stage.llm.requests[-1].messages if m.role == "assistant"]
    assert said == " ".join(TEXT.split()[: len(said.split())])
    assert 3 <= len(said.split()) <= 5


async def test_a_caller_who_may_not_interrupt_is_answered_after_the_reply(stage: Any) -> None:
    turns = replace(stage.settings.turns, interrupt_response=False)
    stage.settings = replace(stage.settings, turns=turns)
    stage.llm.engine = ScriptedLlm(LlmOptions(script=LONG, item_delay_ms=40))
    async with stage.call() as line:
        await line.take_turn()
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
        items = list(line.call.dialogue)
    assert line.door.all("reply_stopped") == []
    assert words_said(line.door, 1) == words_said(line.door, 2) == LONG_TEXT
    assert [item.heard_ms for item in items if isinstance(item, AgentItem)] == [None, None]


# --- what the client asks for ---------------------------------------------------------------


def manual(stage: Any) -> None:
    stage.settings = replace(stage.settings, turns=replace(stage.settings.turns, detect=False))


async def test_a_client_takes_turns_by_hand(stage: Any) -> None:
    manual(stage)
    async with stage.call() as line:
        await line.take_turn()
        await line.take_turn()
        told_before, buffered = list(line.door.told), line.call.buffered_ms
        line.call.commit()
        await line.door.wait("reply_finished")
        left = line.call.buffered_ms
    assert told_before == []
    assert buffered == 2_600
    assert stage.asr.requests[0].pcm.duration_ms == pytest.approx(2_600, abs=32)
    assert left == 0
    assert line.door.names[:2] == ["turn_committed", "transcript_ready"]


async def test_what_is_cleared_is_never_transcribed(stage: Any) -> None:
    manual(stage)
    async with stage.call() as line:
        await line.speak()
        line.call.clear()
        await line.speak(320)
        line.call.commit()
        await line.door.wait("reply_finished")
    (request,) = stage.asr.requests
    assert request.pcm.duration_ms == pytest.approx(320, abs=32)


async def test_an_open_turn_that_is_cleared_leaves_no_trace(stage: Any) -> None:
    async with stage.call() as line:
        await line.speak()
        await line.pause(300)
        line.call.clear()
        await line.pause(1_000)
        items = list(line.call.dialogue)
    assert line.door.names == ["turn_opened"]
    assert items == []


async def test_turns_left_to_the_client_have_a_bound(stage: Any) -> None:
    manual(stage)
    async with stage.call() as line:
        await line.pause(MOST_UNDETECTED_MS)
        before = line.call.overflowed
        await line.pause(100)
        after, buffered = line.call.overflowed, line.call.buffered_ms
        line.call.clear()
        cleared = line.call.overflowed
    assert (before, after, cleared) == (False, True, False)
    assert buffered == pytest.approx(MOST_UNDETECTED_MS, abs=32)


async def test_turns_that_are_detected_again_begin_afresh(stage: Any) -> None:
    """What was heard while turns were the client's is not part of the next turn, and does not
    count against its bound."""
    detecting = stage.settings
    manual(stage)
    async with stage.call() as line:
        await line.pause(1_000)
        line.call.configure(detecting)
        await line.pause(MOST_UNDETECTED_MS)
        overflowed = line.call.overflowed
        await line.take_turn()
        await line.door.wait("reply_finished")
    (request,) = stage.asr.requests
    assert not overflowed
    assert request.pcm.duration_ms == pytest.approx(600 + 160 + 400, abs=150)


async def test_a_reply_in_text_is_not_spoken(stage: Any) -> None:
    async with stage.call() as line:
        line.call.dialogue.add(CallerItem("typed", "hello"))
        line.call.request_reply(replace(stage.settings, spoken=False, tool_choice="none"))
        asked = line.call.replying
        await line.door.wait("reply_finished")
        ended = line.call.replying
        said = words_said(line.door, 1)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
    assert (asked, ended) == (True, False)
    assert said == TEXT
    assert stage.llm.requests[0].tool_choice == "none"
    assert stage.llm.requests[1].tool_choice == "auto"
    assert audio_said(line.door)[0][1].epoch == 2


async def test_a_client_stops_a_reply(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(script=LONG, item_delay_ms=40))
    async with stage.call() as line:
        line.call.request_reply()
        await line.door.wait("reply_said", 3)
        line.call.cancel_reply()
        await asyncio.sleep(2)
    assert line.door.last("reply_stopped").args[1] == "client_cancelled"
    assert line.door.told[-1].name == "reply_stopped"


async def test_a_reply_that_was_called_off_leaves_its_settings_to_no_other(stage: Any) -> None:
    """Asked for while the caller's words are awaited, and called off before they come."""
    stage.asr.engine = ScriptedAsr(AsrOptions(start_delay_ms=900))
    async with stage.call() as line:
        await line.take_turn()
        line.call.request_reply(replace(stage.settings, spoken=False))
        line.call.cancel_reply()
        await line.door.wait("reply_finished")
    assert audio_said(line.door)


async def test_audio_at_another_rate_is_heard_from_then_on(stage: Any) -> None:
    async with stage.call() as line:
        line.call.set_rate(8_000)
        await line.pause(160)  # twice as long as it was
        position = line.call.position_ms
    assert position == 320


async def test_a_reply_is_never_made_far_ahead_of_its_listener(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(script=tokens_of(" ".join([TEXT] * 10))))
    async with stage.call() as line:
        line.call.request_reply()
        await line.door.wait("reply_finished")
    said = audio_said(line.door)
    began = said[0][0]
    assert sum(output.pcm.duration_ms for _, output in said) == pytest.approx(30_000)
    sent = 0.0
    for at, output in said:
        assert sent - (at - began) <= READ_LEAD_MS + 1
        sent += output.pcm.duration_ms
    assert max(stage.tts.asked_at_ms) - began > 30_000 - MOST_LEAD_MS - 1_500


# --- failures -------------------------------------------------------------------------------


def fail_asr(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(fail_code="unavailable", fail_times=2))


def fail_llm(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(fail_code="unavailable", fail_times=1))


def fail_llm_midway(stage: Any) -> None:
    options = LlmOptions(fail_code="unavailable", fail_times=1, fail_after=20)
    stage.llm.engine = ScriptedLlm(options)


def fail_tts(stage: Any) -> None:
    stage.tts.engine = ScriptedTts(TtsOptions(fail_code="unavailable", fail_times=1))


def fail_tts_midway(stage: Any) -> None:
    options = TtsOptions(fail_code="unavailable", fail_times=1, fail_after=5)
    stage.tts.engine = ScriptedTts(options)


async def test_a_turn_without_words_is_told_of_and_the_next_one_works(stage: Any) -> None:
    fail_asr(stage)
    async with stage.call() as line:
        await line.take_turn()
        failed = await line.door.wait("transcript_failed")
        await line.take_turn()
        await line.door.wait("reply_finished")
    item, reason = failed.args
    assert (item.text, "unset fail_code" in reason) == (None, True)
    roles = [message.role for message in stage.llm.requests[0].messages]
    assert roles == ["system", "user"]
    assert len(line.door.all("reply_started")) == 1


@pytest.mark.parametrize("fail", [fail_llm, fail_llm_midway, fail_tts, fail_tts_midway])
async def test_a_failed_reply_says_why_and_the_next_one_works(
    stage: Any, fail: Callable[[Any], None]
) -> None:
    fail(stage)
    stage.settings = replace(stage.settings, turns=replace(stage.settings.turns, speculate=False))
    async with stage.call() as line:
        await line.take_turn()
        first, item = (await line.door.wait("reply_finished")).args
        await line.pause(2_000)
        await line.take_turn()
        second, _ = (await line.door.wait("reply_finished", 2)).args
    assert first.code == "unavailable"
    assert "unset fail_code" in first.message
    assert item is None or item.status == "incomplete"
    assert (second.code, words_said(line.door, second.epoch)) == ("", TEXT)


async def test_a_reply_that_failed_ahead_of_its_time_is_tried_again(stage: Any) -> None:
    fail_llm(stage)
    async with stage.call() as line:
        await line.take_turn()
        output, _ = (await line.door.wait("reply_finished")).args
    assert (output.code, words_said(line.door, output.epoch)) == ("", TEXT)
    assert len(line.door.all("reply_started")) == 1
    assert len(stage.llm.requests) == 2


async def test_one_call_does_not_fill_the_recognisers_queue(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(start_delay_ms=9_000))
    async with stage.call() as line:
        for _ in range(MOST_TAKES + 2):
            await line.sound(200, LOUD)
            line.call.commit()
        await line.door.wait("transcript_ready", MOST_TAKES)
    assert stage.asr.most_at_once == MOST_TAKES
    reasons = [told.args[1] for told in line.door.all("transcript_failed")]
    assert ["speak more slowly" in reason for reason in reasons] == [True, True]


async def test_a_backlog_is_not_judged_before_a_commit_that_takes_it(stage: Any) -> None:
    async with stage.call() as line:
        line.call.hear(np.full(RATE * 50, LOUD, np.int16))
        line.call.commit()
        judged = stage.ears.windows
        await line.door.wait("transcript_ready")
    assert judged == 0
    (heard,) = stage.asr.requests
    assert heard.pcm.duration_ms >= 50_000
    assert line.door.all("turn_opened") == []


async def test_an_item_that_took_the_id_of_a_turn_gives_way(stage: Any) -> None:
    async with stage.call() as line:
        await line.speak()
        line.call.dialogue.add(SystemItem(line.door.last("turn_opened").args[0], "mine"))
        await line.pause()
        await line.door.wait("reply_finished")
    assert [type(item) for item in line.call.dialogue] == [CallerItem, AgentItem]


@pytest.mark.parametrize("name", ["llm", "tts"])
async def test_an_engine_that_hangs_fails_in_time(stage: Any, name: str) -> None:
    made = {"llm": (ScriptedLlm, LlmOptions), "tts": (ScriptedTts, TtsOptions)}
    engine, options = made[name]
    getattr(stage, name).engine = engine(options(hang_after=1))
    async with stage.call() as line:
        line.call.request_reply()
        output, _ = (await line.door.wait("reply_finished")).args
    assert (output.code, output.message) == ("timeout", f"{name}: nothing came for 30 s")


async def test_a_recogniser_that_hangs_is_given_up_on(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(hang_after=0))
    async with stage.call() as line:
        await line.take_turn()
        committed = line.door.last("turn_committed").at_ms
        failed = await line.door.wait("transcript_failed")
        await asyncio.sleep(0)
        still_open = stage.asr.open_now
    assert failed.at_ms - committed == pytest.approx(15_000, abs=5)
    assert "too long" in failed.args[1]
    assert still_open == 0


async def test_a_turn_ends_in_time_while_the_words_of_another_are_awaited(stage: Any) -> None:
    stage.asr.engine = ScriptedAsr(AsrOptions(hang_after=0))
    async with stage.call() as line:
        await line.take_turn()
        await line.speak()
        gone_at = asyncio.get_running_loop().time() * 1000
        second = await line.door.wait("turn_committed", 2)
    assert second.at_ms - gone_at == pytest.approx(1_000, abs=40)


async def test_a_model_without_an_answer_has_failed(stage: Any) -> None:
    stage.llm.engine = ScriptedLlm(LlmOptions(script=()))
    async with stage.call() as line:
        line.call.request_reply()
        output, item = (await line.door.wait("reply_finished")).args
    assert (output.code, item) == ("empty", None)


# --- bugs -----------------------------------------------------------------------------------


def bugs_of(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [bug for inner in error.exceptions for bug in bugs_of(inner)]
    return [error]


async def end_of(stage: Any, door_bugs: Mapping[str, Exception] | None = None) -> list[str]:
    """What ends a call of one turn that is about to meet a bug."""
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.call() as line:
            line.door.bugs.update(door_bugs or {})
            await line.take_turn()
            await asyncio.sleep(60)
    return [str(bug) for bug in bugs_of(caught.value)]


@pytest.mark.parametrize("name", ["asr", "llm", "tts"])
async def test_a_bug_in_an_engine_ends_its_own_call_and_no_other(stage: Any, name: str) -> None:
    healthy = type(stage)(stage.vad)
    healthy.ears = stage.ears
    getattr(stage, name).engine = Buggy()
    async with healthy.call() as line:
        ended = asyncio.create_task(end_of(stage))
        await line.take_turn()
        assert await ended == ["a bug in an engine"]
        await line.pause(3_000)
        await line.take_turn()
        await line.door.wait("reply_finished", 2)
    assert words_said(line.door, 1) == words_said(line.door, 2) == TEXT


@pytest.mark.parametrize(
    "name",
    [
        *("turn_opened", "turn_committed", "transcript_ready", "reply_started"),
        *("reply_began_item", "reply_said", "reply_finished"),
    ],
)
async def test_a_bug_in_a_door_ends_its_own_call_and_no_other(stage: Any, name: str) -> None:
    async with stage.call() as line:
        ended = asyncio.create_task(end_of(stage, {name: RuntimeError("a bug in a door")}))
        await line.take_turn()
        assert await ended == ["a bug in a door"]
        await line.door.wait("reply_finished")
    assert words_said(line.door, 1) == TEXT


@pytest.mark.parametrize("name", ["turn_committed", "transcript_failed"])
async def test_a_bug_that_shows_when_time_is_up_ends_the_call(stage: Any, name: str) -> None:
    """Both come by a timer here: the caller vanishes, and the recogniser hangs."""
    stage.asr.engine = ScriptedAsr(AsrOptions(hang_after=0))
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.call() as line:
            line.door.bugs[name] = RuntimeError("a bug in a door")
            await line.speak()
            await asyncio.sleep(60)
    assert [str(bug) for bug in bugs_of(caught.value)] == ["a bug in a door"]


async def test_the_first_of_two_bugs_ends_the_call(stage: Any) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.call() as line:
            line.call.crash(RuntimeError("the first"))
            line.call.crash(RuntimeError("the second"))
            await asyncio.sleep(1)
    assert [str(bug) for bug in bugs_of(caught.value)] == ["the first"]


# --- hanging up -----------------------------------------------------------------------------


async def test_nothing_is_left_of_a_call_whenever_it_is_hung_up(stage: Any) -> None:
    slow_down(stage, 60)
    stage.llm.engine = ScriptedLlm(LlmOptions(script=LONG, item_delay_ms=30))
    for hang_up_ms in range(0, 3_600, 30):
        async with stage.call() as line, asyncio.timeout(hang_up_ms / 1000) as patience:
            try:
                await line.take_turn()
                await line.pause(600)
                await line.take_turn()
                await asyncio.sleep(60)
            except TimeoutError:
                pass
            except asyncio.CancelledError:
                assert asyncio.current_task().uncancel() == 0
        assert patience.expired()
        stage.assert_nothing_is_left()


async def test_a_call_that_was_hung_up_hears_no_more(stage: Any) -> None:
    async with stage.call() as line:
        await line.speak()
    told = list(line.door.told)
    await line.speak()
    await asyncio.sleep(60)
    assert line.door.told == told


async def test_a_turn_that_may_be_long_is_heard_to_its_end(stage: Any) -> None:
    endpoint = EndpointSettings(max_turn_ms=150_000)
    turns = replace(stage.settings.turns, endpoint=endpoint, speculate=False)
    stage.settings = replace(stage.settings, turns=turns)
    async with stage.call() as line:
        await line.speak(140_000)
        await line.pause()
        assert not line.call.overflowed
    (asked,) = stage.asr.requests
    assert asked.pcm.duration_ms > 140_000
