"""Tokens from a pretended TensorRT-LLM."""

import pickle
from dataclasses import dataclass
from types import ModuleType

import pytest

from engines.models import ModelStore
from engines.ports import EngineError, Load
from engines.tokens.ports import SlotGrammar, TokenRequest
from engines.tokens.trtllm import OnlyAllowed, TrtLlmTokens, create_source

STOP = 3
GRAMMAR = SlotGrammar(first=10, slots=7, width=16, stop=STOP)
ROUND = tuple(10 + place * 16 + 5 for place in range(7))


@dataclass(frozen=True)
class Options:
    model: str = "some/orpheus"
    slots: int = 6
    kv_fraction: float = 0.4


def request(**changes) -> TokenRequest:
    return TokenRequest(**{"prompt": (1, 2, 9), "max_tokens": 100, "stop": STOP, **changes})


@pytest.fixture
async def source(trtllm: ModuleType, tmp_path):
    source = create_source(Options(), ModelStore(tmp_path))
    await source.warm_up()
    yield source
    await source.close()


async def everything(source: TrtLlmTokens, asked: TokenRequest) -> list[tuple[int, ...]]:
    async with source.open(asked) as answer:
        return [tokens async for tokens in answer]


async def test_the_stop_token_ends_the_answer_and_is_not_part_of_it(source, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, 51, STOP, 52]
    assert await everything(source, request()) == [(50,), (51,)]


async def test_coalesced_tokens_lose_none_but_the_stop(trtllm, tmp_path) -> None:
    source = create_source(Options(), ModelStore(tmp_path))
    arguments = source._runtime._arguments
    source._runtime._arguments = lambda api: {**arguments(api), "stream_interval": 3}
    await source.warm_up()
    trtllm.script = lambda ids, params: [50, 51, 52, 53, 54, 55]
    assert await everything(source, request()) == [(50, 51, 52), (53, 54, 55)]
    await source.close()


async def test_a_request_is_sampled_as_it_says(source, trtllm) -> None:
    seen = []

    def script(ids, params):
        seen.append((ids, params))
        return []

    trtllm.script = script
    asked = request(temperature=0.7, top_p=0.9, repetition_penalty=1.3, seed=11, max_tokens=33)
    await everything(source, asked)

    ((ids, params),) = seen
    assert ids == [1, 2, 9]
    assert (params.temperature, params.top_p, params.repetition_penalty) == (0.7, 0.9, 1.3)
    assert (params.max_tokens, params.end_id) == (33, STOP)
    assert params.detokenize is False
    assert params.logits_processor is None


async def test_the_engine_is_built_for_bent_logits_and_without_a_tokenizer(source, trtllm) -> None:
    (built,) = trtllm.built
    assert built["model"] == "some/orpheus"
    assert built["max_batch_size"] == 6
    assert built["kv_cache_config"].dtype == "fp8"
    assert built["kv_cache_config"].free_gpu_memory_fraction == 0.4
    assert built["disable_overlap_scheduler"] is True
    assert built["skip_tokenizer_init"] is True
    assert source.load() == Load(slots=6)


async def test_leaving_in_the_middle_frees_the_slot(source, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.Hold(), 51]
    async with source.open(request()) as answer:
        assert await anext(answer) == (50,)
        assert source.load().busy == 1
    assert source.load().busy == 0
    await trtllm.engines[-1]._executor.wait_idle()


async def test_an_engine_that_dies_is_told_to_all_that_come(source, trtllm) -> None:
    trtllm.script = lambda ids, params: [50, trtllm.Dies(RuntimeError("device lost"))]
    for _ in range(2):
        with pytest.raises(EngineError, match="device lost") as caught:
            await everything(source, request())
        assert caught.value.code == "unavailable"


async def test_before_it_is_loaded_it_says_so(tmp_path) -> None:
    source = create_source(Options(), ModelStore(tmp_path))
    with pytest.raises(EngineError, match="call warm_up first"):
        await everything(source, request())


# --- the grammar ----------------------------------------------------------------------------


def test_a_processor_can_travel() -> None:
    processor = OnlyAllowed(GRAMMAR, 3)
    assert pickle.loads(pickle.dumps(processor)) == processor


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("generated", [0, 1, 6, 7, 20, 21])
def test_only_what_the_grammar_allows_keeps_its_logit(generated: int, dtype: str) -> None:
    import torch

    logits = torch.randn(1, 1, 140, generator=torch.Generator().manual_seed(1))
    logits = logits.to(getattr(torch, dtype))
    before = logits.clone()

    OnlyAllowed(GRAMMAR, 3)(7, logits, [[1, 2, 9, *range(generated)]], None, None)

    allowed, may_stop = GRAMMAR.allowed(generated)
    kept = {*allowed, *([STOP] if may_stop else [])}
    finite = set(torch.isfinite(logits[0, 0]).nonzero().flatten().tolist())
    assert finite == kept
    places = sorted(kept)
    assert torch.equal(logits[0, 0, places], before[0, 0, places])


@pytest.mark.torch
def test_each_beam_goes_by_its_own_tokens() -> None:
    import torch

    logits = torch.zeros(2, 1, 140)
    OnlyAllowed(GRAMMAR, 1)(7, logits, [[1], [1, 15]], None, None)
    assert torch.isfinite(logits[0, 0]).nonzero().flatten().tolist() == [STOP, *range(10, 26)]
    assert torch.isfinite(logits[1, 0]).nonzero().flatten().tolist() == list(range(26, 42))


@pytest.mark.torch
async def test_an_engine_that_would_break_the_rounds_cannot(source, trtllm) -> None:
    """The engine likes a token of the first place best of all, everywhere, then to stop."""
    trtllm.vocabulary = 140
    second = {token: -1.0 - token / 1000 for token in ROUND}
    trtllm.script = lambda ids, params: [
        trtllm.Step(ROUND[0], {**second, STOP: -0.5}) for _ in range(14)
    ]
    tokens = await everything(source, request(grammar=GRAMMAR, max_tokens=14))
    assert [token for (token,) in tokens] == [*ROUND, *ROUND]


@pytest.mark.torch
async def test_under_the_overlap_scheduler_it_would_be_one_behind(trtllm, tmp_path) -> None:
    """Why it is switched off: the pretended engine gives processors what the real one does."""
    source = create_source(Options(), ModelStore(tmp_path))
    arguments = source._runtime._arguments
    source._runtime._arguments = lambda api: {**arguments(api), "disable_overlap_scheduler": False}
    await source.warm_up()
    trtllm.vocabulary = 140
    trtllm.script = lambda ids, params: [
        trtllm.Step(ROUND[0], dict.fromkeys(ROUND, -1.0)) for _ in range(3)
    ]
    tokens = await everything(source, request(grammar=GRAMMAR, max_tokens=3))
    assert [token for (token,) in tokens] == [ROUND[0], ROUND[0], ROUND[1]]
    await source.close()


async def test_no_more_is_asked_for_than_the_context_holds(source, trtllm) -> None:
    asked = []

    def script(ids, params):
        asked.append(params.max_tokens)
        return []

    trtllm.script = script
    await everything(source, request(prompt=(1,) * 4000, max_tokens=5000))
    assert asked == [96]
