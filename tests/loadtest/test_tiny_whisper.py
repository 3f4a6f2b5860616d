import warnings

import pytest

from engines.asr.whisper_decoding import Vocabulary
from loadtest.tiny_whisper import main, tiny_tokenizer, write


def test_special_tokens_lie_as_in_the_published_vocabularies():
    """Counted from the end token, as in multilingual.tiktoken: 50257 is 0."""
    tokenizer = tiny_tokenizer()
    end = tokenizer.token_to_id("<|endoftext|>")
    published = {
        "startoftranscript": 1,
        "en": 2,
        "su": 100,
        "translate": 101,
        "transcribe": 102,
        "startoflm": 103,
        "startofprev": 104,
        "nospeech": 105,
        "notimestamps": 106,
        "0.00": 107,
        "30.00": 1607,
    }
    assert {name: tokenizer.token_to_id(f"<|{name}|>") - end for name in published} == published


def test_any_text_goes_through_it():
    tokenizer = tiny_tokenizer()
    assert tokenizer.decode(tokenizer.encode("Smörgås, 三 times!").ids) == "Smörgås, 三 times!"


@pytest.mark.torch
def test_transformers_reads_the_folder_as_a_whisper(tmp_path, monkeypatch, capsys):
    from transformers import AutoProcessor, WhisperForConditionalGeneration

    monkeypatch.setattr("sys.argv", ["tiny_whisper", str(tmp_path), "--mels", "128"])
    main()
    assert capsys.readouterr().out.strip() == str(tmp_path)
    model = WhisperForConditionalGeneration.from_pretrained(tmp_path)
    assert model.config.num_mel_bins == 128
    processor = AutoProcessor.from_pretrained(tmp_path)
    assert processor.feature_extractor.feature_size == 128
    forced = processor.get_decoder_prompt_ids(language="de", task="transcribe", no_timestamps=True)
    task = Vocabulary("tiny", tiny_tokenizer(), multilingual=True).task("de")
    assert [token for _, token in forced] == task[1:]
    assert model.generation_config.lang_to_id["<|de|>"] == task[1]


@pytest.mark.torch
def test_the_seed_makes_the_weights_and_nothing_else(tmp_path):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = torch.get_rng_state()
        one, same, other = (
            (write(tmp_path / str(i), seed=seed) / "model.safetensors").read_bytes()
            for i, seed in enumerate([3, 3, 4])
        )
    assert one == same != other
    assert torch.equal(torch.get_rng_state(), before)
