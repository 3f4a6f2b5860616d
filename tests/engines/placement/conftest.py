"""A machine's GPUs, seen through the pretended pynvml."""

from types import ModuleType

import pytest


@pytest.fixture
def see(nvml: ModuleType):
    """The inventory of a machine with these GPUs."""
    from engines.placement import inventory

    def seen(*gpus, **changes):
        nvml.pretend(gpus=list(gpus), **changes)
        return inventory()

    return seen
