"""Calls that go on for long, and calls beside each other: what no part of one can promise alone."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import SpeechRequest, ToolCallDelta
from engines.scripted import RATE as VOICE_RATE
from engines.scripted import LlmOptions, ScriptedLlm, ScriptedTts, tokens_of
from pipelines.conversation.events import ReplyAudio
from pipelines.conversation.reply import MOST_LEAD_MS, READ_LEAD_MS
from tests.pipelines.conversation.conftest import LOUD, RATE, NotingDoor
from tests.pipelines.conversation.test_call_interruptions import STORY, Hears

pytestmark = pytest.mark.virtual_clock

MOST_ON_THE_LOOP_S = 0.005


def tells(script: str) -> ScriptedLlm:
    return ScriptedLlm(LlmOptions(script=tokens_of(script), item_delay_ms=5))


def audio_told(door: NotingDoor) -> list[tuple[float, float]]:
    """When, and how many ms."""
    said = [(told.at_ms, told.args[1]) for told in door.all("reply_said")]
    return [(at, output.pcm.duration_ms) for at, output in said if isinstance(output, ReplyAudio)]


# --- turns without end ----------------------------------------------------------------------


async def test_a_late_turn_is_answered_as_fast_as_the_first(stage: Any) -> None:
    stage.settings = replace(stage.settings, turns=replace(stage.settings.turns, speculate=False))
    waits = []
    async with stage.call() as line:
        for turn in range(1, 61):
            await line.take_turn()
            await line.door.wait("reply_finished", turn)
            committed_at = line.door.last("turn_committed").at_ms
            waits.append(min(at for at, _ in audio_told(line.door) if at >= committed_at))
            waits[-1] -= committed_at
            await line.pause(3_500)
    assert max(waits) - min(waits) < 1


def reachable(root: Any, *but: Any) -> int:
    """Objects that are kept by ``root`` alone, as far as the collector knows of them."""
    seen, todo = {id(known) for known in but}, [root]
    count = 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        count += 1
        todo += gc.get_referents(thing)
    return count


async def test_a_call_of_many_turns_keeps_no_more_than_its_dialogue(stage: Any) -> None:
    door, kept = NotingDoor(), []
    outside = (door, stage.ears, stage.asr, stage.llm, stage.tts, asyncio.get_running_loop())
    async with stage.call(door) as line:
        remembered = line.call.dialogue, line.call._speaker._memory
        for _ in range(60):
            await line.take_turn()
            await line.pause(1_500)
            await line.speak(300)
            await line.pause(2_500)
            door.told.clear()
            kept.append(reachable(line.call, *outside, *remembered))
    assert min(kept) > 100, "what is kept is seen"
    assert max(kept[45:]) <= max(kept[30:45]) + 5


async def test_frames_cost_nothing_by_themselves(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, costs = asyncio.get_running_loop(), []
    for frame_ms in (10, 320):
        turns_of_the_loop = 0
        schedule = loop.call_soon

        def count(*args: Any, schedule: Any = schedule, **context: Any) -> Any:
            nonlocal turns_of_the_loop
            turns_of_the_loop += 1
            return schedule(*args, **context)

        frame = np.zeros(RATE * frame_ms // 1000, np.int16)
        async with stage.call() as line:
            await line.pause(100)
            with monkeypatch.context() as patch:
                patch.setattr(loop, "call_soon", count)
                for _ in range(1_280 // frame_ms):
                    line.call.hear(frame)
                await asyncio.sleep(1)
        costs.append(turns_of_the_loop)
    assert abs(costs[0] - costs[1]) <= 2, "windows cost, frames do not"


# --- pace -----------------------------------------------------------------------------------


class Fitful(ScriptedTts):
    """A voice that gives nothing, a little or much at a time, as a resampler does."""

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        async def speak() -> AsyncIterator[Pcm]:
            for samples in (0, 0, 17, 0, 4_800, 1, 0, 960, 7_000, 0, 0, 333) * len(
                request.text.split()
            ):
                yield Pcm(np.ones(samples, np.int16), VOICE_RATE)

        yield speak()


async def test_a_long_reply_goes_out_at_the_pace_of_its_samples(stage: Any) -> None:
    stage.llm.engine, stage.tts.engine = tells(STORY), Fitful()
    async with stage.call() as line:
        line.call.request_reply()
        await line.door.wait("reply_finished")
        told = audio_told(line.door)
    word_ms = 1000 * (17 + 4_800 + 1 + 960 + 7_000 + 333) / VOICE_RATE
    began, sent_ms = told[0][0], 0.0
    for at, duration_ms in told:
        assert sent_ms - (at - began) <= max(MOST_LEAD_MS, READ_LEAD_MS) + 300, "not too fast"
        assert sent_ms - (at - began) >= 0, "and never too slow"
        sent_ms += duration_ms
    assert sent_ms == pytest.approx(word_ms * len(STORY.split()))
    assert told[-1][0] - began > sent_ms - MOST_LEAD_MS


# --- working ahead, interrupting ------------------------------------------------------------


async def test_what_is_worked_out_ahead_calls_no_tool(stage: Any) -> None:
    stage.settings = replace(stage.settings, own_tools=("hang_up",))
    calls = (ToolCallDelta(0, "c0", "hang_up", "{}"), ToolCallDelta(1, "c1", "pay", "{}"))
    stage.llm.engine = ScriptedLlm(LlmOptions(script=(*tokens_of("Well, goodbye."), *calls)))
    async with stage.call() as line:
        await line.speak()
        await line.pause(400)  # time to work it out, not to end the turn
        assert len(stage.llm.requests) == 1
        await line.speak(300)
        assert (line.door.all("reply_called"), line.door.all("hung_up")) == ([], [])
        assert len(line.call.dialogue) == 0
        await line.pause()
        (called,) = line.door.all("reply_called")
        await line.door.wait("hung_up")
    assert len(stage.llm.requests) == 2
    assert called.args[0].call.name == "pay"


async def test_the_first_sound_of_an_interruption_reaches_the_recogniser(stage: Any) -> None:
    stage.llm.engine, stage.asr.engine = tells(STORY), Hears("Tell me.", "No.")
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(2_000)
        await line.sound(300, 50)  # so soft that it is no speech, yet to be told from silence
        await line.speak(500)
        await line.pause(700)
        await line.door.wait("reply_started", 2)
    samples = stage.asr.requests[-1].pcm.samples
    began = int(np.argmax(samples == LOUD))
    assert (samples == LOUD).sum() == RATE * 500 // 1000, "not one sample of it is missing"
    assert (samples[:began] == 50).sum() >= RATE * 280 // 1000, "nor what came right before it"


@pytest.mark.parametrize(("words", "answered"), [("No, stop that now.", 1), ("Mm-hm.", 0)])
async def test_a_model_writes_no_longer_than_somebody_may_hear_it(
    stage: Any, words: str, answered: int
) -> None:
    stage.llm.engine, stage.asr.engine = tells(STORY * 50), Hears("Tell me.", words)
    async with stage.call() as line:
        await line.take_turn()
        await line.pause(2_000)
        await line.speak(500)
        await line.pause(300)
        assert len(stage.llm.requests) == 1 + answered
        assert stage.llm.open_now == 1, "the one that was interrupted is over"
        await line.pause(300)
        line.call.cancel_reply()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (stage.llm.open_now, stage.tts.open_now) == (0, 0)


# --- beside each other ----------------------------------------------------------------------


async def test_calls_beside_each_other_keep_their_settings_apart(stage: Any) -> None:
    german = replace(stage.settings, language="de", voice="anna", instructions="Kurz.")
    async with stage.call() as first, stage.call() as second:
        second.call.configure(german)
        await asyncio.gather(first.take_turn(), second.take_turn())
        first.call.configure(replace(stage.settings, voice="bob"))
        for line in (first, second):
            await line.door.wait("reply_finished")
    heard = {request.language for request in stage.asr.requests}
    asked = {request.messages[0].content for request in stage.llm.requests}
    assert heard == {None, "de"}
    assert asked == {"Be brief.", "Kurz."}
    assert {request.voice for request in stage.tts.requests} == {None, "anna"}


# --- the loop -------------------------------------------------------------------------------


@contextmanager
def callbacks_timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The processor time of each turn that the loop gives to somebody, in seconds."""
    times: list[float] = []
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        times.append(time.thread_time() - began)

    gc.collect()
    gc.disable()  # it looks at all that other tests have left, too
    try:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.events.Handle, "_run", timed)
            yield times
    finally:
        gc.enable()


async def test_no_step_of_a_call_keeps_the_loop_from_the_others(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = replace(stage.settings.turns, echo_guard=True, partials=True, profile="normal")
    stage.settings = replace(stage.settings, turns=turns)
    stage.llm.engine, stage.asr.engine = tells(STORY), Hears("Tell me.", "Mm-hm.", "No, stop.")
    noise = np.random.default_rng(1).integers(-9_000, 9_000, RATE // 50, np.int16)
    longest = []
    async with stage.call() as line:
        for _ in range(4):
            with callbacks_timed(monkeypatch) as times:
                for frame in range(400):
                    line.call.hear(noise if frame % 150 < 50 else noise // 90)
                    await asyncio.sleep(0.02)
            longest.append(max(times))
            assert len(times) > 400
    assert min(longest) < MOST_ON_THE_LOOP_S, "what is learned at first comes once"
