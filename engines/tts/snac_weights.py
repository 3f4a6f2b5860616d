"""Where a SNAC comes from: a folder, a hub, or a seed."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any, Final

import torch

from engines.ports import EngineError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it compiles a function by TorchScript
    import snac

HUB_NAME: Final = "hubertsiuzdak/snac_24khz"
CONFIG_24KHZ: Final[dict[str, Any]] = {  # config.json of HUB_NAME
    "sampling_rate": 24_000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
TINY: Final[dict[str, Any]] = {"encoder_dim": 2, "decoder_dim": 32}
"""Changes to CONFIG_24KHZ for tests: the same times and strides in a thousandth of the size."""


def load_snac(folder_or_name: str | Path = HUB_NAME) -> snac.SNAC:
    """The SNAC in a folder (config.json and pytorch_model.bin), or of a name at the hub.

    Raises EngineError, which says what to do.
    """
    folder = Path(folder_or_name).expanduser()
    return _from_folder(folder) if folder.is_dir() else _from_hub(str(folder_or_name))


def random_snac(seed: int = 0, **changes: Any) -> snac.SNAC:
    """A SNAC of random weights, always the same ones for a seed: noise for what it speaks, but
    all layers count. Its shape is CONFIG_24KHZ with ``changes``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = snac.SNAC(**{**CONFIG_24KHZ, **changes})
        for name, parameter in model.named_parameters():
            if name.endswith("alpha"):  # else they are all one, and a wrong one would not show
                parameter.data.uniform_(0.5, 2.0)
    return model.eval()


def _from_folder(folder: Path) -> snac.SNAC:
    config, weights = folder / "config.json", folder / "pytorch_model.bin"
    for file in (config, weights):
        if not file.is_file():
            raise EngineError(
                "snac",
                "unavailable",
                f"{file} is missing: give a folder that holds config.json and pytorch_model.bin "
                f"of {HUB_NAME}",
            )
    try:
        model = snac.SNAC(**json.loads(config.read_text("utf-8")))
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, pickle.PickleError) as error:
        raise EngineError(
            "snac",
            "failed",
            f"{folder} holds no SNAC that can be read: {error}; fetch its two files again",
        ) from error
    return model.eval()


def _from_hub(name: str) -> snac.SNAC:
    try:
        model: snac.SNAC = snac.SNAC.from_pretrained(name)
    except ImportError as error:
        what = f"{name!r} is no folder, and without huggingface_hub no hub can be asked"
        raise _unreachable(what) from error
    except Exception as error:  # the hub's client has dozens of kinds
        what = f"{name!r} is no folder, and cannot be had from the hub: {error}"
        raise _unreachable(what) from error
    return model


def _unreachable(what: str) -> EngineError:
    return EngineError(
        "snac",
        "unavailable",
        f"{what}; give a folder that holds config.json and pytorch_model.bin of {HUB_NAME}",
    )
