"""CTranslate2's Whisper weights back into transformers, so that both run the same real model.

The format is that of ctranslate2/specs/model_spec.py, version 6: a header, then each variable
with its name, shape, type and bytes. Queries, keys and values lie in one matrix, and the keys'
bias, which Whisper lacks, is zeros.
"""

import json
import struct
from pathlib import Path
from typing import IO

import numpy as np
import torch
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

TYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}


def variables(path: Path) -> dict[str, np.ndarray]:
    """What model.bin holds, by name."""
    with path.open("rb") as file:
        version, *_ = _read(file, "<I")
        assert version == 6
        assert _name(file) == "WhisperSpec"
        _read(file, "<I")  # the revision
        return dict(_variable(file) for _ in range(*_read(file, "<I")))


def load(folder: Path) -> WhisperForConditionalGeneration:
    """The model of a folder in CTranslate2's format, in float32."""
    found = variables(folder / "model.bin")
    rules = json.loads((folder / "config.json").read_text())
    vocabulary, width = found["decoder/embeddings/weight"].shape
    layers = {
        part: sum(f"{part}/layer_{i}/ffn/linear_0/bias" in found for i in range(64))
        for part in ("encoder", "decoder")
    }
    config = WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        num_mel_bins=found["encoder/conv1/weight"].shape[1],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_attention_heads=int(found["encoder/num_heads"]),
        decoder_attention_heads=int(found["decoder/num_heads"]),
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=found["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=found["decoder/position_encodings/encodings"].shape[0],
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        suppress_tokens=rules["suppress_ids"],
        begin_suppress_tokens=rules["suppress_ids_begin"],
    )
    left, unexpected = model.load_state_dict(state(found, layers), strict=False)
    assert (left, unexpected) == (["proj_out.weight"], [])  # it is the embedding
    return model.eval()


def state(found: dict[str, np.ndarray], layers: dict[str, int]) -> dict[str, torch.Tensor]:
    """The variables under transformers' names."""
    made = {"model.decoder.embed_tokens.weight": found["decoder/embeddings/weight"]}
    for conv in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            made[f"model.encoder.{conv}.{kind}"] = found[f"encoder/{conv}/{kind}"]
    for part, count in layers.items():
        positions = found[f"{part}/position_encodings/encodings"]
        made[f"model.{part}.embed_positions.weight"] = positions
        made |= _norm(found, f"{part}/layer_norm", f"model.{part}.layer_norm")
        for i in range(count):
            made |= _layer(found, f"{part}/layer_{i}", f"model.{part}.layers.{i}")
    return {name: torch.from_numpy(array.astype(np.float32)) for name, array in made.items()}


def _layer(found: dict[str, np.ndarray], old: str, new: str) -> dict[str, np.ndarray]:
    made = _norm(found, f"{old}/ffn/layer_norm", f"{new}.final_layer_norm")
    for i, name in enumerate(("fc1", "fc2")):
        made |= _linear(found, f"{old}/ffn/linear_{i}", f"{new}.{name}")
    made |= _norm(found, f"{old}/self_attention/layer_norm", f"{new}.self_attn_layer_norm")
    made |= _attention(found, f"{old}/self_attention", f"{new}.self_attn", [["q", "k", "v"]])
    if f"{old}/attention/linear_0/weight" in found:
        made |= _norm(found, f"{old}/attention/layer_norm", f"{new}.encoder_attn_layer_norm")
        made |= _attention(found, f"{old}/attention", f"{new}.encoder_attn", [["q"], ["k", "v"]])
    return made


def _attention(
    found: dict[str, np.ndarray], old: str, new: str, rows: list[list[str]]
) -> dict[str, np.ndarray]:
    made = _linear(found, f"{old}/linear_{len(rows)}", f"{new}.out_proj")
    for i, names in enumerate(rows):
        for kind in ("weight", "bias"):
            parts = np.split(found[f"{old}/linear_{i}/{kind}"], len(names))
            made |= {f"{new}.{n}_proj.{kind}": p for n, p in zip(names, parts, strict=True)}
    assert not made.pop(f"{new}.k_proj.bias").any()
    return made


def _linear(found: dict[str, np.ndarray], old: str, new: str) -> dict[str, np.ndarray]:
    return {f"{new}.{kind}": found[f"{old}/{kind}"] for kind in ("weight", "bias")}


def _norm(found: dict[str, np.ndarray], old: str, new: str) -> dict[str, np.ndarray]:
    return {f"{new}.weight": found[f"{old}/gamma"], f"{new}.bias": found[f"{old}/beta"]}


def _variable(file: IO[bytes]) -> tuple[str, np.ndarray]:
    name = _name(file)
    shape = _read(file, f"<{_read(file, '<B')[0]}I")
    (kind,) = _read(file, "<B")
    return name, np.frombuffer(file.read(*_read(file, "<I")), TYPES[kind]).reshape(shape)


def _name(file: IO[bytes]) -> str:
    return file.read(*_read(file, "<H")).rstrip(b"\0").decode()


def _read(file: IO[bytes], layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
