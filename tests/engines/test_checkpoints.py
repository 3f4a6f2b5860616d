"""A folder that is not whole is refused by whoever would load it, and in words."""

import pytest

from engines.asr import whisper_checkpoint
from engines.build.manifest import MANIFEST, Fidelity, Manifest, Source, record, write_manifest
from engines.checkpoints import load_whole, located
from engines.llm import trtllm as llm_trtllm
from engines.models import ModelStore
from engines.ports import EngineError
from engines.tokens import transformers as tokens_transformers
from engines.tokens import trtllm as tokens_trtllm
from engines.tts.orpheus import Options as OrpheusOptions


@pytest.fixture
def built(tmp_path):
    """As ``voice build`` leaves it."""
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(1000))
    fidelity = Fidelity(sequences=1, positions=1, mean_kl=0.0, worst_kl=0.0, agreement=1.0)
    files = record(folder.iterdir(), "hash")
    write_manifest(folder, Manifest("orpheus", "fp8", Source("x", "", {}), {}, files, fidelity))
    return folder


def cut_short(folder):
    (folder / "model.safetensors").write_bytes(bytes(400))


def lose_a_file(folder):
    (folder / "model.safetensors").unlink()


def mix_in_another(folder):
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(10))


def halve_the_manifest(folder):
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes()[:100])


def test_a_whole_folder_a_foreign_one_and_a_hub_s_name_are_taken(built, tmp_path):
    models = ModelStore(tmp_path / "store")
    assert located("asr", str(built), models) == str(built)
    assert located("asr", str(tmp_path), models) == str(tmp_path)
    assert located("asr", "owner/name", models) == "owner/name"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_short, "model.safetensors has 400 bytes, and was built with 1000: build"),
        (lose_a_file, "model.safetensors cannot be read"),
        (mix_in_another, "model-00001-of-00002.safetensors is not of this build"),
        (halve_the_manifest, "manifest.json cannot be read"),
    ],
)
def test_what_is_wrong_with_a_built_folder_is_told(built, damage, words):
    damage(built)
    with pytest.raises(EngineError, match=words) as caught:
        located("asr", str(built), ModelStore())
    assert (caught.value.engine, caught.value.code) == ("asr", "unavailable")


@pytest.mark.parametrize(
    "make",
    [
        lambda model, models: tokens_trtllm.create_source(OrpheusOptions(model=model), models),
        lambda model, models: tokens_transformers.create_source(
            OrpheusOptions(model=model), models
        ),
        lambda model, models: llm_trtllm.create(llm_trtllm.Options(model=model), models),
        lambda model, models: whisper_checkpoint.read("whisper_trtllm", model, models),
    ],
)
def test_no_engine_begins_with_a_folder_that_was_cut_short(built, make):
    cut_short(built)
    with pytest.raises(EngineError, match="has 400 bytes, and was built with 1000"):
        make(str(built), ModelStore())


@pytest.mark.torch
def test_weights_that_are_missing_are_not_made_up(tmp_path):
    from safetensors.torch import load_file, save_file

    from loadtest import tiny_orpheus

    folder = tiny_orpheus.make(tmp_path / "tiny")
    assert load_whole("AutoModelForCausalLM", folder, "float32").config.num_hidden_layers == 1
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lack 1 of the weights .*layers\.0\.mlp\.up_proj"):
        load_whole("AutoModelForCausalLM", folder, "float32")
