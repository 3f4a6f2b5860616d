"""The models that engines are set to, and whether they are in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines.models import ModelStore, is_path

UNUSABLE: Final = ("missing", "damaged")


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model that an engine is set to. ``state``: ready, missing, damaged, folder, no folder, or
    named, where only the engine can tell."""

    name: str
    state: str


def model_states(options: Any, models: ModelStore) -> Iterator[ModelState]:
    """The models that options name: any of the catalogue, and the fields that hold others. Raises
    OSError where the store cannot be looked into."""
    for option in dataclasses.fields(options):
        value = getattr(options, option.name)
        if isinstance(value, str) and value in models.catalogue:
            yield ModelState(value, _state(value, models))
        elif option.name in ("model", "snac") and value:
            is_folder = Path(value).expanduser().is_dir()
            other = "no folder" if is_path(value) else "named"
            yield ModelState(value, "folder" if is_folder else other)


def _state(name: str, models: ModelStore) -> str:
    faults = models.faults(name)
    if not faults:
        return "ready"
    return "missing" if any(fault.missing for fault in faults) else "damaged"
