"""What the kernel and the GPU driver say of a server: CPU and memory of its processes, devices."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct


class GpuState(Struct, frozen=True):
    """One GPU now. ``busy``: share of the last moment in which something ran on it, None where
    the driver does not tell (a device that is cut into slices)."""

    name: str
    used_mib: int
    total_mib: int
    busy: float | None = None


class ProcessState(Struct, frozen=True):
    """A server with the processes that it has started. CPU seconds so far; resident memory."""

    cpu_s: float
    rss_mb: float
    processes: int


class Tree:
    """The processes of a server, by the id of the first."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._gone_s: dict[int, float] = {}

    def state(self) -> ProcessState | None:
        """What they use now; None once the first has ended, whether or not anybody has asked for
        its exit status. CPU of one that ended still counts."""
        pages = processes = 0
        for pid in (self.pid, *descendants(self.pid)):
            with suppress(OSError, ValueError, IndexError):
                self._gone_s[pid] = _cpu_s(pid)
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                processes += 1
        if not _lives(self.pid):
            return None
        rss_mb = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return ProcessState(round(sum(self._gone_s.values()), 3), round(rss_mb, 1), processes)


def descendants(pid: int) -> Iterator[int]:
    """All processes that a process has started, and those that they have."""
    try:
        threads = sorted(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for thread in threads:
        with suppress(OSError):
            for child in (thread / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Gpus:
    """The GPUs of this machine; none where there is no driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            pynvml: Any = import_module("pynvml")
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except pynvml.NVMLError:
            return
        self._nvml = pynvml

    def state(self) -> list[GpuState]:
        """All of them now; those that give no answer are left out."""
        states = []
        for handle in self._handles:
            with suppress(self._nvml.NVMLError):
                states.append(self._one(handle))
        return states

    def _one(self, handle: Any) -> GpuState:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        busy = None
        with suppress(nvml.NVMLError):
            busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        name = str(nvml.nvmlDeviceGetName(handle))
        return GpuState(name, int(memory.used) >> 20, int(memory.total) >> 20, busy)


def described() -> str:
    """This machine, in words."""
    model = platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        model = next(named, model)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    gpus = ", ".join(gpu.name for gpu in Gpus().state()) or "no GPU"
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {gpus}, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()}"
    )
