"""FP8 weights, activations and keys and values, by NVIDIA's ModelOpt.

One scale a tensor, found as the largest value seen in calibration; the embedding and the output
layer stay in 16 bits. The folder that is written is what TensorRT-LLM's PyTorch backend loads.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from engines.build.calibration import Spoken
from engines.build.source import CONFIG
from engines.build.steps import BuildError, Steps, needs, step


def quantise(model: Any, spoken: Sequence[Spoken], steps: Steps) -> None:
    """Quantise in place, with the ranges that ``spoken`` has."""
    torch, mtq = needs("torch"), load_modelopt(steps)
    tokens = sum(len(one.ids) for one in spoken)

    def forward(quantised: Any) -> None:
        with torch.inference_mode():
            for one in spoken:
                ids = torch.tensor([one.ids], device=model.device)
                # Without the output layer, which stays as it is.
                quantised.base_model(input_ids=ids, use_cache=False)
                steps.advance(len(one.ids))

    with _told(steps), step(steps, "calibrate", "tokens", tokens):
        rules = mtq.update_quant_cfg_with_kv_cache_quant(
            mtq.FP8_DEFAULT_CFG, mtq.FP8_KV_CFG["quant_cfg"]
        )
        mtq.quantize(model, rules, forward)


def export(model: Any, config: dict[str, Any], folder: Path, steps: Steps) -> None:
    """Write the quantised weights, with ``config``, that of the source, beside them.

    The source's own, since each version of transformers writes those in names of its own, and
    the engine reads them with another: of a name that it does not know it would take the
    default, and speak gibberish.
    """
    with _told(steps):
        needs("modelopt.torch.export").export_hf_checkpoint(model, export_dir=folder)
    path = folder / CONFIG
    written = json.loads(path.read_bytes())
    path.write_text(
        json.dumps(
            {
                **with_older_names(config),
                "architectures": written["architectures"],
                "torch_dtype": "bfloat16",
                "quantization_config": written["quantization_config"],
            },
            indent=2,
        )
        + "\n",
        "utf-8",
    )


def load_modelopt(steps: Steps) -> Any:
    """``modelopt.torch.quantization``. Raises BuildError where it is not there."""
    with _told(steps):
        return needs("modelopt.torch.quantization")


def with_older_names(config: dict[str, Any]) -> dict[str, Any]:
    """With the rotary embedding in both spellings: transformers 5 writes another than 4 reads."""
    rope = config.get("rope_parameters")
    if not rope:
        return config
    older: dict[str, Any] = {"rope_theta": rope["rope_theta"]}
    if rope.get("rope_type", "default") != "default":
        older["rope_scaling"] = {key: rope[key] for key in rope if key != "rope_theta"}
    return {**config, **older}


@contextmanager
def _told(steps: Steps) -> Iterator[None]:
    """What ModelOpt prints is for its own developers; its warnings are told, one line each."""
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
        warnings.simplefilter("default")
        for aimed_at_developers in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", aimed_at_developers)
        warnings.filterwarnings("ignore", "To copy construct from a tensor")
        try:
            yield
        except (RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
            raise BuildError(
                f"ModelOpt failed: {error}. Out of memory: take a larger device, or fewer and "
                "shorter samples (--samples, --frames); else try another version of it"
            ) from error
        finally:
            for line in dict.fromkeys(str(one.message).split("\n")[0] for one in caught):
                steps.say(f"modelopt: {line}")
