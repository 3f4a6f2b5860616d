"""The inventory, read through NVIDIA's management library (package nvidia-ml-py).

Nothing here raises: a machine without a GPU, without a driver or without the package is a
machine that can still answer calls, and whoever wants a GPU is told why there is none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from engines.placement.gpus import Gpu, Inventory, Slice, profile_name

T = TypeVar("T")

_MIB: Final = 1 << 20
_REASONS: Final = {
    "NVMLError_LibraryNotFound": (
        "NVIDIA's driver is not installed here (no libnvidia-ml.so.1): install it, or, in a"
        " container, start that with `--gpus all`"
    ),
    "NVMLError_DriverNotLoaded": (
        "NVIDIA's driver is installed and its kernel module is not loaded: run"
        " `sudo modprobe nvidia`, or reboot"
    ),
    "NVMLError_LibRmVersionMismatch": (
        "NVIDIA's driver was upgraded under the kernel module of the old one: reboot; in a"
        " container, start it anew"
    ),
    "NVMLError_NoPermission": (
        "this user may not open the GPUs (/dev/nvidia*): give the user or the container access"
    ),
}


def inventory() -> Inventory:
    """The GPUs and slices of this machine, in the order of ``nvidia-smi -L``."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return Inventory(
            reason="GPUs cannot be listed without the package nvidia-ml-py: run"
            " `pip install nvidia-ml-py`"
        )
    try:
        return _look(nvml)
    except AttributeError as error:
        return Inventory(
            reason=f"the module pynvml here is not that of nvidia-ml-py, or too old ({error}): run"
            " `pip uninstall pynvml; pip install -U nvidia-ml-py`"
        )


def _look(nvml: Any) -> Inventory:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Inventory(reason=_reason(error))
    try:
        return _Reader(nvml).inventory()
    except nvml.NVMLError as error:
        return Inventory(reason=_reason(error))
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _reason(error: Exception) -> str:
    usual = f"NVIDIA's driver answers with an error ({error}): `nvidia-smi` may say more"
    return _REASONS.get(type(error).__name__, usual)


class _Reader:
    """NVML once it is open, with what it would not tell."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._notes: list[str] = []

    def inventory(self) -> Inventory:
        nvml = self._nvml
        driver = nvml.nvmlSystemGetDriverVersion()
        gpus = tuple(self._gpus(nvml.nvmlDeviceGetCount()))
        reason = "" if gpus else f"NVIDIA's driver {driver} is here and shows no GPU: "
        if reason:
            reason += "; ".join(self._notes) or "a container must be given one (`--gpus all`)"
        return Inventory(gpus, driver, reason, tuple(self._notes))

    def _gpus(self, count: int) -> Iterator[Gpu]:
        for index in range(count):
            try:
                yield self._gpu(index)
            except self._nvml.NVMLError as error:
                self._notes.append(f"GPU {index} cannot be used: {error}")

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        # No such function in an old driver, not supported by a small GPU: no MIG in both cases.
        current, pending = self._ask((None, None), nvml.nvmlDeviceGetMigMode, handle)
        memory_mib = self._memory_mib(handle)
        most = self._ask(0, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) if current else 0
        return Gpu(
            index,
            nvml.nvmlDeviceGetUUID(handle),
            self._ask("a GPU without a name", nvml.nvmlDeviceGetName, handle),
            memory_mib,
            None if current is None else bool(current),
            None if pending is None else bool(pending),
            tuple(self._slices(index, handle, most, memory_mib)),
            most,
        )

    def _slices(self, gpu: int, parent: Any, most: int, gpu_mib: int) -> Iterator[Slice]:
        for index in range(most):
            try:
                yield self._slice(gpu, index, parent, gpu_mib)
            # What was destroyed leaves a hole; go-nvlib takes both for one.
            except (self._nvml.NVMLError_NotFound, self._nvml.NVMLError_InvalidArgument):
                continue
            except self._nvml.NVMLError as error:
                self._notes.append(f"slice gpu{gpu}:{index} cannot be used: {error}")

    def _slice(self, gpu: int, index: int, parent: Any, gpu_mib: int) -> Slice:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
        shape = nvml.nvmlDeviceGetAttributes_v2(handle)
        # "NVIDIA H200 MIG 1g.18gb"
        _, _, profile = self._ask("", nvml.nvmlDeviceGetName, handle).rpartition(" MIG ")
        if not profile and gpu_mib:
            profile = profile_name(shape.gpuInstanceSliceCount, shape.memorySizeMB, gpu_mib)
        return Slice(
            gpu,
            index,
            nvml.nvmlDeviceGetUUID(handle),
            profile,
            shape.memorySizeMB,
            shape.gpuInstanceSliceCount,
            self._ask(index, nvml.nvmlDeviceGetGpuInstanceId, handle),
        )

    def _memory_mib(self, handle: Any) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
        except self._nvml.NVMLError:
            return 0

    def _ask(self, otherwise: T, question: Callable[..., T], *arguments: Any) -> T:
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return otherwise
