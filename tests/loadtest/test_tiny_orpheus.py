"""The tiny Orpheus has the real one's ids, files and shapes."""

import json
import sys

import pytest
from tokenizers import Tokenizer

from loadtest import tiny_orpheus

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_orpheus.make(tmp_path_factory.mktemp("tiny"), seed=5)


def test_its_tokenizer_has_orpheus_s_ids(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode("tara: Hé <laugh>").ids
    assert ids[0] == 128_000
    assert all(token < 256 for token in ids[1:])
    assert tokenizer.decode(ids) == "tara: Hé <laugh>"
    assert tokenizer.token_to_id("<custom_token_0>") == 128_256
    assert tokenizer.token_to_id("<custom_token_28683>") == 156_939
    assert tokenizer.token_to_id("<|eot_id|>") == 128_009
    assert tokenizer.encode("<custom_token_10>", add_special_tokens=False).ids == [128_266]
    assert tokenizer.decode([128_266], skip_special_tokens=False) == "<custom_token_10>"


def test_its_model_is_a_llama_of_the_full_vocabulary(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["vocab_size"], config["eos_token_id"]) == (156_940, 128_258)
    assert (folder / "model.safetensors").stat().st_size < 25 << 20


def test_its_snac_has_the_real_strides(folder):
    config = json.loads((folder / "snac" / "config.json").read_text())
    assert (config["decoder_rates"], config["vq_strides"]) == ([8, 8, 4, 2], [4, 2, 1])
    assert (folder / "snac" / "pytorch_model.bin").stat().st_size < 2 << 20


def test_the_same_seed_makes_the_same_weights(folder, tmp_path, monkeypatch):
    arguments = ["tiny_orpheus", str(tmp_path / "again"), "--seed", "5"]
    monkeypatch.setattr(sys, "argv", arguments)
    tiny_orpheus.main()
    weights = "model.safetensors"
    assert (tmp_path / "again" / weights).read_bytes() == (folder / weights).read_bytes()
