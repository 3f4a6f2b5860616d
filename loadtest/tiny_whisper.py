"""A Whisper of random weights, small enough for any test: ``python -m loadtest.tiny_whisper DIR``.

The folder is as transformers and TensorRT-LLM read one. The special tokens lie as in the real
vocabulary (end, start, languages, tasks, timestamps), behind the 256 bytes in place of words.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CODES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no "
    "th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw "
    "gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl "
    "mg as tt haw ln ha ba jw su"
)
LANGUAGES = CODES.split()
TASKS = ("translate", "transcribe", "startoflm", "startofprev")
TIMESTAMPS = 1501


def tiny_tokenizer(silence: str = "<|nospeech|>") -> Tokenizer:
    """Bytes, then the special tokens. Older models call silence ``<|nocaptions|>``."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["endoftext", "startoftranscript", *LANGUAGES, *TASKS]
    special = [f"<|{name}|>" for name in names] + [silence, "<|notimestamps|>"]
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    times = [AddedToken(f"<|{0.02 * i:.2f}|>", normalized=False) for i in range(TIMESTAMPS)]
    tokenizer.add_tokens(times)
    return tokenizer


def write(folder: Path, *, seed: int = 0, mels: int = 80, width: int = 32) -> Path:
    """Make the folder. Needs torch and transformers; the weights follow from ``seed``."""
    torch, transformers = import_module("torch"), import_module("transformers")
    tokenizer = tiny_tokenizer()
    special = _special(tokenizer)
    config = transformers.WhisperConfig(
        **special,
        vocab_size=tokenizer.get_vocab_size(),
        num_mel_bins=mels,
        d_model=width,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width,
        init_std=0.3,  # at the usual 0.02 all that a model this small says is one token
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(**special, **_generation(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_config())
    _write(folder / "preprocessor_config.json", _preprocessor(mels))
    return folder


def _special(tokenizer: Tokenizer) -> dict[str, int]:
    end, start = _ids(tokenizer, "endoftext", "startoftranscript").values()
    return {
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": start,
    }


def _generation(tokenizer: Tokenizer) -> dict[str, Any]:
    space, end = tokenizer.encode(" ").ids[0], _ids(tokenizer, "endoftext")["endoftext"]
    never = _ids(tokenizer, "startoftranscript", *TASKS, "nospeech")
    return {
        "is_multilingual": True,
        "lang_to_id": {f"<|{code}|>": i for code, i in _ids(tokenizer, *LANGUAGES).items()},
        "task_to_id": _ids(tokenizer, "transcribe", "translate"),
        "no_timestamps_token_id": _ids(tokenizer, "notimestamps")["notimestamps"],
        "suppress_tokens": list(never.values()),  # with these a published model's list ends
        "begin_suppress_tokens": [space, end],
        "max_length": 448,
        "return_timestamps": False,
    }


def _ids(tokenizer: Tokenizer, *names: str) -> dict[str, int]:
    vocabulary = tokenizer.get_vocab()
    return {name: vocabulary[f"<|{name}|>"] for name in names}


def _tokenizer_config() -> dict[str, Any]:
    end = "<|endoftext|>"
    return {
        "tokenizer_class": "WhisperTokenizer",
        "bos_token": end,
        "eos_token": end,
        "unk_token": end,
        "pad_token": end,
        "model_max_length": 1024,
    }


def _preprocessor(mels: int) -> dict[str, Any]:
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": mels,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "padding_value": 0.0,
        "return_attention_mask": False,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2))


def main() -> None:
    """Read the command line and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mels", type=int, default=80, choices=(80, 128))
    given = parser.parse_args()
    print(write(given.folder, seed=given.seed, mels=given.mels))


if __name__ == "__main__":
    main()
