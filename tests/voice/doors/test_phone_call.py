"""A call by phone from beginning to end: greeting, keys, interruptions, and every way to end."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.scripted import (
    SENTENCES,
    AsrOptions,
    LlmOptions,
    ScriptedAsr,
    ScriptedLlm,
    TtsOptions,
    tokens_of,
)
from engines.scripted import ScriptedTts as Voice
from pipelines.conversation.dialogue import AgentItem, CallerItem
from pipelines.conversation.lines import LINES
from tests.voice.doors.phoning import Phone, PlainCodec, PlainLine, Watched, now_ms
from voice.admission import Caller
from voice.doors.phone_call import RUNG

pytestmark = pytest.mark.virtual_clock

TEXT = "".join(SENTENCES)
LONG = LlmOptions(script=tokens_of(" ".join([TEXT] * 4)))


def gaps(line: PlainLine, since: float = 0.0) -> list[float]:
    """How long the caller heard nothing between frames of one go, in milliseconds."""
    ends_at, found = 0.0, []
    for at, frame in line.audio:
        if at < since:
            continue
        if ends_at and at > ends_at:
            found.append(at - ends_at)
        ends_at = max(ends_at, at) + len(frame) / 16
    return found


async def test_a_turn_is_heard_and_answered(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg(line=PlainLine(30))) as caller:
        await caller.take_turn()
        await caller.wait(4_000)
        items = caller.dialogue
        assert phone.house.calls == 1
    assert [type(item) for item in items] == [CallerItem, AgentItem]
    assert items[1].heard_text == TEXT
    assert 3_000 <= caller.line.sent_ms <= 3_020
    assert gaps(caller.line) == []
    assert phone.house.calls == 0
    assert vad.slots == set()


async def test_a_greeting_is_said_first_and_kept(vad: Any) -> None:
    phone = Phone(vad, ["phone.greeting=Good morning. Who is calling?"])
    async with phone.call(phone.leg()) as caller:
        await caller.wait(1_500)
        [item] = caller.dialogue
        assert item.text == "Good morning. Who is calling?"
        assert caller.line.sent_ms == pytest.approx(5 * 1_000 / 12, abs=20)
        await caller.take_turn()
        await caller.wait(1_000)
    [asked] = phone.llm.requests
    assert [message.role for message in asked.messages] == ["system", "assistant", "user"]


async def test_a_model_may_greet(vad: Any) -> None:
    phone = Phone(vad, ["phone.model_greets=true"])
    async with phone.call(phone.leg()) as caller:
        await caller.wait(4_000)
    [asked] = phone.llm.requests
    assert asked.messages[-1].content == RUNG
    assert 3_000 <= caller.line.sent_ms <= 3_020


async def test_speech_silences_a_reply_here_and_there_in_one_step(vad: Any) -> None:
    """Field, line 3: what is taken back is the lead, and no more."""
    phone = Phone(vad)
    phone.llm.engine = ScriptedLlm(LONG)
    async with phone.call(phone.leg(line=PlainLine(0))) as caller:
        await caller.take_turn()
        await caller.wait(2_000)
        await caller.sound(600, 8_000)
        [cleared_at] = [at for at, each in caller.line.written if each == "clear"]
        assert [at for at, _ in caller.line.audio if at > cleared_at] == []
        [_, said] = caller.dialogue[:2]
        began = caller.line.audio[0][0]
        assert said.played_ms == pytest.approx(cleared_at - began, abs=21)
        assert said.status == "incomplete"


async def test_a_mark_after_a_clear_does_not_count_as_heard(vad: Any) -> None:
    """Field, line 4: carriers return marks of what they threw away."""
    phone = Phone(vad)
    phone.llm.engine = ScriptedLlm(LONG)
    line = PlainLine(200)
    async with phone.call(phone.leg(line=line)) as caller:
        await caller.take_turn()
        await caller.wait(2_000)
        await caller.sound(400, 8_000)
        [_, said] = caller.dialogue[:2]
        heard_ms = said.played_ms
        [cleared_at] = [at for at, each in line.written if each == "clear"]
        assert heard_ms == pytest.approx(cleared_at - line.audio[0][0] - 200, abs=21)
        for mark in [word for word in line.words if word.startswith("mark ")]:
            caller.leg.take(mark)
        await caller.wait(500)
        assert said.played_ms == heard_ms
    epochs = {word.split("-")[0] for word in line.words if word.startswith("mark ")}
    assert epochs == {"mark e1"}


async def test_a_reply_goes_on_where_a_cough_cut_it(vad: Any) -> None:
    phone = Phone(vad)
    phone.asr.engine = ScriptedAsr(AsrOptions(text="please go on with it"))
    phone.llm.engine = ScriptedLlm(LONG)
    async with phone.call(phone.leg(line=PlainLine(100))) as caller:
        await caller.take_turn()
        await caller.wait(1_500)
        phone.asr.engine = ScriptedAsr(AsrOptions(text=""))
        await caller.sound(400, 8_000)
        await caller.wait(14_000)
        replies = [item for item in caller.dialogue if isinstance(item, AgentItem)]
    assert len(replies) == 2
    said = " ".join(item.heard_text for item in replies)
    assert said.split() == " ".join([TEXT] * 4).split()


# --- keys -----------------------------------------------------------------------------------


async def test_keys_are_answered_like_a_message(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg()) as caller:
        await caller.wait(500)
        for digit in "123#":
            caller.leg.take(f"digit {digit}")
        await caller.wait(1_000)
        typed, answer = caller.dialogue
        assert (typed.text, typed.spoken) == ("[keypad: 1 2 3 #]", False)
        assert isinstance(answer, AgentItem)
    assert phone.asr.requests == []  # they are no speech
    assert phone.llm.requests[-1].messages[-1].content == "[keypad: 1 2 3 #]"


@pytest.mark.parametrize("interrupt", [True, False])
@pytest.mark.parametrize("made", [True, False])
async def test_a_key_over_a_reply_is_never_lost(vad: Any, interrupt: bool, made: bool) -> None:
    """Field, line 14: also where the reply is all made, and only heard."""
    phone = Phone(vad, [f"phone.digits_interrupt={interrupt}"])
    if not made:
        phone.tts.engine = Voice(TtsOptions(item_delay_ms=35))
    async with phone.call(phone.leg(line=PlainLine(0))) as caller:
        await caller.take_turn()
        await caller.wait(1_000)
        pressed_at, before = now_ms(), caller.line.sent_ms
        caller.leg.take("digit 5")
        cleared = "clear" in caller.line.words
        await caller.wait(500)
        silent = caller.line.sent_ms == before
        await caller.wait(8_000)
        items = caller.dialogue
    assert cleared is silent is interrupt
    assert "[keypad: 5]" in [item.text for item in items]
    assert isinstance(items[-1], AgentItem)
    assert items[-1].heard_text == TEXT
    answered_at = min(at for at, _ in caller.line.audio if at > pressed_at + 1_900)
    assert answered_at < pressed_at + (2_200 if interrupt else 6_000)
    [reply] = [item for item in items if isinstance(item, AgentItem)][:1]
    assert (reply.heard_text == TEXT) is not interrupt


@pytest.mark.parametrize("interrupt", [True, False])
async def test_a_key_just_before_a_reply_does_not_wait_for_its_end(
    vad: Any, interrupt: bool
) -> None:
    """sipp's call through Asterisk: the key came while the turn's words were still unknown."""
    phone = Phone(vad, [f"phone.digits_interrupt={interrupt}"])
    phone.asr.engine = ScriptedAsr(AsrOptions(start_delay_ms=1_000))
    phone.llm.engine = ScriptedLlm(LONG)
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        assert caller.line.sent_ms == 0
        caller.leg.take("digit 5")
        await caller.wait(1_800)
        assert caller.line.sent_ms > 0
        await caller.wait(500)
        asked = phone.llm.requests[-1].messages[-1].content
    assert (asked == "[keypad: 5]") is interrupt


async def test_keys_while_the_caller_speaks_neither_end_nor_hold_the_turn(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg()) as caller:
        await caller.sound(400, 8_000)
        for digit in "7#":
            caller.leg.take(f"digit {digit}")
        await caller.sound(400, 8_000)
        await caller.wait(1_500)
        items = caller.dialogue
    assert [getattr(item, "text", "") for item in items][:2] == ["[keypad: 7 #]", AsrOptions().text]
    assert [type(item) for item in items].count(AgentItem) == 1
    assert len(phone.asr.requests) == 1
    assert phone.asr.requests[0].pcm.duration_ms > 700


# --- failures -------------------------------------------------------------------------------

SORRY = "Sorry, something went wrong. Please say that again."


@pytest.mark.parametrize("code", ["failed", "unavailable", "timeout"])
async def test_a_model_that_fails_is_apologised_for_and_the_call_goes_on(
    vad: Any, code: str
) -> None:
    phone = Phone(vad)
    phone.llm.engine = ScriptedLlm(LlmOptions(fail_code=code))
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        await caller.wait(1_500)
        [_, said] = caller.dialogue
        assert (said.text, said.heard_text) == (SORRY, SORRY)
        phone.llm.engine = ScriptedLlm()
        await caller.take_turn()
        await caller.wait(4_000)
        assert caller.dialogue[-1].heard_text == TEXT


async def test_a_model_that_fails_in_the_middle_is_apologised_for_behind_what_it_said(
    vad: Any,
) -> None:
    phone = Phone(vad, ["agent.language=de"])
    most = len(tokens_of(TEXT)) - 2
    failing = LlmOptions(item_delay_ms=50, fail_after=most, fail_code="failed")
    phone.llm.engine = ScriptedLlm(failing)
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        await caller.wait(6_000)
        said, apology = [item for item in caller.dialogue if isinstance(item, AgentItem)]
    assert said.heard_text == said.text
    assert TEXT.startswith(said.text.strip())
    assert apology.heard_text == LINES["de"]["sorry"]
    assert [gap for gap in gaps(caller.line) if gap > 1e-3] == []


async def test_the_apology_is_what_the_settings_say(vad: Any) -> None:
    phone = Phone(vad, ["phone.apology=One moment, I was distracted."])
    phone.llm.engine = ScriptedLlm(LlmOptions(fail_code="failed"))
    async with phone.call(phone.leg()) as caller:
        caller.leg.take("digit #")
        await caller.wait(1_500)
        assert caller.dialogue[-1].heard_text == "One moment, I was distracted."


@pytest.mark.parametrize("greeting", ["", "Good morning."])
async def test_a_voice_that_fails_is_a_tone_and_the_call_goes_on(vad: Any, greeting: str) -> None:
    phone = Phone(vad, [f"phone.greeting={greeting}"])
    phone.tts.engine = Voice(TtsOptions(fail_code="failed"))
    async with phone.call(phone.leg()) as caller:
        if not greeting:
            await caller.take_turn()
        await caller.wait(1_500)
        assert caller.line.sent_ms == 1_000  # two tries, one tone, and a frame's rest
        heard = np.frombuffer(b"".join(frame for _, frame in caller.line.audio), np.int16)
        assert np.abs(heard.astype(int)).max() > 2_000
        phone.tts.engine = Voice()
        await caller.take_turn()
        await caller.wait(4_000)
        assert caller.dialogue[-1].heard_text == TEXT
        assert caller.line.sent_ms == pytest.approx(4_000, abs=20)


async def test_words_that_nobody_could_make_out_are_apologised_for(vad: Any) -> None:
    phone = Phone(vad)
    phone.asr.engine = ScriptedAsr(AsrOptions(fail_code="failed"))
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        await caller.wait(1_500)
        assert caller.dialogue[-1].heard_text == SORRY
    assert phone.llm.requests == []


async def test_who_speaks_over_an_apology_is_answered(vad: Any) -> None:
    phone = Phone(vad, [f"phone.apology={TEXT}"])
    phone.llm.engine = ScriptedLlm(LlmOptions(fail_code="failed"))
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        phone.llm.engine = ScriptedLlm()
        await caller.wait(100)
        await caller.take_turn()
        await caller.wait(3_500)
        apology, answer = [item for item in caller.dialogue if isinstance(item, AgentItem)]
    assert apology.status == "incomplete"
    assert answer.heard_text == TEXT


# --- the end --------------------------------------------------------------------------------


async def test_a_farewell_is_played_out_before_the_line_is_closed(vad: Any) -> None:
    """Field, line 11."""
    phone = Phone(vad, ["turns.idle_ms=2000", "turns.hang_up_ms=2000"])
    line = PlainLine(150)
    async with phone.call(phone.leg(line=line)) as caller:
        began = now_ms()
        while not caller.serving.done():
            await caller.sound(20, 0)
        ended = now_ms()
    assert line.words[-1] == "bye"
    last = line.audio[-1][0]
    bye_at = line.written[-1][0]
    assert bye_at >= last + 20 + 100  # its lead was heard, and the last mark has come back
    assert bye_at <= last + 180 + 150 + 50
    assert ended - bye_at <= 1_030  # nobody closed the line: its last word was waited for
    assert ended - began < 15_000
    assert phone.house.calls == 0


@pytest.mark.parametrize("at_ms", [0, 40, 300, 700, 1_320, 1_600, 3_000, 6_000])
async def test_whenever_the_caller_hangs_up_nothing_is_left(vad: Any, at_ms: int) -> None:
    phone = Phone(vad, ["phone.greeting=Hello."])
    async with phone.call(phone.leg()) as caller:
        if at_ms >= 1_320:
            await caller.take_turn()
        await caller.wait(at_ms % 1_300)
        caller.leg.take("stop the caller hung up")
        ended = now_ms()
        await caller.serving
        assert now_ms() - ended < 10
    assert "bye" not in caller.line.words
    assert phone.house.calls == 0
    assert phone.house.open_calls == set()
    assert vad.slots == set()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    loop = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


async def test_a_call_that_stands_when_the_server_ends_is_hung_up(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg()) as caller:
        await caller.take_turn()
        caller.serving.cancel()
        await asyncio.wait([caller.serving])
        assert caller.line.words[-1] == "bye"
        assert phone.house.calls == 0


async def test_where_there_is_no_room_the_busy_tone_says_so(
    vad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="voice.doors.handshake")
    phone = Phone(vad, ["admission.max_calls=1"])
    async with phone.call(phone.leg()) as first:
        leg, began = phone.leg(line=PlainLine(0)), now_ms()
        async with phone.call(leg) as second:
            await asyncio.wait([second.serving])
            assert now_ms() - began == pytest.approx(4_000 + 1_000, abs=40)
        assert second.line.sent_ms == 4_000
        assert second.line.words[-1] == "bye"
        assert first.house.calls == 1
        leg = phone.leg()
        async with phone.call(leg) as third:  # who hangs up hears no more of it
            await asyncio.sleep(1)
            leg.take("stop")
            await third.serving
            assert third.line.sent_ms <= 1_180
    assert phone.house.calls == 0
    assert "a phone call of default was refused: server_full" in caplog.messages


async def test_who_comes_before_the_models_are_warm_hears_that_it_is_busy(vad: Any) -> None:
    phone = Phone(vad)
    phone.house.ready = False
    async with phone.call(phone.leg(line=PlainLine(0))) as caller:
        await asyncio.wait([caller.serving])
        assert caller.line.sent_ms == 4_000
    assert phone.llm.requests == []


async def test_who_waits_for_room_may_hang_up(vad: Any) -> None:
    phone = Phone(vad, ["admission.max_calls=1", "admission.waiting=1"])
    async with phone.call(phone.leg()):
        leg = phone.leg()
        async with phone.call(leg) as second:
            await asyncio.sleep(1)
            leg.take("stop")
            await second.serving
        assert second.line.written == []
    assert phone.house.calls == 0
    assert phone.house.reception.admission().waiting == 0


async def test_a_tenant_begins_no_more_calls_than_its_allowance(vad: Any) -> None:
    limits = ["tenants.a.keys=k", "tenants.a.sessions_per_minute=1", "tenants.a.requests_per_minute=1"]  # fmt: skip  # noqa: E501
    phone = Phone(vad, limits, caller=Caller("a", phone=True))
    async with phone.call(phone.leg()) as first:
        for _ in range(2):
            first.leg.take("digit #")
            await first.wait(4_000)
        assert len(phone.llm.requests) == 1
        said = first.line.sent_ms
        async with phone.call(phone.leg(line=PlainLine(0))) as second:
            await asyncio.wait([second.serving])
            assert second.line.sent_ms == 4_000
        assert phone.house.calls == 1
    assert said == pytest.approx(3_000 + len(SORRY.split()) * 1_000 / 12, abs=40)


async def test_phones_have_a_share_of_their_own(vad: Any) -> None:
    phone = Phone(vad, ["admission.max_calls=2", "admission.phone_share=0.5"])

    async def nobody() -> None: ...

    other = phone.house.reception.admit(Caller(), PlainLine(), nobody)
    async with other, phone.call(phone.leg()):
        assert phone.house.calls == 2


async def test_who_sends_faster_than_time_is_hung_up_on(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg()) as caller:
        for _ in range(70):
            caller.leg.take("audio 1000 0")
        await asyncio.wait([caller.serving])
        assert caller.leg.misbehaved
    assert phone.house.calls == 0


class Buggy:
    def open(self, request: Any) -> Any:
        raise RuntimeError("a bug in an engine")


async def test_a_bug_ends_the_call_and_frees_its_place(vad: Any) -> None:
    phone = Phone(vad, llm=Watched(Buggy()))
    async with phone.call(phone.leg()) as caller:
        caller.leg.take("digit #")
        await asyncio.wait([caller.serving])
        assert caller.serving.exception() is not None
        assert caller.line.words[-1] == "bye"
    assert phone.house.calls == 0


async def test_nothing_of_the_caller_is_logged(vad: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    phone = Phone(vad)
    async with phone.call(phone.leg()) as caller:
        for digit in "4929#":
            caller.leg.take(f"digit {digit}")
        await caller.wait(1_000)
    assert "4 9 2 9" not in caplog.text
    assert "4929" not in caplog.text
    assert "has come in over plain" in caplog.text


def all_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("tell", [True, False])
async def test_the_model_is_told_who_calls_unless_it_shall_not(
    vad: Any, caplog: Any, tell: bool, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    phone = Phone(vad, [f"phone.tell_caller={tell}", f"journal.dir={tmp_path}"])
    async with phone.call(phone.leg(), "start from=+15550100 customer=4711") as caller:
        caller.leg.take("digit #")
        await caller.wait(1_000)
    phone.house.records.close()
    [asked] = phone.llm.requests
    instructions = str(asked.messages[0].content)
    assert instructions.startswith(phone.house.config.agent.instructions)
    assert ('"caller":"+15550100"' in instructions) is tell
    assert ('"customer":"4711"' in instructions) is tell
    written = all_of(tmp_path)
    assert b'"settings"' in written
    for secret in ("+15550100", "15550100", "4711"):
        assert secret not in caplog.text
        assert secret.encode() not in written


async def test_a_rate_that_no_ear_converts_is_heard_all_the_same(vad: Any) -> None:
    phone = Phone(vad)
    async with phone.call(phone.leg(PlainCodec(heard_rate=44_100))) as caller:
        await caller.take_turn()
        await caller.wait(500)
    [heard] = phone.asr.requests
    assert heard.pcm.rate == 16_000
    assert heard.pcm.duration_ms >= 600
    assert caller.line.sent_ms > 0


async def test_audio_may_come_at_another_rate_from_some_moment_on(vad: Any) -> None:
    phone, codec = Phone(vad), PlainCodec()
    async with phone.call(phone.leg(codec)) as caller:
        await caller.wait(200)
        codec._heard_rate = 16_000
        await caller.take_turn()
        await caller.wait(500)
    [heard] = phone.asr.requests
    assert 600 <= heard.pcm.duration_ms <= 1_000


async def test_a_wire_without_marks_or_clear_is_served_by_the_clock(vad: Any) -> None:
    phone = Phone(vad)
    phone.llm.engine = ScriptedLlm(LONG)
    leg = phone.leg(PlainCodec(marks=False, clears=False, paced=True))
    async with phone.call(leg) as caller:
        await caller.take_turn()
        await caller.wait(2_000)
        await caller.sound(600, 8_000)
        said = caller.dialogue[1]
        assert said.played_ms == pytest.approx(caller.line.sent_ms, abs=21)
        before = caller.line.sent_ms
        await caller.sound(300, 8_000)
        assert caller.line.sent_ms == before
    assert [word for word in caller.line.words if word != "bye"] == []
