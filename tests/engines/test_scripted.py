"""The null engines: what they say, what it lasts, and how they fail."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from engines.asr import scripted as asr_plugin
from engines.audio import Pcm
from engines.llm import scripted as llm_plugin
from engines.ports import (
    AsrRequest,
    ChatRequest,
    EngineError,
    Load,
    Message,
    Priority,
    SpeechRequest,
    TextDelta,
    ToolCallDelta,
    Transcript,
    Usage,
)
from engines.scripted import (
    SENTENCES,
    AsrOptions,
    LlmOptions,
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
)
from engines.tts import scripted as tts_plugin

QUESTION = ChatRequest((Message("user", "hello"),))
SEGMENT = AsrRequest(Pcm.silence(100, 16_000))


async def all_of(engine, request):
    await engine.warm_up()
    async with engine.open(request) as items:
        got = [item async for item in items]
    await engine.close()
    return got


async def test_asr_gives_its_one_transcript():
    assert await all_of(ScriptedAsr(AsrOptions(text="hello")), SEGMENT) == [Transcript("hello")]


async def test_llm_streams_three_sentences_of_twelve_tokens_and_their_usage():
    *deltas, usage = await all_of(ScriptedLlm(), QUESTION)
    assert "".join(delta.text for delta in deltas) == "".join(SENTENCES)
    assert len(deltas) == 36
    assert all(len(sentence.split()) == 12 for sentence in SENTENCES)
    assert usage == Usage(1, 36, 0, "stop")


@pytest.mark.parametrize(("limit", "reason"), [(0, "skipped"), (5, "length"), (36, "stop")])
async def test_llm_stops_at_the_token_limit(limit, reason):
    *deltas, usage = await all_of(ScriptedLlm(), replace(QUESTION, max_tokens=limit))
    assert (len(deltas), usage.output_tokens, usage.finish_reason) == (limit, limit, reason)


async def test_llm_calls_a_tool_then_answers_its_result():
    call = ToolCallDelta(0, "call_1", "weather", '{"city":"Paris"}')
    llm = ScriptedLlm(LlmOptions(script=("Wait.", call), tool_script=("Sunny.",)))
    assert await all_of(llm, QUESTION) == [TextDelta("Wait."), call, Usage(1, 2, 0, "tool_calls")]
    result = Message("tool", "sun", tool_call_id="call_1")
    assert await all_of(llm, ChatRequest((result,))) == [TextDelta("Sunny."), Usage(1, 1)]


@pytest.mark.virtual_clock
async def test_work_is_shared_by_all_requests_the_most_urgent_first():
    tts, loop = ScriptedTts(TtsOptions(work_ms=10)), asyncio.get_running_loop()
    began, ended = loop.time(), {}

    async def speak(name, priority):
        async with tts.open(SpeechRequest("one two three", priority=priority)) as chunks:
            async for _ in chunks:
                pass
        ended[name] = round(1000 * (loop.time() - began))

    async with asyncio.TaskGroup() as group:
        group.create_task(speak("guess", Priority.SPECULATIVE))
        group.create_task(speak("first", Priority.FINAL))
        group.create_task(speak("second", Priority.FINAL))
        await asyncio.sleep(0.035)
        load = tts.load()
        assert (load.slots, load.busy, load.queued) == (0, 3, 2)
        assert load.oldest_ms == pytest.approx(25), "the guess had one item and waits since"
    chunks = 7
    assert ended == {"first": 10 * 2 * chunks, "second": 10 * 2 * chunks + 10, "guess": 210}
    assert tts.load() == Load()


async def test_without_work_nothing_waits_for_the_device():
    tts = ScriptedTts(TtsOptions(item_delay_ms=1))
    async with tts.open(SpeechRequest("hello")) as chunks:
        await anext(chunks)
        assert tts.load() == Load(busy=1)
    assert tts.load() == Load()


@pytest.mark.parametrize("phrases", [1, 2, 3, 4, 6, 12])
async def test_a_sentence_lasts_one_second_however_it_is_split(phrases):
    words = SENTENCES[0].split()
    size = len(words) // phrases
    chunks = []
    for start in range(0, len(words), size):
        chunks += await all_of(ScriptedTts(), SpeechRequest(" ".join(words[start : start + size])))
    assert sum(len(chunk) for chunk in chunks) == 24_000
    assert all(chunk.rate == 24_000 and 0 < chunk.duration_ms <= 40 for chunk in chunks)


async def test_speech_is_a_quiet_tone_that_joins_without_a_click():
    chunks = await all_of(ScriptedTts(), SpeechRequest("one two three four"))
    chunks += await all_of(ScriptedTts(), SpeechRequest("five"))
    samples = np.concatenate([chunk.samples for chunk in chunks]).astype(int)
    assert 1000 < abs(samples).max() < 2000
    steepest = 0.05 * 32767 * 2 * np.pi * 300 / 24_000
    assert abs(np.diff(samples)).max() <= steepest + 1


async def test_faster_speech_is_shorter_and_punctuation_is_silent():
    (*_, last) = await all_of(ScriptedTts(), SpeechRequest("one — two", speed=2.0))
    assert len(last) == 2000 - 2 * 960
    assert await all_of(ScriptedTts(), SpeechRequest(" ... ")) == []


async def test_a_failure_at_open_comes_before_any_item():
    with pytest.raises(EngineError, match="fail_code") as caught:
        await all_of(ScriptedAsr(AsrOptions(fail_code="unavailable")), SEGMENT)
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize("after", [1, 2, 37])
async def test_a_failure_may_come_after_some_items(after):
    llm = ScriptedLlm(LlmOptions(fail_code="failed", fail_after=after))
    got = []
    with pytest.raises(EngineError):
        async with llm.open(QUESTION) as deltas:
            got.extend([await anext(deltas) for _ in range(after)])
            await anext(deltas)
    assert len(got) == after


async def test_failures_may_be_counted_so_that_the_next_request_works():
    llm = ScriptedLlm(LlmOptions(fail_code="timeout", fail_times=1))
    with pytest.raises(EngineError):
        await all_of(llm, QUESTION)
    assert len(await all_of(llm, QUESTION)) == 37


async def test_an_engine_may_hang_until_it_is_cancelled():
    got = []
    given = asyncio.Event()

    async def read():
        async with ScriptedTts(TtsOptions(hang_after=2)).open(SpeechRequest("a b c d")) as chunks:
            async for chunk in chunks:
                got.append(chunk)
                if len(got) == 2:
                    given.set()

    reader = asyncio.create_task(read())
    await given.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert len(got) == 2


async def test_delays_are_kept():
    loop = asyncio.get_running_loop()
    before = loop.time()
    options = LlmOptions(start_delay_ms=20, item_delay_ms=10, script=("a", "b"))
    await all_of(ScriptedLlm(options), QUESTION)
    assert loop.time() - before >= 0.045


async def test_two_streams_take_turns():
    llm = ScriptedLlm(LlmOptions(script=("a", "b", "c")))
    order = []

    async def watch(name):
        async with llm.open(QUESTION) as deltas:
            async for _ in deltas:
                order.append(name)  # noqa: PERF401

    await asyncio.gather(watch(1), watch(2))
    assert order == [1, 2] * 4


@pytest.mark.parametrize("plugin", [asr_plugin, llm_plugin, tts_plugin])
async def test_scripted_plugins_keep_the_contract(plugin):
    engine = plugin.create(plugin.Options(), models=None)
    await engine.warm_up()
