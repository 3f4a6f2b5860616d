"""GPUs, their slices, and how NVIDIA names the shapes that a GPU can be cut into.

A GPU that can be cut has 7 shares of compute and 8 of memory. A profile is a number of both:
``3g.71gb`` is 3 of the 7, and the 4 eighths of an H200's 141 GB that go with them (MIG user
guide, "Supported MIG Profiles").
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

COMPUTE_SHARES: Final = 7
MEMORY_SHARES: Final = 8

Shares: TypeAlias = tuple[int, int]
"""Of compute, of memory."""

_SHAPES: Final[tuple[Shares, ...]] = ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8))
_PROFILE: Final = re.compile(r"(\d+c\.)?\d+g\.\d+gb([+-][a-z0-9.,]+)?")


def is_profile(name: str) -> bool:
    """Whether this reads as a profile, such as 1g.18gb, 1g.18gb+me or 1c.3g.71gb."""
    return _PROFILE.fullmatch(name) is not None


def profile_name(compute: int, slice_mib: int, gpu_mib: int) -> str:
    """The profile of a slice from what NVML says of it; NVIDIA's own container tools (go-nvlib)
    compute the name alike: eighths rounded up, of the GPU's memory in whole GiB."""
    return _name((compute, _memory_shares(slice_mib, gpu_mib)), gpu_mib)


def _memory_shares(slice_mib: int, gpu_mib: int) -> int:
    return math.ceil(slice_mib * MEMORY_SHARES / gpu_mib)


def _name(shares: Shares, gpu_mib: int) -> str:
    compute, memory = shares
    gigabytes = math.floor(math.ceil(gpu_mib / 1024) * memory / MEMORY_SHARES + 0.5)
    return f"{compute}g.{gigabytes}gb"


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG device. ``index`` counts within its GPU, as ``nvidia-smi -L`` and Docker's
    ``device=0:1`` do. ``compute``: shares of the instance ``instance`` that it lies in, which
    two slices may have in common."""

    gpu: int
    index: int
    uuid: str
    profile: str
    memory_mib: int
    compute: int
    instance: int

    @property
    def name(self) -> str:
        """``gpu0:1``."""
        return f"gpu{self.gpu}:{self.index}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A whole GPU. ``mig``: whether it is cut into slices; None where it cannot be.

    ``mig_after_reset`` is what ``mig`` becomes with the GPU's next reset. ``memory_mib`` is 0
    where only slices of it may be seen, as in a container that was given no more.
    """

    index: int
    uuid: str
    name: str
    memory_mib: int
    mig: bool | None = None
    mig_after_reset: bool | None = None
    slices: tuple[Slice, ...] = ()
    most_slices: int = 0

    @property
    def short_name(self) -> str:
        """``gpu0``."""
        return f"gpu{self.index}"

    @property
    def profiles(self) -> Mapping[str, Shares]:
        """What it can be cut into; empty where that is not known."""
        # NVML says 0 while MIG is off; A30 and others have 4 shares, and names of their own.
        if self.mig is None or not self.memory_mib or self.most_slices not in (0, COMPUTE_SHARES):
            return {}
        return {_name(shape, self.memory_mib): shape for shape in _SHAPES}

    @property
    def used(self) -> Shares:
        """The shares that its slices take."""
        instances = {
            part.instance: (part.compute, _memory_shares(part.memory_mib, self.memory_mib))
            for part in self.slices
        }
        return _sum(instances.values())

    def fits(self, profiles: Iterable[str], *, emptied: bool = False) -> bool:
        """Whether these can be made beside what there is, or after all else was destroyed.

        Counts shares. Slices in awkward places can still be in the way of a large one.
        """
        known = self.profiles
        names = [name.split("+")[0] for name in profiles]
        if not known or any(name not in known for name in names):
            return False
        taken = [(0, 0)] if emptied else [self.used]
        compute, memory = _sum([*taken, *(known[name] for name in names)])
        return compute <= COMPUTE_SHARES and memory <= MEMORY_SHARES


def _sum(shares: Iterable[Shares]) -> Shares:
    parts = list(shares)
    return sum(compute for compute, _ in parts), sum(memory for _, memory in parts)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is. ``reason`` says why there is no GPU, and what to do; empty where there is
    one. ``notes``: what could not be read."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def slices(self) -> tuple[Slice, ...]:
        """Those of all GPUs."""
        return tuple(part for gpu in self.gpus for part in gpu.slices)
