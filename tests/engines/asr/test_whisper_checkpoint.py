import json

import pytest

from engines.asr.whisper_checkpoint import read
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
