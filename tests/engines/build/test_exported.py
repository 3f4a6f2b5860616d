"""Files read back: each way in which they may be incomplete is found, and rounding is E4M3's."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engines.build.exported import check_exported, read_exported, restore, rounding_cache
from engines.build.steps import BuildError

pytestmark = pytest.mark.torch

E4M3 = torch.float8_e4m3fn
LAYER = "model.layers.0.self_attn.k_proj"


@pytest.fixture
def model():
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        attention_bias=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


@pytest.fixture
def tensors(model):
    """The model in FP8, by hand: weights at their largest, inputs up to 8, the cache up to 4."""
    made = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if not name.endswith("_proj.weight"):
            made[name] = tensor.bfloat16()
            continue
        layer = name.removesuffix(".weight")
        scale = tensor.abs().max() / 448
        made[name] = (tensor / scale).to(E4M3)
        made[f"{layer}.weight_scale"], made[f"{layer}.input_scale"] = scale, torch.tensor(8 / 448)
        if layer.endswith(("k_proj", "v_proj")):
            made[f"{layer}.{layer[-6]}_scale"] = torch.tensor(4 / 448)
    return made


def test_a_whole_export_is_whole(tensors, model):
    check_exported(tensors, model, fp8=True)


def test_16_bits_need_no_scales(model):
    plain = {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}
    del plain["lm_head.weight"]
    check_exported(plain, model, fp8=False)
    with pytest.raises(BuildError, match="not float8_e4m3fn"):
        check_exported(plain, model, fp8=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (f"{LAYER}.weight", None, f"{LAYER}.weight is missing"),
        (f"{LAYER}.weight", torch.zeros(8, 16), f"{LAYER}.weight is torch.float32, not float8"),
        ("model.norm.weight", torch.zeros(15), r"model.norm.weight has the shape \(15,\), not"),
        ("model.norm.weight", torch.full((16,), torch.nan), "model.norm.weight is not finite"),
        (f"{LAYER}.weight_scale", None, f"{LAYER}.weight_scale is missing or no positive"),
        (f"{LAYER}.input_scale", torch.tensor(0.0), f"{LAYER}.input_scale is missing or no pos"),
        (f"{LAYER}.k_scale", torch.tensor(torch.inf), f"{LAYER}.k_scale is missing or no posit"),
        ("model.layers.1.self_attn.v_proj.v_scale", None, "v_scale is missing"),
        (f"{LAYER}.v_scale", torch.tensor(1.0), f"{LAYER}.v_scale is unknown"),
    ],
)
def test_what_is_not_whole_is_told(tensors, model, name, value, message):
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    with pytest.raises(BuildError, match=message):
        check_exported(tensors, model, fp8=True)


def test_of_many_faults_the_first_are_told(tensors, model):
    for name in [name for name in tensors if name.endswith("_scale")]:
        del tensors[name]
    with pytest.raises(BuildError, match=r"and 29 more: try other versions"):
        check_exported(tensors, model, fp8=True)


def test_a_file_that_is_no_safetensors_is_told(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"not a header")
    with pytest.raises(BuildError, match=r"model\.safetensors cannot be read back"):
        read_exported(tmp_path)


def test_what_is_restored_computes_as_the_files_say(tensors, model):
    layer = model.model.layers[0].self_attn.k_proj
    restore(tensors, model)
    scale = tensors[f"{LAYER}.weight_scale"]
    weight = tensors[f"{LAYER}.weight"].float() * scale
    torch.testing.assert_close(layer.weight.detach(), weight)
    given = torch.tensor([[0.1, 3.3, -7.9, 100.0] * 4])
    rounded = (given / (8 / 448)).clamp(-448, 448).to(E4M3).float() * (8 / 448)
    assert rounded.abs().max() == 8
    with torch.inference_mode():
        torch.testing.assert_close(layer(given), rounded @ weight.T)


def test_keys_and_values_are_rounded_on_their_way_to_the_cache(tensors, model):
    # Nine of ten values lie between two that E4M3 has, so that rounding shows.
    tensors["model.layers.1.self_attn.v_proj.v_scale"] = torch.tensor(0.5)
    [(_, cache)] = [
        (name, made)
        for name, made in rounding_cache(tensors, model)().items()
        if name != "use_cache"
    ]
    keys, values = torch.full((1, 1, 1, 8), 3.1), torch.full((1, 1, 1, 8), 8.7)
    kept_keys, kept_values = cache.update(keys, values, 1)
    scale = torch.tensor(4 / 448)
    torch.testing.assert_close(kept_keys, (keys / scale).to(E4M3).float() * scale)
    assert kept_values.unique().tolist() == [9.0]
    assert not kept_keys.equal(keys)


def test_the_rounding_reaches_what_the_model_says(tensors, model):
    ids = torch.arange(8)[None]
    restore(tensors, model)
    with torch.inference_mode():
        fine = model(input_ids=ids, **rounding_cache(tensors, model)()).logits
        for name in tensors:
            if name.endswith(("k_scale", "v_scale")):
                tensors[name] = torch.tensor(1000.0)  # all too small for it
        coarse = model(input_ids=ids, **rounding_cache(tensors, model)()).logits
        exact = model(input_ids=ids, use_cache=False).logits
    assert (fine - exact).abs().max() < (coarse - exact).abs().max()
    assert (fine - exact).abs().max() > 0
