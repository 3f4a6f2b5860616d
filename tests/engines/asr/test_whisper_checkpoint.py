import json

import pytest

from engines.asr.whisper_checkpoint import read, without_rules
from engines.models import ModelStore
from engines.ports import EngineError
from loadtest.tiny_whisper import tiny_tokenizer


def write(folder, **rules) -> str:
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text(json.dumps(rules))
    return str(folder)


def test_a_folder_tells_its_words_and_what_it_never_says(tmp_path):
    folder = write(tmp_path, suppress_tokens=[1, 2], begin_suppress_tokens=[220])
    found = read("asr", folder, ModelStore())
    assert found.where == folder
    assert (found.never, found.never_first) == ((1, 2), (220,))
    assert found.vocabulary.multilingual
    assert found.vocabulary.id("<|en|>") > 0


@pytest.mark.parametrize("rules", [{"suppress_tokens": [-1]}, {"suppress_tokens": None}, {}])
def test_a_model_may_forbid_nothing(tmp_path, rules):
    found = read("asr", write(tmp_path, **rules, is_multilingual=False), ModelStore())
    assert (found.never, found.never_first) == ((), ())
    assert not found.vocabulary.multilingual


@pytest.mark.parametrize("missing", ["tokenizer.json", "generation_config.json"])
def test_a_missing_file_is_named_with_what_the_folder_needs(tmp_path, missing):
    folder = write(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(EngineError, match=f"{folder}.*tokenizer.json and generation_") as no:
        read("asr", folder, ModelStore())
    assert (no.value.code, no.value.engine) == ("unavailable", "asr")


def test_any_other_name_is_looked_up_at_the_hub(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    write(tmp_path)
    asked = []

    def download(name: str, file: str) -> str:
        asked.append((name, file))
        return str(tmp_path / file)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    assert read("asr", "openai/whisper-tiny", ModelStore()).where == "openai/whisper-tiny"
    assert asked == [
        ("openai/whisper-tiny", "tokenizer.json"),
        ("openai/whisper-tiny", "generation_config.json"),
    ]


def test_a_copy_without_its_rules_shares_the_weights(tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    rules = {"suppress_tokens": [1], "begin_suppress_tokens": [2]}
    write(source, **rules, eos_token_id=3)
    (source / "config.json").write_text(json.dumps({**rules, "d_model": 8}))
    (source / "model.safetensors").write_bytes(b"weights")
    assert without_rules(str(source), copy) == copy
    assert json.loads((copy / "generation_config.json").read_text()) == {"eos_token_id": 3}
    assert json.loads((copy / "config.json").read_text()) == {"d_model": 8}
    assert (copy / "model.safetensors").is_symlink()
    assert (copy / "model.safetensors").read_bytes() == b"weights"
    assert read("asr", str(source), ModelStore()).never == (1,)


def test_a_copy_of_a_model_at_the_hub_is_one_of_what_was_fetched(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    write(source, suppress_tokens=[1])
    monkeypatch.setattr(hub, "snapshot_download", lambda name, allow_patterns: str(source))
    without_rules("openai/whisper-tiny", copy)
    assert json.loads((copy / "generation_config.json").read_text()) == {}
