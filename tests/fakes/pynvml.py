"""A stand-in for NVIDIA's module of this name: the same functions, arguments and errors, and a
machine that the test makes up. tests/engines/placement/test_nvml.py holds it to the real one.

``pretend(gpus=[h200("1g.18gb", None, "3g.71gb")])`` sets the machine; without it there is none.
"""

# ruff: noqa: N802 - the published names

from __future__ import annotations

import functools
import inspect
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NVML_SUCCESS = 0
NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
NVML_ERROR_UNKNOWN = 999
NVML_DEVICE_MIG_DISABLE = 0
NVML_DEVICE_MIG_ENABLE = 1

_MIB = 1 << 20


class NVMLError(Exception):
    """``NVMLError(code)`` is an object of the code's own class, as in the real module."""

    classes: dict[int, type[NVMLError]] = {}  # noqa: RUF012 - filled below, for all of them
    value: int

    def __new__(cls, value: int = NVML_ERROR_UNKNOWN) -> NVMLError:
        made = Exception.__new__(cls.classes.get(value, cls) if cls is NVMLError else cls)
        made.value = value if cls is NVMLError else cls.value
        return made

    def __str__(self) -> str:
        return {
            NVML_ERROR_LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
            NVML_ERROR_GPU_IS_LOST: "GPU is lost",
            NVML_ERROR_UNKNOWN: "Unknown Error",
        }.get(self.value, f"NVML Error with code {self.value}")


for _name, _code in [*globals().items()]:
    if _name.startswith("NVML_ERROR_"):
        _class = "NVMLError_" + string.capwords(_name[11:], "_").replace("_", "")
        globals()[_class] = NVMLError.classes[_code] = type(_class, (NVMLError,), {"value": _code})


# --- the machine ----------------------------------------------------------------------------


@dataclass
class Part:
    """A MIG device. ``name`` None: a driver that gives it none."""

    name: str | None
    uuid: str
    memory_mib: int
    compute: int
    instance: int
    faults: dict[str, int] = field(default_factory=dict)


@dataclass
class Card:
    """A GPU. ``mig``: current and pending mode, None where it has none; ``parts``: by index, None
    is a hole. ``faults``: name of a function -> the error it gives."""

    name: str
    uuid: str
    memory_mib: int
    mig: tuple[int, int] | None = None
    parts: list[Part | None] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    """Percent."""


@dataclass
class _Machine:
    gpus: list[Card] = field(default_factory=list)
    driver: str = "580.95.05"
    faults: dict[str, int] = field(default_factory=dict)
    opened: int = 0


machine = _Machine(faults={"nvmlInit": NVML_ERROR_LIBRARY_NOT_FOUND})


def pretend(**changes: Any) -> None:
    """Be this machine from now on."""
    global machine
    machine = _Machine(**changes)


# MiB and shares of compute as `nvidia-smi mig -lgip` gives them on an H200 and an H100.
_SHAPES = {
    "1g.18gb": (16384, 1),
    "1g.35gb": (33280, 1),
    "2g.35gb": (33280, 2),
    "3g.71gb": (71424, 3),
    "4g.71gb": (71424, 4),
    "7g.141gb": (143360, 7),
    "1g.10gb": (9728, 1),
    "3g.40gb": (40448, 3),
}


def h200(*profiles: str | None, index: int = 0, mig: bool = True) -> Card:
    """An H200 with these slices; None is a hole where one was destroyed."""
    return _card("NVIDIA H200", 143771, profiles, index, mig)


def h100(*profiles: str | None, index: int = 0, mig: bool = True) -> Card:
    """An H100 with these slices."""
    return _card("NVIDIA H100 80GB HBM3", 81559, profiles, index, mig)


def _card(
    name: str, memory_mib: int, profiles: tuple[str | None, ...], index: int, mig: bool
) -> Card:
    parts = [
        profile and Part(f"{name} MIG {profile}", f"MIG-{index}{number:07}", *_SHAPES[profile],
                         instance=number + 3)
        for number, profile in enumerate(profiles)
    ]  # fmt: skip
    return Card(name, f"GPU-{index:08}", memory_mib, (int(mig), int(mig)), parts)  # type: ignore[arg-type]


# --- the functions --------------------------------------------------------------------------


class c_nvmlDevice_t:  # noqa: N801 - its published name
    """A handle; nothing but these may be handed in."""

    def __init__(self, device: Card | Part) -> None:
        self.device = device


class c_nvmlMemory_t:  # noqa: N801 - its published name
    """In bytes."""

    def __init__(self, total: int) -> None:
        self.total, self.free, self.used = total, total, 0


class c_nvmlUtilization_t:  # noqa: N801 - its published name
    """In percent."""

    def __init__(self, gpu: int) -> None:
        self.gpu, self.memory = gpu, 0


class c_nvmlDeviceAttributes:  # noqa: N801 - its published name
    """Of a MIG device."""

    def __init__(self, part: Part) -> None:
        self.multiprocessorCount = 16 * part.compute
        self.gpuInstanceSliceCount = self.computeInstanceSliceCount = part.compute
        self.memorySizeMB = part.memory_mib


def _published(function: Callable[..., Any]) -> Callable[..., Any]:
    """Fail as told, refuse a caller who did not open, and anything that is no handle or index."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        for name in names:
            if name in ("handle", "device"):
                assert isinstance(given[name], c_nvmlDevice_t), f"{name} is no handle"
            if name == "index":
                assert type(given[name]) is int, "c_uint takes an int"
        handles = [value.device for value in given.values() if isinstance(value, c_nvmlDevice_t)]
        for place in (machine, *handles):
            if function.__name__ in place.faults:
                raise NVMLError(place.faults[function.__name__])
        if function.__name__ != "nvmlInit" and not machine.opened:
            raise NVMLError(NVML_ERROR_UNINITIALIZED)
        return function(*args, **kwargs)

    return checked


def _card_of(device: c_nvmlDevice_t) -> Card:
    if not isinstance(device.device, Card):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return device.device


def _part_of(device: c_nvmlDevice_t) -> Part:
    if not isinstance(device.device, Part):
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return device.device


@_published
def nvmlInit():
    machine.opened += 1


@_published
def nvmlShutdown():
    machine.opened -= 1


@_published
def nvmlSystemGetDriverVersion():
    return machine.driver


@_published
def nvmlDeviceGetCount():
    return len(machine.gpus)


@_published
def nvmlDeviceGetHandleByIndex(index):
    if index >= len(machine.gpus):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    fault = machine.gpus[index].faults.get("nvmlDeviceGetHandleByIndex")
    if fault is not None:
        raise NVMLError(fault)
    return c_nvmlDevice_t(machine.gpus[index])


@_published
def nvmlDeviceGetName(handle):
    if handle.device.name is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return handle.device.name


@_published
def nvmlDeviceGetUUID(handle):
    return handle.device.uuid


@_published
def nvmlDeviceGetMemoryInfo(handle, version=None):
    assert version is None, "the second version is not pretended"
    return c_nvmlMemory_t(handle.device.memory_mib * _MIB)


@_published
def nvmlDeviceGetUtilizationRates(handle):
    card = _card_of(handle)
    if card.mig and card.mig[0]:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)  # nothing is told of a GPU that is cut
    return c_nvmlUtilization_t(card.busy)


@_published
def nvmlDeviceGetMigMode(device):
    mig = _card_of(device).mig
    if mig is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return list(mig)


@_published
def nvmlDeviceGetMaxMigDeviceCount(device):
    mig = _card_of(device).mig
    return 7 if mig and mig[0] else 0


@_published
def nvmlDeviceGetMigDeviceHandleByIndex(device, index):
    parts = _card_of(device).parts
    if index >= len(parts) or parts[index] is None:
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return c_nvmlDevice_t(parts[index])


@_published
def nvmlDeviceGetAttributes_v2(device):
    return c_nvmlDeviceAttributes(_part_of(device))


@_published
def nvmlDeviceGetGpuInstanceId(device):
    return _part_of(device).instance
