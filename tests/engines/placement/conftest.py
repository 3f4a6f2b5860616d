"""The module pynvml, pretended."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FAKE = Path(__file__).parents[2] / "fakes" / "pynvml.py"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What ``import pynvml`` gives: ``nvml.pretend(gpus=[nvml.h200("1g.18gb")])``."""
    spec = importlib.util.spec_from_file_location("pynvml", FAKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def see(nvml: ModuleType):
    """The inventory of a machine with these GPUs."""
    from engines.placement import inventory

    def seen(*gpus, **changes):
        nvml.pretend(gpus=list(gpus), **changes)
        return inventory()

    return seen
