"""What ModelOpt makes of a tiny model, and what of it is told."""

import json
import sys
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM

from engines.build import fp8
from engines.build.calibration import Spoken
from engines.build.exported import check_exported, read_exported
from engines.build.steps import BuildError
from engines.tts.orpheus_tokens import ids_of

pytestmark = pytest.mark.torch

SPOKEN = [Spoken((128_259, 5, 6), ids_of(range(7))), Spoken((128_259, 8), ids_of(range(9, 16)))]


@pytest.fixture
def model(orpheus):
    return AutoModelForCausalLM.from_pretrained(orpheus, dtype=torch.bfloat16).eval()


def test_scales_are_the_largest_that_calibration_saw(model, told, tmp_path, capsys):
    seen, layer = [], model.model.layers[0].mlp.down_proj
    weight = layer.weight.detach().float().abs().max()
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].abs().max()))
    fp8.quantise(model, SPOKEN, told)
    largest = max(seen).float()
    fp8.export(model, model.config.to_dict(), tmp_path, told)
    tensors = read_exported(tmp_path)
    name = "model.layers.0.mlp.down_proj"
    assert tensors[f"{name}.input_scale"].item() == pytest.approx(largest.item() / 448, rel=1e-5)
    assert tensors[f"{name}.weight_scale"].item() == pytest.approx(weight.item() / 448, rel=1e-5)
    assert tensors["model.embed_tokens.weight"].dtype == torch.bfloat16
    assert told.done["calibrate"] == [19, 19, "tokens"]
    assert capsys.readouterr().out == ""


def test_the_config_is_the_sources_own_with_what_fp8_adds(model, told, tmp_path):
    source = {"model_type": "llama", "rope_theta": 500000.0, "from_a_fork": 1}
    fp8.quantise(model, SPOKEN, told)
    fp8.export(model, source, tmp_path, told)
    config = json.loads((tmp_path / "config.json").read_bytes())
    assert config["rope_theta"] == 500000.0
    assert config["from_a_fork"] == 1
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["quantization_config"]["quant_algo"] == "FP8"
    assert config["quantization_config"]["kv_cache_scheme"]["num_bits"] == 8
    engine = json.loads((tmp_path / "hf_quant_config.json").read_bytes())["quantization"]
    assert (engine["quant_algo"], engine["kv_cache_quant_algo"]) == ("FP8", "FP8")
    assert "lm_head" in engine["exclude_modules"]


@pytest.mark.parametrize(
    ("written", "older"),
    [
        ({"rope_type": "default", "rope_theta": 5.0}, {"rope_theta": 5.0}),
        (
            {"rope_type": "llama3", "rope_theta": 5.0, "factor": 32.0},
            {"rope_theta": 5.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0}},
        ),
    ],
)
def test_a_config_of_transformers_5_can_be_read_by_4(written, older):
    config = {"rope_parameters": written}
    assert fp8.with_older_names(config) == {"rope_parameters": written, **older}


def test_warnings_are_told_once_and_what_is_for_developers_never(monkeypatch, told, capsys):
    def quantize(*arguments):
        for text in ("the model is odd\nand more", "the model is odd\nand other"):
            warnings.warn(text, UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        sys.stdout.write("Inserted 56 quantizers")

    fp8.load_modelopt(told)
    told.lines.clear()
    monkeypatch.setattr("modelopt.torch.quantization.quantize", quantize)
    fp8.quantise(None, SPOKEN, told)
    assert told.lines == ["modelopt: the model is odd"]
    assert capsys.readouterr().out == ""


def test_a_failure_of_modelopt_is_told_with_what_to_try(monkeypatch, told):
    def quantize(*arguments):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr("modelopt.torch.quantization.quantize", quantize)
    with pytest.raises(BuildError, match=r"CUDA out of memory.*--samples, --frames"):
        fp8.quantise(None, SPOKEN, told)
    assert told.running is None


def test_what_is_written_is_whole(model, told, tmp_path, orpheus):
    fp8.quantise(model, SPOKEN, told)
    fp8.export(model, model.config.to_dict(), tmp_path, told)
    plain = AutoModelForCausalLM.from_pretrained(orpheus, dtype=torch.bfloat16)
    check_exported(read_exported(tmp_path), plain, fp8=True)
