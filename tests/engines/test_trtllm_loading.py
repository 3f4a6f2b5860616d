"""How the runtime finds and loads TensorRT-LLM, and what it says where that cannot be."""

import asyncio
import importlib
import sys

import pytest

from engines.ports import EngineError
from engines.trtllm import OLDEST, Runtime, decoder_arguments, release


def llama(slots: int = 4) -> Runtime:
    return Runtime(
        "writer",
        slots=slots,
        arguments=lambda api: decoder_arguments(api, "/models/llama", slots=slots, kv_fraction=0.5),
    )


async def test_loading_leaves_the_loop_alone(trtllm, monkeypatch) -> None:
    loading = asyncio.get_running_loop()
    seen = []

    def arguments(api):
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        seen.append(loading.is_running())
        return decoder_arguments(api, "/models/llama", slots=1, kv_fraction=0.5)

    runtime = Runtime("writer", slots=1, arguments=arguments)
    await runtime.start()
    assert seen == [True]
    await runtime.close()


@pytest.mark.parametrize(
    "cause",
    [
        RuntimeError("Executor creation failed due to insufficient GPU memory.\n\n reduce"),
        MemoryError("CUDA out of memory. Tried to allocate 384.00 MiB."),
    ],
)
async def test_out_of_memory_at_the_start_names_the_knobs(trtllm, cause) -> None:
    trtllm.load_error = cause
    with pytest.raises(EngineError) as caught:
        await llama(slots=16).start()
    assert caught.value.code == "unavailable"
    for word in ("kv_fraction", "slots", "16", "larger slice"):
        assert word in caught.value.message


async def test_what_else_goes_wrong_at_the_start_is_told_with_its_cause(trtllm) -> None:
    trtllm.load_error = OSError("/models/llama has no config.json")
    with pytest.raises(EngineError, match=r"no config\.json") as caught:
        await llama().start()
    assert caught.value.code == "unavailable"


async def test_an_argument_that_the_engine_does_not_know_is_told_as_such(trtllm) -> None:
    runtime = Runtime("writer", slots=1, arguments=lambda api: {"model": "x", "max_batch": 1})
    with pytest.raises(EngineError, match="invalid argument: max_batch"):
        await runtime.start()


async def test_a_missing_package_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_llm", None)
    with pytest.raises(EngineError) as caught:
        await llama().start()
    assert caught.value.code == "unavailable"
    for word in ("not installed", "nvcr.io", "gpu"):
        assert word in caught.value.message


async def test_a_package_that_cannot_find_cuda_says_so(trtllm, monkeypatch) -> None:
    def broken(name):
        raise ImportError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(EngineError, match=r"libcuda\.so\.1.*nvcr\.io"):
        await llama().start()


@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc25", "1.3.0rc9", "1.3.0.dev2", "", "unknown"])
async def test_an_older_release_is_refused_before_anything_is_loaded(
    trtllm, monkeypatch, version
) -> None:
    monkeypatch.setattr(sys.modules["tensorrt_llm"], "__version__", version)
    with pytest.raises(EngineError, match=f"{version or 'unknown'}, it must be {OLDEST}"):
        await llama().start()
    assert trtllm.built == []


def test_releases_sort_as_they_came_out() -> None:
    order = ["0.21.0", "1.2.1", "1.3.0rc9", OLDEST, "1.3.0rc26.post1", "1.3.0", "1.4.0rc1", "2.0"]
    assert sorted(order, key=release) == order


@pytest.mark.gpu
def test_the_real_package_knows_what_it_is_asked() -> None:
    """On a machine that has it; the pretended one is held to the same names by the others."""
    api = pytest.importorskip("tensorrt_llm.llmapi")
    from tensorrt_llm.executor.utils import RequestError
    from tensorrt_llm.llmapi.llm_args import TorchLlmArgs

    arguments = decoder_arguments(api, "/models/llama", slots=4, kv_fraction=0.5)
    assert set(arguments) <= set(TorchLlmArgs.model_fields)
    assert issubclass(api.RequestError, RequestError)
    assert api.SamplingParams(
        end_id=2,
        max_tokens=9,
        temperature=0.6,
        top_p=0.8,
        repetition_penalty=1.1,
        seed=1,
        stop_token_ids=[3],
        logprobs=1,
        detokenize=False,
        logits_processor=None,
    )
    for name in ("token_ids_diff", "logprobs_diff", "finish_reason"):
        assert hasattr(api.CompletionOutput, name)
    assert callable(api.RequestOutput.abort)
