"""One reply by itself: what it puts, in which order, and how it fails."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.audio import Mark, Pcm
from engines.ports import ChatRequest, EngineError, Message, Priority, ToolCallDelta, Usage
from engines.scripted import (
    SENTENCES,
    LlmOptions,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
    tokens_of,
)
from pipelines.conversation.events import (
    Output,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    ReplyToolCall,
)
from pipelines.conversation.pieces import MOST_AUDIO_MS
from pipelines.conversation.pulse import Pulse
from pipelines.conversation.reply import (
    MOST_CHARACTERS,
    MOST_TOOL_CALLS,
    READ_LEAD_MS,
    Reply,
    ReplyPlan,
)

pytestmark = pytest.mark.virtual_clock

PLAN = ReplyPlan(7, ChatRequest((Message("user", "hello"),), priority=Priority.SPECULATIVE))


async def outputs_of(
    llm: Any = None, tts: Any = None, plan: ReplyPlan = PLAN, lead_ms: float = 0
) -> list[Output]:
    outputs: list[Output] = []
    reply = Reply(
        plan,
        llm or ScriptedLlm(),
        tts or ScriptedTts(),
        put=lambda output: outputs.append(output) or True,
        lead_ms=lambda: lead_ms,
    )
    await reply.run()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return outputs


class Voice:
    """Gives the same audio for every phrase, and notes what it was asked."""

    def __init__(self, *pieces: Pcm) -> None:
        self.pieces = pieces
        self.requests: list[Any] = []

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[AsyncIterator[Pcm]]:
        self.requests.append(request)
        yield self._speak()

    async def _speak(self) -> AsyncIterator[Pcm]:
        for piece in self.pieces:
            yield piece


async def test_each_word_keeps_its_mark_though_the_audio_is_levelled_and_sliced() -> None:
    second = np.full(24_000, 3_000, np.int16)
    voice = Voice(Pcm(second, 24_000, (Mark(3, 150), Mark(7, 200), Mark(12, 650))))
    llm = ScriptedLlm(LlmOptions(script=("It's $5.",)))
    text, *audio = [output for output in await outputs_of(llm, voice) if output.epoch == 7][:-1]
    assert text == ReplyText(7, "It's $5.", "It's five dollars.")
    marks = [(output.pcm.duration_ms, output.pcm.marks) for output in audio]
    assert marks == [
        (200, (Mark(3, 150), Mark(7, 200))),
        (200, ()),
        (200, ()),
        (200, (Mark(12, 50),)),
        (200, ()),
    ]


async def test_each_phrase_is_put_just_before_its_audio() -> None:
    outputs = await outputs_of()
    assert {output.epoch for output in outputs} == {7}
    assert outputs[-1] == ReplyFinished(7, Usage(1, 36, 0, "stop"))
    texts = [output.text for output in outputs if isinstance(output, ReplyText)]
    assert "".join(texts) == "".join(SENTENCES)
    assert len(texts) > 3
    for output, after in itertools.pairwise(outputs):
        if isinstance(output, ReplyText):
            assert isinstance(after, ReplyAudio)


async def test_the_voice_is_asked_as_the_plan_says() -> None:
    voice = Voice(Pcm.silence(40, 24_000))
    await outputs_of(tts=voice, plan=replace(PLAN, voice="mia", speed=1.25))
    for request in voice.requests:
        assert (request.voice, request.speed) == ("mia", 1.25)
        assert request.priority is Priority.SPECULATIVE


async def test_what_is_written_is_told_and_its_spoken_form_is_said() -> None:
    voice = Voice(Pcm.silence(40, 24_000))
    script = "**Sure.** It costs $5.20.\n```py\nx = 1\n```\nSo <laugh> 😀 it is.\n"
    outputs = await outputs_of(
        ScriptedLlm(LlmOptions(script=tokens_of(script))),
        voice,
        replace(PLAN, language="en-GB"),
    )
    written = [output.text for output in outputs if isinstance(output, ReplyText)]
    assert "".join(written) == script
    assert [request.text for request in voice.requests] == [
        "Sure.",
        "It costs five dollars and twenty cents.",
        "A block of code.",
        "So <laugh> it is.",
    ]


async def test_a_reply_is_read_in_its_language() -> None:
    voice = Voice(Pcm.silence(40, 24_000))
    script = (ScriptedLlm(LlmOptions(script=("Ja.\n```\nx\n```\n",))), voice)
    await outputs_of(*script, replace(PLAN, language="de"))
    assert [request.text for request in voice.requests] == ["Ja.", "Ein Stück Code."]


async def test_phrases_come_out_as_loud_as_one_another() -> None:
    class Uneven(Voice):
        async def _speak(self) -> AsyncIterator[Pcm]:
            level = (4_000, 2_800)[len(self.requests) % 2]
            yield Pcm(np.tile(np.array([level, -level], np.int16), 6_000), 24_000)

    script = ScriptedLlm(LlmOptions(script=("One.\n" * 12,)))
    outputs = await outputs_of(script, Uneven())
    levels = [np.abs(o.pcm.samples).max() for o in outputs if isinstance(o, ReplyAudio)]
    assert levels[0] == 2_800
    assert max(levels[-4:]) < 1.15 * min(levels[-4:])


async def test_audio_goes_out_in_short_slices_and_whole() -> None:
    samples = np.arange(24_000, dtype=np.int16)
    outputs = await outputs_of(
        ScriptedLlm(LlmOptions(script=("Hello.",))), Voice(Pcm(samples, 24_000))
    )
    slices = [output.pcm for output in outputs if isinstance(output, ReplyAudio)]
    assert len(slices) == 5
    assert all(pcm.duration_ms <= MOST_AUDIO_MS for pcm in slices)
    assert np.array_equal(np.concatenate([pcm.samples for pcm in slices]), samples)


async def test_words_that_have_no_sound_are_put_all_the_same() -> None:
    outputs = await outputs_of(ScriptedLlm(LlmOptions(script=("(nods)",))), Voice())
    assert outputs[0] == ReplyText(7, "(nods)", "(nods)")
    assert isinstance(outputs[1], ReplyFinished)


async def test_a_written_reply_gives_the_model_words_as_they_come() -> None:
    outputs = await outputs_of(tts=Voice(), plan=replace(PLAN, spoken=False))
    assert [output.text for output in outputs[:-1]] == list(tokens_of("".join(SENTENCES)))


async def test_tool_calls_come_whole_and_last() -> None:
    script = (
        ToolCallDelta(0, "a", "time"),
        "One moment.",
        ToolCallDelta(1, "b", "weather", '{"x'),
        ToolCallDelta(0, arguments="{}"),
        ToolCallDelta(1, arguments='":1}'),
    )
    outputs = await outputs_of(ScriptedLlm(LlmOptions(script=script)))
    *said, first, second, finished = outputs
    assert any(isinstance(output, ReplyAudio) for output in said)
    assert isinstance(first, ReplyToolCall)
    assert (first.call.id, first.call.name, first.call.arguments) == ("a", "time", "{}")
    assert (second.call.id, second.call.name, second.call.arguments) == ("b", "weather", '{"x":1}')
    assert finished.usage.finish_reason == "tool_calls"


async def test_who_wants_one_call_at_a_time_gets_one() -> None:
    script = (ToolCallDelta(0, "a", "time"), ToolCallDelta(1, "b", "weather"))
    chat = replace(PLAN.chat, parallel_tools=False)
    plan = replace(PLAN, chat=chat)
    outputs = await outputs_of(ScriptedLlm(LlmOptions(script=script)), plan=plan)
    assert [o.call.id for o in outputs if isinstance(o, ReplyToolCall)] == ["a"]


async def test_a_tool_call_without_words_is_an_answer() -> None:
    outputs = await outputs_of(ScriptedLlm(LlmOptions(script=(ToolCallDelta(0, "a", "time"),))))
    assert [type(output) for output in outputs] == [ReplyToolCall, ReplyFinished]
    assert outputs[-1].code == ""


async def test_the_model_writes_on_while_the_voice_speaks() -> None:
    llm = ScriptedLlm(LlmOptions(item_delay_ms=50))
    tts = ScriptedTts(TtsOptions(start_delay_ms=100))
    began = asyncio.get_running_loop().time()
    outputs = await outputs_of(llm, tts)
    phrases = sum(isinstance(output, ReplyText) for output in outputs)
    elapsed = asyncio.get_running_loop().time() - began
    assert phrases > 3
    assert elapsed == pytest.approx(37 * 0.05 + 0.1, abs=0.06)  # only the last phrase adds to it


@pytest.mark.parametrize("after", [0, 1, 20])
async def test_a_model_that_fails_is_told_of_last(after: int) -> None:
    llm = ScriptedLlm(LlmOptions(fail_code="rate_limited", fail_after=after))
    outputs = await outputs_of(llm)
    assert isinstance(outputs[-1], ReplyFinished)
    assert outputs[-1].code == "rate_limited"
    assert outputs[-1].message.startswith("scripted llm: ")
    assert sum(isinstance(output, ReplyFinished) for output in outputs) == 1


@pytest.mark.parametrize(
    "script",
    [
        ("no end \n" * 100,) * (MOST_CHARACTERS // 800 + 1),
        (ToolCallDelta(0, "c", "f", "x" * 1_000),) * (MOST_CHARACTERS // 1_000 + 1),
        tuple(ToolCallDelta(index, f"c{index}", "f") for index in range(MOST_TOOL_CALLS + 1)),
    ],
)
async def test_an_answer_that_does_not_end_is_a_failure(script: tuple[Any, ...]) -> None:
    outputs = await outputs_of(
        ScriptedLlm(LlmOptions(script=script)), plan=replace(PLAN, spoken=False)
    )
    assert isinstance(outputs[-1], ReplyFinished)
    assert outputs[-1].code == "bad_response"
    assert not any(isinstance(output, ReplyToolCall) for output in outputs)


async def test_a_voice_that_fails_stops_the_model() -> None:
    llm = ScriptedLlm(LlmOptions(item_delay_ms=1_000))
    tts = ScriptedTts(TtsOptions(fail_code="failed"))
    began = asyncio.get_running_loop().time()
    outputs = await outputs_of(llm, tts)
    assert [type(output) for output in outputs] == [ReplyFinished]
    assert outputs[0].code == "failed"
    assert asyncio.get_running_loop().time() - began < 12


async def test_both_may_fail_at_once() -> None:
    class Failing:
        def __init__(self, name: str, words: list[Any]) -> None:
            self.name, self.words = name, words

        @asynccontextmanager
        async def open(self, request: Any) -> AsyncIterator[Any]:
            yield self._give()

        async def _give(self) -> AsyncIterator[Any]:
            try:
                for word in self.words:
                    yield word
                await asyncio.sleep(1)
            finally:
                raise EngineError(self.name, "failed", "on its way out")

    outputs = await outputs_of(Failing("llm", []), Failing("tts", []))
    assert [output.code for output in outputs] == ["failed"]


async def test_a_bug_is_no_failure() -> None:
    class Buggy:
        @asynccontextmanager
        async def open(self, request: Any) -> AsyncIterator[Any]:
            raise RuntimeError("a bug")
            yield

    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await outputs_of(Buggy())


async def test_a_phrase_is_begun_when_its_listener_is_five_seconds_behind() -> None:
    began = asyncio.get_running_loop().time()
    await outputs_of(ScriptedLlm(LlmOptions(script=("Hello.",))), Voice(), lead_ms=7_000)
    assert asyncio.get_running_loop().time() - began == pytest.approx(2.0, abs=0.01)


async def test_a_phrase_is_read_no_further_than_two_seconds_ahead() -> None:
    loop, ahead, most = asyncio.get_running_loop(), 0.0, 0.0
    began = loop.time()

    def put(output: Output) -> bool:
        nonlocal ahead, most
        if isinstance(output, ReplyAudio):
            ahead += output.pcm.duration_ms
            most = max(most, lead_ms())
        return True

    def lead_ms() -> float:
        return max(0.0, ahead - 1000 * (loop.time() - began))

    voice = Voice(*[Pcm.silence(80, 24_000)] * 100)
    llm = ScriptedLlm(LlmOptions(script=("Hello.",)))
    await Reply(PLAN, llm, voice, put=put, lead_ms=lead_ms).run()
    assert ahead == 8_000
    assert READ_LEAD_MS < most <= READ_LEAD_MS + 81
    assert loop.time() - began == pytest.approx(6.0, abs=0.3)


async def test_the_voice_is_as_fast_as_it_is_waited_for_whatever_its_listener_waits() -> None:
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0.0

    def put(output: Output) -> bool:
        nonlocal sent
        if isinstance(output, ReplyAudio):
            sent += output.pcm.duration_ms
        return True

    pulse, tts = Pulse(), ScriptedTts(TtsOptions(start_delay_ms=100, item_delay_ms=10))
    await Reply(
        PLAN,
        ScriptedLlm(),
        tts,
        put=put,
        lead_ms=lambda: max(0.0, sent - 1000 * (loop.time() - began)),
        pulse=pulse,
    ).run()
    assert loop.time() - began > 0.9, "it has waited for its listener"
    assert (pulse.made_ms, sent) == (pytest.approx(3_000), pytest.approx(3_000))
    chunks_ms = 10 * 3_000 / 40
    assert pulse.making_ms == pytest.approx(chunks_ms + 100 * 4, abs=150), "four phrases or so"


async def test_once_it_may_be_heard_its_phrases_are_as_urgent_as_any() -> None:
    released, voice = False, Voice(Pcm.silence(80, 24_000))

    def put(output: Output) -> bool:
        nonlocal released
        released = released or isinstance(output, ReplyAudio)
        return True

    await Reply(
        PLAN, ScriptedLlm(), voice, put=put, lead_ms=lambda: 0.0, released=lambda: released
    ).run()
    first, *others = [request.priority for request in voice.requests]
    assert first is Priority.SPECULATIVE
    assert others
    assert set(others) == {Priority.FINAL}


@pytest.mark.parametrize("item_delay_ms", [0, 10])
@pytest.mark.parametrize("cancel_after_ms", range(0, 700, 70))
async def test_a_cancelled_reply_leaves_nothing(cancel_after_ms: int, item_delay_ms: int) -> None:
    """A model without delay is soon far ahead, and waits for the voice when it is cancelled."""
    script = tokens_of(" ".join(SENTENCES * 3))
    llm = ScriptedLlm(LlmOptions(script=script, item_delay_ms=item_delay_ms))
    tts = ScriptedTts(TtsOptions(start_delay_ms=200))
    outputs: list[Output] = []
    reply = Reply(
        PLAN, llm, tts, put=lambda output: outputs.append(output) or True, lead_ms=lambda: 0.0
    )
    task = asyncio.create_task(reply.run())
    await asyncio.sleep(cancel_after_ms / 1000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not any(isinstance(output, ReplyFinished) for output in outputs)
