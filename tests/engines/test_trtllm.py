"""The runtime on a pretended TensorRT-LLM: what it asks, what it gives, and each way to fail."""

import asyncio
from contextlib import AsyncExitStack
from types import ModuleType

import pytest

from engines.ports import EngineError, Load
from engines.trtllm import Runtime, Written, decoder_arguments

END = 2


def llama(name: str = "writer", slots: int = 4, **changes) -> Runtime:
    return Runtime(
        name,
        slots=slots,
        arguments=lambda api: decoder_arguments(
            api, "/models/llama", slots=slots, kv_fraction=0.5, **changes
        ),
        stall_s=30.0,
    )


def loaded(runtime: Runtime) -> Runtime:
    """Loaded in this thread: a clock that jumps does not wait for others."""
    runtime._api, runtime._llm = runtime._build()
    return runtime


@pytest.fixture
async def runtime(trtllm: ModuleType):
    runtime = llama()
    await runtime.start()
    yield runtime
    await runtime.close()


def sampling(runtime: Runtime, **values):
    return runtime.sampling(**{"max_tokens": 100, "end_id": END, "detokenize": False, **values})


async def everything(runtime: Runtime, inputs=None, **values) -> list[Written]:
    async with runtime.open(inputs or [1, 5], sampling(runtime, **values)) as answer:
        return [written async for written in answer]


async def error_of(runtime: Runtime, inputs=None, **values) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await everything(runtime, inputs, **values)
    return caught.value


def engine(trtllm: ModuleType):
    """What the pretended engine of the last LLM does just now."""
    return trtllm.engines[-1]._executor


# --- what it asks and gives -----------------------------------------------------------------


async def test_tokens_come_one_at_a_time_and_end_with_the_reason(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [token + 10 for token in ids]
    trtllm.cached_tokens = 1

    written = await everything(runtime, [1, 5])

    assert [each.tokens for each in written] == [(11,), (15,), (END,)]
    assert [each.finish for each in written] == ["", "", "stop"]
    assert {(each.prompt_tokens, each.cached_tokens) for each in written} == {(2, 1)}


async def test_the_last_token_allowed_is_told(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: range(50, 60)
    written = await everything(runtime, max_tokens=3)
    assert [each.tokens for each in written] == [(50,), (51,), (52,)]
    assert written[-1].finish == "length"


async def test_each_token_brings_its_alternatives_the_drawn_one_first(runtime, trtllm) -> None:
    ranked = {7: -2.0, 8: -0.5, 9: -1.0}
    trtllm.script = lambda ids, params: [trtllm.Step(7, ranked), trtllm.Step(8, ranked)]

    first, second, _ = await everything(runtime, logprobs=2)

    assert [list(each.items()) for each in first.logprobs] == [[(7, -2.0), (8, -0.5), (9, -1.0)]]
    assert [list(each.items()) for each in second.logprobs] == [[(8, -0.5), (9, -1.0)]]


async def test_without_being_asked_there_are_no_log_probabilities(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [7]
    assert {each.logprobs for each in await everything(runtime)} == {()}


async def test_what_is_open_beyond_the_slots_waits_its_turn(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: range(50, 60)

    async with AsyncExitStack() as stack:
        answers = [
            await stack.enter_async_context(runtime.open([1, n], sampling(runtime)))
            for n in range(6)
        ]
        load = runtime.load()
        assert (load.slots, load.busy, load.queued) == (4, 4, 2)
        assert load.oldest_ms > 0
        for answer in answers:
            assert len([written async for written in answer]) == 11

    assert runtime.load() == Load(slots=4)
    assert engine(trtllm).most_running == 4


async def test_the_engine_gets_one_number_of_slots_and_never_evicts(runtime, trtllm) -> None:
    (built,) = trtllm.built
    assert built["max_batch_size"] == built["cuda_graph_config"].max_batch_size == 4
    assert built["scheduler_config"].capacity_scheduler_policy == "GUARANTEED_NO_EVICT"
    assert built["kv_cache_config"].dtype == "fp8"
    assert built["kv_cache_config"].free_gpu_memory_fraction == 0.5
    assert built["kv_cache_config"].enable_block_reuse is True
    assert built["enable_chunked_prefill"] is True
    assert built["disable_overlap_scheduler"] is False


# --- leaving --------------------------------------------------------------------------------


async def test_leaving_in_the_middle_frees_the_slot(runtime, trtllm) -> None:
    hold = trtllm.Hold()
    trtllm.script = lambda ids, params: [50, hold, 51]

    async with runtime.open([1], sampling(runtime)) as answer:
        assert (await anext(answer)).tokens == (50,)
        await hold.reached.wait()
        assert len(engine(trtllm).running) == 1

    assert runtime.load().busy == 0
    await engine(trtllm).wait_idle()
    assert not hold.is_set()


async def test_a_cancelled_reader_aborts_what_it_waited_for(runtime, trtllm) -> None:
    hold = trtllm.Hold()
    trtllm.script = lambda ids, params: [hold]
    reading = asyncio.create_task(everything(runtime))
    await hold.reached.wait()

    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    await engine(trtllm).wait_idle()
    trtllm.script = lambda ids, params: [50]
    assert len(await everything(runtime)) == 2


async def test_an_answer_that_came_to_its_end_is_not_aborted(runtime, trtllm, monkeypatch) -> None:
    aborts = []
    monkeypatch.setattr(engine(trtllm), "abort_request", aborts.append)
    await everything(runtime)
    assert aborts == []


# --- faults of one request ------------------------------------------------------------------


async def test_a_prompt_longer_than_the_context_is_the_callers_fault(trtllm) -> None:
    runtime = llama(context=8)
    await runtime.start()
    error = await error_of(runtime, list(range(1, 9)))
    assert error.code == "bad_request"
    assert "max_seq_len (8)" in error.message
    assert len(await everything(runtime, [1, 2])) == 1
    await runtime.close()


async def test_sampling_out_of_bounds_is_the_callers_fault(runtime) -> None:
    with pytest.raises(EngineError, match=r"top_p=1\.5") as caught:
        runtime.sampling(top_p=1.5)
    assert caught.value.code == "bad_request"


async def test_an_unknown_keyword_is_a_bug_and_no_engine_error(runtime) -> None:
    with pytest.raises(TypeError):
        runtime.sampling(tokens=3)


async def test_out_of_memory_in_flight_names_the_knobs_and_the_engine_lives(
    runtime, trtllm
) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.Fails(trtllm.OUT_OF_MEMORY)]
    error = await error_of(runtime)
    assert error.code == "unavailable"
    for knob in ("kv_fraction", "free_gpu_memory_fraction", "slots", "max_batch_size"):
        assert knob in error.message

    trtllm.script = lambda ids, params: [50]
    assert len(await everything(runtime)) == 2


async def test_another_failure_of_a_request_is_told_as_it_is(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [trtllm.Fails("encoder step failed")]
    error = await error_of(runtime)
    assert error.code == "failed"
    assert "encoder step failed" in error.message


async def test_a_request_that_the_engine_gives_up_by_itself_has_failed(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.GivesUp()]
    error = await error_of(runtime)
    assert error.code == "failed"
    assert "cancelled" in error.message


@pytest.mark.virtual_clock
async def test_a_stalled_engine_is_told_after_its_time(trtllm) -> None:
    runtime = loaded(llama())
    trtllm.script = lambda ids, params: [50, trtllm.Hold()]
    loop = asyncio.get_running_loop()
    start = loop.time()
    error = await error_of(runtime)
    assert error.code == "timeout"
    assert loop.time() - start == pytest.approx(30.0)


@pytest.mark.virtual_clock
async def test_waiting_for_a_slot_is_no_stall_while_others_get_tokens(trtllm) -> None:
    runtime = loaded(llama(slots=1))
    holds = [trtllm.Hold() for _ in range(3)]
    slow = [50, holds[0], 51, holds[1], 52, holds[2]]
    scripts = iter([slow, [60]])
    trtllm.script = lambda ids, params: next(scripts)

    async def release_slowly() -> None:
        for hold in holds:
            await hold.reached.wait()
            await asyncio.sleep(20.0)
            hold.set()

    async with runtime.open([1], sampling(runtime)) as first, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(everything(runtime))
        tasks.create_task(release_slowly())
        assert [written.tokens async for written in first] == [(50,), (51,), (52,), (END,)]
        assert [written.tokens for written in await waiting] == [(60,), (END,)]


@pytest.mark.virtual_clock
async def test_a_reader_that_paused_makes_no_stall_of_another_request(trtllm) -> None:
    runtime = loaded(llama())
    hold = trtllm.Hold()
    scripts = iter([[50, 51], [hold, 60]])
    trtllm.script = lambda ids, params: next(scripts)

    async with runtime.open([1], sampling(runtime)) as paused:
        await anext(paused)
        await asyncio.sleep(100.0)
        waiting = asyncio.create_task(everything(runtime))
        await hold.reached.wait()
        await asyncio.sleep(20.0)
        hold.set()
        assert [written.tokens for written in await waiting] == [(60,), (END,)]
        assert [written.tokens async for written in paused] == [(51,), (END,)]


async def test_a_timeout_of_the_engine_s_own_is_its_death(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.Dies(TimeoutError("worker gone"))]
    trtllm.tells_of_death = False
    async with asyncio.timeout(5):
        error = await error_of(runtime)
    assert error.code == "unavailable"
    assert "worker gone" in error.message


# --- faults of the engine -------------------------------------------------------------------


@pytest.mark.parametrize("tells", [True, False])
async def test_a_dead_engine_fails_all_that_is_open_and_all_that_comes(
    runtime, trtllm, tells
) -> None:
    from tensorrt_llm.executor import CppExecutorError

    trtllm.tells_of_death = tells
    hold = trtllm.Hold()
    scripts = iter([[hold, 50], [51, trtllm.Dies(CppExecutorError("illegal memory access"))]])
    trtllm.script = lambda ids, params: next(scripts)
    bystander = asyncio.create_task(error_of(runtime))
    await hold.reached.wait()

    errors = [await error_of(runtime), await bystander, await error_of(runtime)]

    assert {error.code for error in errors} == {"unavailable"}
    for error in errors:
        assert "illegal memory access" in error.message
        assert "restart this engine's process" in error.message
        assert error.message.count("illegal memory access") == 1
    assert runtime.load().busy == 0
    with pytest.raises(EngineError, match="illegal memory access"):
        _ = runtime.llm


async def test_a_death_that_is_met_when_asking_is_told_too(runtime, trtllm) -> None:
    engine(trtllm).shutdown(RuntimeError("worker exited"))
    first, second = await error_of(runtime), await error_of(runtime)
    assert (first.code, second.code) == ("unavailable", "unavailable")
    assert "worker exited" in second.message


async def test_leaving_a_dead_engine_raises_nothing_more(runtime, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.Hold()]
    async with runtime.open([1], sampling(runtime)) as answer:
        await anext(answer)
        engine(trtllm).shutdown(RuntimeError("worker exited"))


async def test_before_it_is_loaded_it_says_what_to_do() -> None:
    runtime = llama()
    for call in (lambda: runtime.llm, runtime.sampling):
        with pytest.raises(EngineError, match="call warm_up first"):
            call()
    await runtime.close()
