"""A model's folder, taken only where all of it is there.

transformers fills what a checkpoint lacks with random numbers and says so in its log only, and
nobody notices a copy that broke off before a caller does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.build.manifest import verify_manifest
from engines.ports import EngineError

if TYPE_CHECKING:
    from engines.models import ModelStore


def located(engine: str, model: str, models: ModelStore) -> str:
    """Where ``model`` is, as ``models.locate`` has it; of a folder that ``voice build`` made,
    once it is found whole.

    Raises EngineError: what ``locate`` raises, and ``unavailable`` for a file that is missing,
    cut short, or not of the build.
    """
    where = models.locate(model)
    if Path(where).is_dir():
        try:
            # By name and size: hashing takes seconds for each 3 GB, at every start, and a copy
            # that broke off or was mixed with another shows without it.
            verify_manifest(Path(where), thorough=False)
        except EngineError as error:
            raise EngineError(engine, "unavailable", error.message) from error
    return where


def load_whole(kind: str, where: str | Path, dtype: str) -> Any:
    """The model of the transformers class ``kind`` in a folder, or of a name at the hub.

    Raises ValueError, on one line, where it cannot be read or weights are missing.
    """
    import torch
    import transformers

    try:
        model, report = getattr(transformers, kind).from_pretrained(
            where, dtype=getattr(torch, dtype), output_loading_info=True
        )
    except Exception as error:  # the config's checks, safetensors and the hub have each their own
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error
    if missing := sorted(report["missing_keys"]):
        raise ValueError(
            f"its files lack {len(missing)} of the weights that its config.json asks for, such as "
            f"{missing[0]}"
        )
    return model
