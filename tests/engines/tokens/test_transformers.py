"""Tokens from transformers: constrained, drawn by place, in turn."""

import asyncio
import json
import shutil

import pytest
import torch

from engines.models import ModelStore
from engines.ports import EngineError
from engines.tokens.ports import SlotGrammar, TokenRequest
from engines.tokens.transformers import (
    Candidates,
    Transformers,
    create_source,
    drawn,
    penalised,
    uniform,
)
from engines.tts.orpheus import Options
from engines.tts.orpheus_tokens import GRAMMAR, STOP, FrameParser, prompt_ids
from loadtest import tiny_orpheus

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]

PROMPT = prompt_ids([128_000, 84, 65, 82, 65])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_orpheus.make(tmp_path_factory.mktemp("orpheus"))


@pytest.fixture
async def source(folder):
    made = create_source(Options(model=str(folder), device="cpu"), ModelStore())
    await made.warm_up()
    yield made
    await made.close()


def request(seed=0, *, prompt=PROMPT, max_tokens=210, **more):
    return TokenRequest(prompt, max_tokens, STOP, seed=seed, grammar=GRAMMAR, **more)


def change(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}))


async def tokens_of(source, asked):
    async with source.open(asked) as chunks:
        return [token async for chunk in chunks for token in chunk]


async def test_it_makes_whole_frames_until_the_stop_token(source):
    lengths = []
    for seed in range(6):
        tokens = await tokens_of(source, request(seed, max_tokens=700))
        parser = FrameParser()
        assert len(parser.feed(tokens)) * 7 == len(tokens)
        assert (parser.broken, parser.misplaced, parser.foreign) == (0, 0, 0)
        lengths.append(len(tokens))
    assert len(set(lengths)) > 3


async def test_the_same_seed_gives_the_same_tokens_alone_or_beside_others(source):
    asked = [request(seed) for seed in range(5)]
    together = await asyncio.gather(*[tokens_of(source, one) for one in asked])
    assert [await tokens_of(source, one) for one in asked] == together
    assert len({tuple(tokens) for tokens in together}) == 5


async def test_whoever_goes_on_from_the_tokens_of_another_goes_on_alike(source):
    whole = await tokens_of(source, request(0))
    assert len(whole) > 70
    rest = await tokens_of(source, request(0, prompt=(*PROMPT, *whole[:35]), max_tokens=175))
    assert rest == whole[35:]


async def test_no_more_tokens_than_asked_for(source):
    assert len(await tokens_of(source, request(0, max_tokens=10))) == 10
    assert await tokens_of(source, request(0, max_tokens=0)) == []


async def test_requests_advance_in_turn(source):
    order = []

    async def read(name):
        async with source.open(request(0, max_tokens=35)) as chunks:
            async for _ in chunks:
                order.append(name)  # noqa: PERF401 - one by one, as they come

    await asyncio.gather(*[read(name) for name in "abc"])
    assert sorted(order) == sorted("abc" * 5)
    for start in range(0, 15, 3):
        assert set(order[start : start + 3]) == set("abc")


async def test_leaving_ends_a_request(source):
    async with source.open(request(0)) as chunks:
        await anext(chunks)
    with pytest.raises(StopAsyncIteration):
        await anext(chunks)
    assert await tokens_of(source, request(0, max_tokens=7))


async def test_without_a_grammar_all_tokens_may_come(source):
    asked = TokenRequest(PROMPT, 20, STOP, seed=1, temperature=1.0, top_p=1.0)
    tokens = await tokens_of(source, asked)
    assert any(token < 128_256 for token in tokens)


async def test_the_constrained_logits_are_the_model_s_own(source):
    model = source._model
    hidden = torch.randn(model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        all_logits = model.get_output_embeddings()(hidden)
        for made in (0, 1, 6, 7):
            candidates = Candidates(GRAMMAR, made, model.config.vocab_size)
            logits = candidates.logits(model.get_output_embeddings(), hidden)
            ids = [candidates.id(place) for place in range(len(logits))]
            assert torch.allclose(logits, all_logits[ids], atol=1e-6)
            allowed, may_stop = GRAMMAR.allowed(made)
            assert set(ids) == {*allowed, *([STOP] if may_stop else [])}
            assert torch.equal(candidates.of(all_logits), all_logits[ids])


def test_candidates_of_a_small_grammar():
    grammar = SlotGrammar(first=10, slots=2, width=3, stop=5)
    at_start, inside = Candidates(grammar, 0, 20), Candidates(grammar, 1, 20)
    assert [at_start.id(place) for place in range(4)] == [10, 11, 12, 5]
    assert [inside.id(place) for place in range(3)] == [13, 14, 15]
    with pytest.raises(IndexError):
        inside.id(3)


def test_at_temperature_0_the_likeliest_is_taken():
    assert drawn(torch.tensor([0.1, 2.0, 1.0]), 0.0, 0.8, 0.99) == 1


def test_a_lot_falls_among_the_likeliest_that_reach_top_p():
    logits = torch.tensor([0.5, 0.1, 0.3, 0.1]).log()
    hits = [drawn(logits, 1.0, 0.75, lot / 100) for lot in range(100)]
    assert set(hits) == {0, 2}
    assert hits.count(0) == pytest.approx(62.5, abs=1)
    assert {drawn(logits, 1.0, 1.0, lot / 100) for lot in range(100)} == {0, 1, 2, 3}
    assert drawn(logits, 1.0, 1.0, 1 - 2**-53) in range(4)
    assert drawn(logits, 1.0, 0.01, 0.999) == 0


def test_temperature_sharpens():
    logits = torch.tensor([1.0, 0.0])
    warm, cool = (
        sum(drawn(logits, heat, 1.0, lot / 200) == 0 for lot in range(200)) for heat in (1.0, 0.5)
    )
    assert warm == pytest.approx(200 * 0.731, abs=1)
    assert cool == pytest.approx(200 * 0.881, abs=1)


def test_what_came_before_is_less_likely():
    logits = torch.tensor([2.0, -2.0, 2.0])
    seen = torch.tensor([True, True, False])
    assert penalised(logits, seen, 2.0).tolist() == [1.0, -4.0, 2.0]


def test_lots_are_spread_and_of_their_seed_and_place():
    lots = [uniform(seed, place) for seed in range(20) for place in range(50)]
    assert len(set(lots)) == 1000
    assert all(0 <= lot < 1 for lot in lots)
    assert sum(lots) / 1000 == pytest.approx(0.5, abs=0.03)


async def test_a_folder_without_a_model_is_refused(tmp_path):
    source = Transformers(str(tmp_path), "cpu")
    with pytest.raises(EngineError, match="cannot load") as caught:
        await source.warm_up()
    assert caught.value.code == "unavailable"
    await source.close()


async def test_before_it_is_loaded_it_is_unavailable(tmp_path):
    source = Transformers(str(tmp_path), "cpu")
    with pytest.raises(EngineError, match="warm_up"):
        await tokens_of(source, request())
    await source.close()


async def test_a_token_outside_the_vocabulary_is_a_failure_not_a_crash(source):
    with pytest.raises(EngineError, match="the model failed") as caught:
        await tokens_of(source, request(prompt=(999_999,)))
    assert caught.value.code == "failed"


def test_another_name_than_a_folder_s_is_the_hub_s():
    assert create_source(Options(model="someone/orpheus"), ModelStore())._where == "someone/orpheus"


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "model.safetensors").write_bytes(b"\x00" * 4),
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:100_000]
        ),
        lambda f: change(f, hidden_size="wide"),
        lambda f: change(f, num_attention_heads=0),
        lambda f: change(f, num_hidden_layers=2),
    ],
)
async def test_a_checkpoint_that_is_broken_is_refused_in_words(folder, tmp_path, damage):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    damage(broken)
    source = create_source(Options(model=str(broken), device="cpu"), ModelStore())
    with pytest.raises(EngineError, match=r"cannot load .*see to \[tts\] model") as caught:
        await source.warm_up()
    assert caught.value.code == "unavailable"
    await source.close()
