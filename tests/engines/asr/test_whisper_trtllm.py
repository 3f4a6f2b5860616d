"""The adapter on a pretended TensorRT-LLM, whose tokens a script writes."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from engines.asr import whisper_trtllm
from engines.asr.listening import Clip, Listener
from engines.asr.whisper_checkpoint import read
from engines.asr.whisper_forcing import MARGIN
from engines.asr.whisper_trtllm import NAME, Options, TrtWhisper, create
from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import EngineError, Load, Priority
from loadtest.tiny_whisper import tiny_tokenizer

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]
TOKENS = tiny_tokenizer()


def token(name: str) -> int:
    return TOKENS.token_to_id(f"<|{name}|>")


def says(engine, text: str, no_speech: float = 0.05, language: str = "en") -> list:
    """The task, then the text, each of its tokens half as likely as could be."""
    carrier = token("notimestamps") + 1
    first = {token(language): 0.0, carrier: log(no_speech) - MARGIN}
    written = TOKENS.encode(text, add_special_tokens=False).ids
    written = [*written, token("endoftext")]
    return [
        engine.Step(token(language), first),
        token("transcribe"),
        token("notimestamps"),
        *(engine.Step(each, {each: log(0.5)}) for each in written),
    ]


@pytest.fixture
async def started(engine, tiny_folder) -> Iterator:
    """A function that gives a Listener that is warm."""
    made = []
    engine.script = lambda ids, params: says(engine, "Hello.")

    async def start(**options) -> Listener:
        made.append(create(Options(model=str(tiny_folder), **options), ModelStore()))
        await made[-1].warm_up()
        return made[-1]

    yield start
    for each in made:
        await each.close()


def sound(seconds: float = 1.0) -> Pcm:
    """Loud and soft by turns, as a voice is."""
    place = np.arange(int(16_000 * seconds))
    return Pcm.from_floats(np.where(place % 4_000 < 2_000, 0.1, 0.001), 16_000)


def executor(engine):
    return engine.engines[-1]._executor


async def turns(done: Callable[[], bool]) -> None:
    """Let the loop turn until that is so."""
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


# --- what it asks and gives -----------------------------------------------------------------


async def test_a_clip_becomes_a_transcript_with_its_doubts(engine, started, listen):
    transcript = await listen(await started(), sound())
    (segment,) = transcript.segments
    assert (transcript.text, transcript.language, transcript.suspicion) == ("Hello.", "en", "")
    assert segment.avg_logprob == pytest.approx(log(0.5))
    assert segment.no_speech_prob == pytest.approx(0.05)


async def test_the_engine_is_built_for_whisper(engine, started, tiny_folder):
    await started(slots=6, encoders=2, kv_fraction=0.4)
    (built,) = engine.built
    assert built["backend"] == "pytorch"
    assert built["attn_backend"] == "TRTLLM"
    assert (built["max_batch_size"], built["max_input_len"]) == (6, 1500)
    assert built["max_num_tokens"] == 3000
    assert built["enable_chunked_prefill"] is False
    assert built["disable_overlap_scheduler"] is True
    assert built["cuda_graph_config"].batch_sizes == [1, 2, 4, 6]
    assert built["kv_cache_config"].enable_block_reuse is False
    assert built["kv_cache_config"].cross_kv_cache_fraction == 0.75
    assert built["kv_cache_config"].free_gpu_memory_fraction == 0.4
    assert built["scheduler_config"].use_python_scheduler is True


async def test_the_engine_itself_forbids_nothing_and_its_folder_goes_with_it(
    engine, started, tiny_folder
):
    asr = await started()
    folder = Path(engine.built[-1]["model"])
    rules = json.loads((folder / "generation_config.json").read_text())
    assert "suppress_tokens" not in rules
    assert (folder / "model.safetensors").samefile(tiny_folder / "model.safetensors")
    await asr.close()
    assert not os.path.lexists(folder)  # noqa: ASYNC240


async def test_each_request_has_its_prompt_its_sound_and_its_own_sampling(engine, started, listen):
    asked = []

    def script(ids, params):
        asked.append((ids, params))
        return says(engine, "Hello.", language="de")

    asr = await started()
    engine.script = script
    pcm = sound(2)
    await listen(asr, pcm, language="de", prompt="Vorher.")
    await listen(asr, pcm)
    (told, sampling), (plain, other) = asked
    before = TOKENS.encode(" Vorher.").ids
    assert told == [token("startofprev"), *before, token("startoftranscript")]
    assert plain == [token("startoftranscript")]
    assert sampling is not other
    assert sampling.max_tokens == 3 + 2 * 12 + 12
    assert (sampling.temperature, sampling.logprobs, sampling.detokenize) == (0.0, 2, False)
    assert sampling.end_id == token("endoftext")
    heard = engine.engines[-1].input_processor.waveforms[-1]
    np.testing.assert_array_equal(heard, pcm.floats())


async def test_a_prompt_leaves_the_text_what_is_left_of_the_decoder(engine, started, listen):
    asked = []

    def script(ids, params):
        asked.append((len(ids), params.max_tokens))
        return says(engine, "Hello.")

    asr = await started()
    engine.script = script
    await listen(asr, sound(27), language="en", prompt="word " * 300)
    assert asked[0] == (225, 448 - 225)


async def test_the_language_is_found_out_in_the_same_request(engine, started, listen):
    asr = await started()
    engine.script = lambda ids, params: says(engine, "Hallo.", language="de")
    assert (await listen(asr, sound())).language == "de"


async def test_without_no_speech_the_whole_task_is_in_the_prompt(
    engine, started, listen, tiny_folder
):
    asked = []

    def script(ids, params):
        asked.append((ids, params.logits_processor))
        return says(engine, "Hallo.")[3:]

    engine.script = script
    asr = await started(no_speech=False, language="de")
    transcript = await listen(asr, sound())
    task = [token(n) for n in ("startoftranscript", "de", "transcribe", "notimestamps")]
    assert asked[-1] == (task, None)
    assert engine.built[-1]["disable_overlap_scheduler"] is False
    assert engine.built[-1]["model"] == str(tiny_folder)
    assert (transcript.text, transcript.language) == ("Hallo.", "de")
    assert transcript.segments[0].no_speech_prob is None
    with pytest.raises(EngineError, match="set a language"):
        create(Options(model=str(tiny_folder), no_speech=False), ModelStore())


async def test_as_many_clips_are_in_flight_as_the_engine_takes(engine, started, listen):
    asr = await started(slots=3)
    holds = []

    def script(ids, params):
        holds.append(engine.Hold())
        return [*says(engine, "Hello.")[:3], holds[-1], *says(engine, "Hello.")[3:]]

    engine.script = script
    clips = [asyncio.create_task(listen(asr, sound())) for _ in range(5)]
    await turns(lambda: len(holds) == 3)
    await asyncio.gather(*(hold.reached.wait() for hold in holds[:3]))
    assert replace(asr.load(), oldest_ms=0.0) == Load(slots=3, busy=3, queued=2)
    assert len(holds) == 3
    await turns(lambda: [hold.set() for hold in holds] and all(clip.done() for clip in clips))
    assert [clip.result().text for clip in clips] == ["Hello."] * 5
    assert executor(engine).most_running == 3


async def test_an_engine_of_fewer_slots_is_asked_for_no_more(
    engine, started, monkeypatch, tiny_folder
):
    real = whisper_trtllm.arguments

    def smaller(api, where, options):
        graphs = api.CudaGraphConfig(batch_sizes=[1, 2])
        return {**real(api, where, options), "max_batch_size": 2, "cuda_graph_config": graphs}

    monkeypatch.setattr(whisper_trtllm, "arguments", smaller)
    assert (await started(slots=8)).load().slots == 2


# --- doubts ---------------------------------------------------------------------------------


async def test_a_loop_is_given_up_early_and_tried_again_warmer(engine, started, listen):
    asked = []

    def script(ids, params):
        asked.append((params, iter(says(engine, "Ask not." if asked else "ask not " * 40))))
        return asked[-1][1]

    asr = await started()
    engine.script = script
    transcript = await listen(asr, sound(2.9), language="en")
    (looping, unread), (warmer, _) = asked
    assert (transcript.text, transcript.suspicion) == ("Ask not.", "loop")
    assert (looping.temperature, warmer.temperature) == (0.0, 0.2)
    assert looping.max_tokens == 3 + 47
    assert len(list(unread)) >= 3 + 321 - 40  # it was stopped before it had written that many
    assert not executor(engine).running


async def test_silence_is_believed_at_once(engine, started, listen):
    asked = []

    def script(ids, params):
        asked.append(ids)
        return says(engine, "Thank you.", no_speech=0.9)

    asr = await started()
    engine.script = script
    transcript = await listen(asr, sound(), language="en")
    assert (transcript.text, transcript.suspicion, len(asked)) == ("", "silence", 1)


# --- faults ---------------------------------------------------------------------------------


async def test_who_leaves_aborts_the_request(engine, started, listen):
    asr = await started()
    hold = engine.Hold()
    engine.script = lambda ids, params: [*says(engine, "Hello.")[:4], hold]
    leaving = asyncio.create_task(listen(asr, sound()))
    await hold.reached.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await turns(lambda: not executor(engine).running)
    engine.script = lambda ids, params: says(engine, "Next.")
    assert (await listen(asr, sound())).text == "Next."
    assert asr.load() == Load(slots=32)


async def error_of(listen, asr, pcm: Pcm, **request) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await listen(asr, pcm, **request)
    return caught.value


async def test_out_of_memory_fails_one_request_and_says_what_to_change(engine, started, listen):
    asr = await started()
    engine.script = lambda ids, params: [
        *says(engine, "Hello.")[:5],
        engine.Fails(engine.OUT_OF_MEMORY),
    ]
    error = await error_of(listen, asr, sound())
    assert error.code == "unavailable"
    assert "kv_fraction" in error.message
    engine.script = lambda ids, params: says(engine, "Next.")
    assert (await listen(asr, sound())).text == "Next."


async def test_a_dead_engine_stays_dead(engine, started, listen):
    asr = await started()
    engine.script = lambda ids, params: [
        *says(engine, "Hello.")[:4],
        engine.Dies(RuntimeError("CUDA error: an illegal memory access was encountered")),
    ]
    for _ in range(2):
        error = await error_of(listen, asr, sound())
        assert error.code == "unavailable"
        assert "has died" in error.message


async def test_a_device_that_is_too_small_fails_the_warm_up(engine, started):
    engine.load_error = RuntimeError(engine.OUT_OF_MEMORY)
    with pytest.raises(EngineError, match="smaller kv_fraction"):
        await started()


async def test_a_release_that_reads_prompts_otherwise_is_refused_and_freed(
    engine, started, monkeypatch
):
    def build(self):
        api, llm = real(self)
        llm.input_processor = object()
        return api, llm

    real = whisper_trtllm.Runtime._build
    monkeypatch.setattr(whisper_trtllm.Runtime, "_build", build)
    with pytest.raises(EngineError, match="_resolve_decoder_prompt"):
        await started()
    assert executor(engine) is None


async def test_an_engine_that_forces_too_late_is_found_out(engine, started, monkeypatch):
    """So does the overlap scheduler: each step still sees the tokens of the one before."""
    real = whisper_trtllm.arguments
    monkeypatch.setattr(
        whisper_trtllm,
        "arguments",
        lambda *given: {**real(*given), "disable_overlap_scheduler": False},
    )
    with pytest.raises(EngineError, match=r"where \d+ was forced.*no_speech = false"):
        await started()


async def test_a_clip_that_is_too_long_or_of_another_rate_is_refused(engine, tiny_folder, listen):
    options = Options(model=str(tiny_folder))
    whisper = TrtWhisper(options, read(NAME, options.model, ModelStore()))
    await whisper.warm_up()
    with pytest.raises(EngineError, match=r"31.00s long") as refused:
        await whisper.hear(Clip(sound(31).floats(), "en", ""), Priority.FINAL)
    assert refused.value.code == "bad_request"
    await whisper.close()
    asr = Listener(NAME, whisper)
    assert (await error_of(listen, asr, Pcm.silence(1000, 8000))).code == "bad_request"


async def test_an_unknown_language_is_refused_before_the_engine_is_asked(engine, started, listen):
    asr = await started()
    asked = len(engine.engines[-1].input_processor.waveforms)
    error = await error_of(listen, asr, sound(), language="klingon")
    assert error.code == "bad_request"
    assert "<|klingon|>" in error.message
    assert len(engine.engines[-1].input_processor.waveforms) == asked


async def test_an_answer_that_the_engine_breaks_off_is_no_transcript(engine, started, listen):
    asr = await started()
    hold = engine.Hold()
    engine.script = lambda ids, params: [*says(engine, "Hello.")[:5], hold]
    broken = asyncio.create_task(error_of(listen, asr, sound()))
    await hold.reached.wait()
    (running,) = executor(engine).running.values()
    running.respond([], [], "timeout")
    error = await broken
    assert (error.code, "timeout" in error.message) == ("failed", True)
