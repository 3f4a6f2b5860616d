"""An Orpheus that says nothing: a model of its architecture, vocabulary and files, tiny and random.

``python -m loadtest.tiny_orpheus FOLDER`` makes the folder, with a SNAC decoder in FOLDER/snac.
The weights are drawn from a seed, and its stop token is made just so likely that a piece of speech
lasts some seconds. It proves the path from text to sound on any machine; what is heard is noise.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, Final

from engines.tts.orpheus_tokens import CODES, CUSTOM_TOKEN_0, STOP, VOCABULARY

BOS: Final = 128_000
_EOT: Final = 128_009

_WIDTH: Final = 32
_TEMPERATURE, _TOP_P = 0.6, 0.8  # at which the length is as asked


def make(folder: Path, *, frames: float = 24.0, seed: int = 0, full_snac: bool = False) -> Path:
    """Write the model into ``folder``, which is made; the same ``seed``, the same files.

    ``frames``: how long a piece is in the mean, of 85 ms each, where nobody stops it before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _make_tokenizer(folder / "tokenizer.json")
    _make_model(folder, frames, seed)
    _make_snac(folder / "snac", seed, full=full_snac)
    return folder


def _make_tokenizer(path: Path) -> None:
    """Bytes for text, and all the special tokens where Orpheus has them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = {BOS: "<|begin_of_text|>", 128_001: "<|end_of_text|>", _EOT: "<|eot_id|>"}
    custom = {
        CUSTOM_TOKEN_0 + number: f"<custom_token_{number}>"
        for number in range(VOCABULARY - CUSTOM_TOKEN_0)
    }
    special = {**marks, **custom}
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    vocabulary |= {text: number for number, text in special.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special.values()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{marks[BOS]} $A", special_tokens=[(marks[BOS], BOS)]
    )
    tokenizer.save(str(path), pretty=False)


def _make_model(folder: Path, frames: float, seed: int) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=_WIDTH,
        intermediate_size=2 * _WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=STOP,
        pad_token_id=CUSTOM_TOKEN_0 + 7,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        _make_stop_likely(model, frames)
    model.save_pretrained(folder)


def _make_stop_likely(model: Any, frames: float) -> None:
    """Let one dimension pass through the layers untouched, and the stop token listen to it."""
    embeddings = model.get_input_embeddings().weight
    embeddings[:, 0] = 0.05
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = 0.0
        layer.mlp.down_proj.weight[0] = 0.0
    # The norm at the end makes of it something near 0.05 / rms, and the codes' own logits are
    # small, so among them the stop token has the chance that its logit gives it.
    rms = embeddings.square().mean().sqrt()
    passed = 0.05 / rms
    wanted = 1.0 / frames
    logit = _TEMPERATURE * math.log(_TOP_P * wanted / (1 - _TOP_P * wanted) * CODES)
    embeddings[STOP] = 0.0
    embeddings[STOP, 0] = logit / passed


def _make_snac(folder: Path, seed: int, *, full: bool) -> None:
    import torch

    from engines.tts.snac_weights import CONFIG_24KHZ, TINY, random_snac

    folder.mkdir(exist_ok=True)
    changes = {} if full else TINY
    (folder / "config.json").write_text(json.dumps({**CONFIG_24KHZ, **changes}, indent=2))
    torch.save(random_snac(seed, **changes).state_dict(), folder / "pytorch_model.bin")


def main() -> None:
    """Make the folder that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=float, default=24.0, help="mean length of a piece")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full-snac", action="store_true", help="SNAC in its real size, 80 MB")
    wanted = parser.parse_args()
    made = make(wanted.folder, frames=wanted.frames, seed=wanted.seed, full_snac=wanted.full_snac)
    print(f"made {made}")


if __name__ == "__main__":
    main()
