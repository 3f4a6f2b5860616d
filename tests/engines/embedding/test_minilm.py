"""MiniLM: what it gives is what the reference gives; look-ups do not stand behind batches."""

import asyncio
import json
import shutil
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from engines.embedding.minilm import MiniLm, Model, Options, _alike, create
from engines.embedding.safetensors import read_floats
from engines.models import ModelMissing, ModelStore
from engines.ports import EmbeddingRequest, EngineError, Priority

MODEL = "all-minilm-l6-v2"
TEXTS = (
    "When are you open on Sundays?",
    "ok",
    "The quick brown fox jumps over the lazy dog. " * 12,
    "Zürich café, 10 kΩ: naïve!",
    "你好 世界",
    "",
)
CONFIG = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
}


@asynccontextmanager
async def opened(**options):
    embedder = create(Options(**options), ModelStore())
    try:
        yield embedder
    finally:
        await embedder.close()


async def embed(embedder: MiniLm, *texts: str, priority=Priority.FINAL, cut=False):
    async with embedder.open(EmbeddingRequest(texts, priority, cut=cut)) as stream:
        [embeddings] = [each async for each in stream]
    return embeddings


@pytest.mark.engine
async def test_its_vectors_are_those_of_the_reference():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    weights = read_floats(ModelStore().path(MODEL) / "model.safetensors")
    reference = transformers.BertModel(
        transformers.BertConfig(**CONFIG), add_pooling_layer=False
    ).eval()
    lacking = reference.load_state_dict(
        {name: torch.tensor(np.array(values)) for name, values in weights.items()}, strict=False
    )
    assert not lacking.missing_keys
    async with opened() as embedder:
        made = await embed(embedder, *TEXTS)
        ids = embedder._model.read(TEXTS)
    assert made.vectors.shape == (len(TEXTS), 384)
    assert made.vectors.dtype == np.float32
    assert made.model == MODEL
    assert made.tokens == sum(map(len, ids))
    for text, vector in zip(ids, made.vectors, strict=True):
        with torch.no_grad():
            mean = reference(input_ids=torch.tensor([text]))[0].mean(1)[0].numpy()
        assert vector @ mean / np.linalg.norm(mean) >= 0.99999


@pytest.mark.engine
async def test_token_ids_are_those_of_the_reference(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = ModelStore().path(MODEL)
    known = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(sorted(known, key=known.get)) + "\n", "utf-8")
    reference = transformers.BertTokenizer(str(vocabulary), do_lower_case=True)
    ours = Model(folder, 1).read(TEXTS)
    assert ours == reference(list(TEXTS))["input_ids"]


@pytest.mark.engine
async def test_what_means_the_same_is_alike():
    async with opened() as embedder:
        made = await embed(
            embedder,
            "When is breakfast?",
            "In the morning, food is served from seven to ten.",
            "The garage has a height of two metres.",
        )
    question, food, garage = made.vectors
    assert question @ food > question @ garage + 0.2


@pytest.mark.engine
async def test_a_batch_gives_in_order_what_each_gives_alone():
    rng = np.random.default_rng(3)
    words = sorted({word for text in TEXTS for word in text.split()})
    texts = [" ".join(rng.choice(words, rng.integers(1, 60))) for _ in range(40)]
    async with opened() as embedder:
        batch = await embed(embedder, *texts, priority=Priority.BATCH)
        alone = [(await embed(embedder, text)).vectors[0] for text in texts]
        load = embedder.load()
    np.testing.assert_allclose(batch.vectors, alone, atol=1e-5)
    assert load.batches is not None
    assert sum(spread.total for spread in load.batches.rows.values()) == len(texts)
    assert load.busy == load.queued == 0


@pytest.mark.engine
async def test_a_look_up_does_not_wait_for_a_batch(monkeypatch):
    async with opened() as embedder:
        await embedder.warm_up()
        begun, go_on = threading.Event(), threading.Event()
        really = Model.embed

        def slowly(model, texts):
            if len(texts) == 3:
                begun.set()
                assert go_on.wait(30)
            return really(model, texts)

        monkeypatch.setattr(Model, "embed", slowly)
        batch = asyncio.create_task(embed(embedder, "a", "b", "c", priority=Priority.BATCH))
        await asyncio.to_thread(begun.wait, 30)
        await embed(embedder, "Is anybody there?")
        assert not batch.done()
        go_on.set()
        await batch


@pytest.mark.engine
async def test_what_is_too_long_is_refused_or_cut():
    long = "word " * 600
    async with opened(max_tokens=100) as embedder:
        for priority in (Priority.FINAL, Priority.BATCH):
            with pytest.raises(
                EngineError, match=r"text 1 has 402 tokens or.*reads 100"
            ) as refused:
                await embed(embedder, "fine", long, priority=priority)
            assert refused.value.code == "bad_request"
        cut = await embed(embedder, long, cut=True)
        short = await embed(embedder, "word " * 98)
    assert cut.tokens == 100
    np.testing.assert_allclose(cut.vectors, short.vectors, atol=1e-6)


@pytest.mark.engine
async def test_no_more_is_taken_apart_than_may_be_read(monkeypatch):
    read = []
    really = Model.read

    def noted(model, texts):
        read.append(max(map(len, texts)))
        return really(model, texts)

    monkeypatch.setattr(Model, "read", noted)
    async with opened(max_tokens=100) as embedder:
        for long in ("word " * 100_000, "\u200b" * 500_000):  # the second has no tokens at all
            await embed(embedder, long, cut=True)
            with pytest.raises(EngineError, match=r"text 0 has \d+ tokens or more"):
                await embed(embedder, long, priority=Priority.BATCH)
    assert max(read) == 2_000


@pytest.mark.engine
async def test_half_a_character_is_read_as_a_question_mark():
    async with opened() as embedder:
        odd, plain = (await embed(embedder, "caf\ud83d", "caf?")).vectors
    np.testing.assert_allclose(odd, plain, atol=1e-6)


@pytest.mark.engine
async def test_several_first_requests_load_one_model(monkeypatch):
    made = []
    really = Model.__init__

    def count(self, *arguments):
        made.append(arguments)
        really(self, *arguments)

    monkeypatch.setattr(Model, "__init__", count)
    async with opened() as embedder:
        await asyncio.gather(*(embed(embedder, "hello") for _ in range(3)))
    assert len(made) == 1


@pytest.mark.engine
async def test_a_batch_that_fails_is_an_engine_error(monkeypatch):
    from engines.onnx_sessions import ORT_ERRORS

    def fail(self, texts):
        raise ORT_ERRORS[0]("no memory")

    async with opened() as embedder:
        await embedder.warm_up()
        monkeypatch.setattr(Model, "embed", fail)
        for priority in (Priority.FINAL, Priority.BATCH):
            with pytest.raises(EngineError, match="the model failed: no memory"):
                await embed(embedder, "a", "b", priority=priority)


def test_texts_of_like_length_go_together():
    texts = [[0] * size for size in (300, 5, 300, 6, 120, 200)]
    assert list(_alike(texts)) == [[1, 3, 4], [5, 0], [2]]
    assert list(_alike([])) == []
    for batch in _alike(texts):
        assert len(batch) == 1 or len(batch) * max(len(texts[place]) for place in batch) <= 640


def test_a_missing_model_is_told_with_the_command_that_fetches_it(tmp_path):
    with pytest.raises(ModelMissing, match="voice models pull all-minilm-l6-v2 --folder"):
        create(Options(), ModelStore(tmp_path))


@pytest.mark.parametrize("most", [7, 513])
def test_a_bound_that_the_model_has_not_is_refused(most, tmp_path):
    with pytest.raises(EngineError, match="max_tokens must be 8 to 512"):
        create(Options(max_tokens=most), ModelStore(tmp_path))


async def test_a_file_that_is_no_model_is_told(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no weights at all")
    embedder = create(Options(model=str(tmp_path)), ModelStore())
    with pytest.raises(EngineError, match=f"cannot load the model in {tmp_path}.*pull it again"):
        await embedder.warm_up()
    await embedder.close()


@pytest.mark.engine
async def test_a_tokenizer_that_is_none_is_told(tmp_path):
    folder = ModelStore().path(MODEL)
    shutil.copy(Path(folder) / "model.safetensors", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    embedder = create(Options(model=str(tmp_path)), ModelStore())
    with pytest.raises(EngineError, match=r"cannot read .*tokenizer\.json"):
        await embedder.warm_up()
    await embedder.close()
