"""A built Orpheus read back from the disk: is all of it there, and what does it compute?

Nothing here knows how ModelOpt works inside. The files are read as an engine reads them, and
run in plain PyTorch with each value rounded where the engine rounds: weights and the inputs of
the linear layers to E4M3 with their scales, keys and values on their way to the cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engines.build.steps import BuildError, needs

if TYPE_CHECKING:
    import torch

_HEAD: Final = "lm_head.weight"
_OF_THE_CACHE: Final = {"k_proj": "k_scale", "v_proj": "v_scale"}

Tensors = Mapping[str, "torch.Tensor"]


def read_exported(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the folder's safetensors, on the CPU. Raises BuildError."""
    safetensors = needs("safetensors")
    tensors: dict[str, torch.Tensor] = {}
    with ExitStack() as stack:
        for path in sorted(folder.glob("*.safetensors")):
            try:
                file = stack.enter_context(safetensors.safe_open(path, framework="pt"))
                tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            except (OSError, safetensors.SafetensorError) as error:
                raise BuildError(f"{path} cannot be read back: {error}") from error
    return tensors


def check_exported(tensors: Tensors, model: Any, *, fp8: bool) -> None:
    """Raise BuildError unless the tensors are those of ``model``, each of its shape and finite;
    with ``fp8`` the linear layers below the head in E4M3, each with its scales."""
    torch = needs("torch")
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        expected.pop(_HEAD, None)
    faults = [*_misshapen(tensors, expected)]
    scales: set[str] = set()
    for name in expected:
        if not (fp8 and _is_quantised(name)) or name not in tensors:
            continue
        if tensors[name].dtype != torch.float8_e4m3fn:
            faults.append(f"{name} is {tensors[name].dtype}, not float8_e4m3fn")
        wanted = _scales_of(name)
        scales |= set(wanted)
        faults += [
            f"{scale} is missing or no positive number"
            for scale in wanted
            if not _is_scale(tensors.get(scale))
        ]
    faults += [f"{name} is unknown" for name in tensors.keys() - expected.keys() - scales]
    if faults:
        raise BuildError(
            f"what was exported is not whole: {'; '.join(sorted(faults)[:3])}"
            f"{f' and {len(faults) - 3} more' if len(faults) > 3 else ''}: try other versions of "
            "nvidia-modelopt and transformers"
        )


def restore(tensors: Tensors, model: Any) -> None:
    """Make ``model``, of the same shape, compute what the checked tensors say."""
    torch = needs("torch")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors[name].to(parameter.device).float()
            if _is_quantised(name) and (scale := tensors.get(_scales_of(name)[0])) is not None:
                tensor = tensor * scale.to(parameter.device)
            parameter.copy_(tensor)
    for name, layer in model.named_modules():
        scale = tensors.get(f"{name}.input_scale")
        if scale is not None:
            layer.register_forward_pre_hook(partial(_round_input, float(scale)))


def rounding_cache(tensors: Tensors, model: Any) -> Callable[[], dict[str, Any]]:
    """Makes, for one sequence, the argument that gives ``model`` a cache in FP8."""
    transformers = needs("transformers")
    # One name in transformers 4, the other in 5.
    parameters = inspect.signature(model.base_model.forward).parameters
    argument = "cache" if "cache" in parameters else "past_key_values"
    pairs = [
        tuple(
            float(tensors[f"model.layers.{layer}.self_attn.{projection}.{scale}"])
            for projection, scale in _OF_THE_CACHE.items()
        )
        for layer in range(model.config.num_hidden_layers)
    ]

    class Rounding(transformers.DynamicCache):  # type: ignore[misc, name-defined]
        def update(self, keys: Any, values: Any, layer_idx: int, *more: Any, **other: Any) -> Any:
            of_keys, of_values = pairs[layer_idx]
            keys, values = _rounded(keys, of_keys), _rounded(values, of_values)
            return super().update(keys, values, layer_idx, *more, **other)

    return lambda: {"use_cache": True, argument: Rounding()}


def _is_quantised(name: str) -> bool:
    return name.endswith("_proj.weight")


def _scales_of(weight: str) -> list[str]:
    layer = weight.removesuffix(".weight")
    scales = [f"{layer}.weight_scale", f"{layer}.input_scale"]
    of_cache = _OF_THE_CACHE.get(layer.rpartition(".")[2])
    return [*scales, f"{layer}.{of_cache}"] if of_cache else scales


def _misshapen(tensors: Tensors, expected: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    for name, shape in expected.items():
        if name not in tensors:
            yield f"{name} is missing"
        elif tuple(tensors[name].shape) != shape:
            yield f"{name} has the shape {tuple(tensors[name].shape)}, not {shape}"
        elif not tensors[name].float().isfinite().all():
            yield f"{name} is not finite"


def _is_scale(scale: torch.Tensor | None) -> bool:
    return scale is not None and scale.numel() == 1 and 0 < float(scale) < float("inf")


def _round_input(scale: float, _layer: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    return (_rounded(inputs[0], scale), *inputs[1:])


def _rounded(values: torch.Tensor, scale: float) -> torch.Tensor:
    """To the nearest that E4M3 has at this scale; what lies beyond, to the largest."""
    e4m3 = needs("torch").float8_e4m3fn
    largest = needs("torch").finfo(e4m3).max
    scaled = (values.float() / scale).clamp(-largest, largest)
    return (scaled.to(e4m3).float() * scale).to(values.dtype)
