"""How to make the slices that a plan lacks: the nvidia-smi commands, never run from here.

``nvidia-smi mig -cgi`` takes profiles by name, several with commas between, and ``-C`` makes
the compute instance that belongs to each (MIG user guide, "Creating GPU Instances").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engines.placement.gpus import Gpu, is_profile


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do, and the commands that do it, in their order; none where only words help."""

    text: str
    commands: tuple[str, ...] = ()


def remedies(
    missing: Sequence[str], gpus: Sequence[Gpu], keeping: Mapping[int, Sequence[str]]
) -> tuple[Remedy, ...]:
    """How to get these profiles from GPUs that may be cut. ``keeping``: what the plan already
    has on each GPU. Profiles that no GPU offers are passed over."""
    offered = {name for gpu in gpus for name in gpu.profiles}
    new, left = _cut([name for name in missing if _plain(name) in offered], gpus)
    found = {gpu.index: _made(gpu, new[gpu.index]) for gpu in gpus if new[gpu.index]}
    if left:
        anew = _anew(left, gpus, keeping, new)
        if anew is None:
            return (*found.values(), _no_room(left))
        gpu, names = anew
        found[gpu.index] = _made_anew(gpu, names)
    return tuple(found.values())


def _cut(names: Iterable[str], gpus: Sequence[Gpu]) -> tuple[dict[int, list[str]], list[str]]:
    """What each GPU can still give, by its index, and what no GPU has room for.

    The largest come first: nvidia-smi makes them in the order given, and a small one in the
    middle of a GPU is in the way of a large one.
    """
    new: dict[int, list[str]] = {gpu.index: [] for gpu in gpus}
    left = []
    # A GPU that is cut already comes before one that would lose its wholeness.
    order = sorted(gpus, key=lambda gpu: not gpu.mig)
    for name in _largest_first(names):
        for gpu in order:
            if gpu.fits([*new[gpu.index], name]):
                new[gpu.index].append(name)
                break
        else:
            left.append(name)
    return new, left


def _anew(
    left: Sequence[str],
    gpus: Iterable[Gpu],
    keeping: Mapping[int, Sequence[str]],
    new: Mapping[int, Sequence[str]],
) -> tuple[Gpu, list[str]] | None:
    """A GPU that has room for what is left once it is emptied, and all to be made on it then."""
    for gpu in gpus:
        kept = keeping.get(gpu.index, ())
        # A slice asked for by its UUID has another one once it is made anew.
        if all(map(is_profile, kept)):
            names = _largest_first([*kept, *new[gpu.index], *left])
            if gpu.fits(names, emptied=True):
                return gpu, names
    return None


def _plain(profile: str) -> str:
    return profile.split("+")[0]


def _largest_first(profiles: Iterable[str]) -> list[str]:
    """By shares of compute, then by memory."""

    def size(profile: str) -> tuple[int, ...]:
        return tuple(int(number) for number in re.findall(r"(\d+)g", profile))

    return sorted(profiles, key=size, reverse=True)


def _made(gpu: Gpu, names: Sequence[str]) -> Remedy:
    if gpu.mig:
        return Remedy(f"To make it on GPU {gpu.index} ({gpu.name}):", (_create(gpu, names),))
    if gpu.mig_after_reset:
        text = f"GPU {gpu.index} ({gpu.name}) goes into MIG mode with a reset; nothing may use it:"
        switch = f"sudo nvidia-smi -i {gpu.index} --gpu-reset"
    else:
        text = f"To cut GPU {gpu.index} ({gpu.name}), which nothing may use meanwhile:"
        switch = f"sudo nvidia-smi -i {gpu.index} -mig 1"
    return Remedy(text, (switch, _create(gpu, names)))


def _made_anew(gpu: Gpu, names: Sequence[str]) -> Remedy:
    text = f"To cut GPU {gpu.index} ({gpu.name}) anew, which ends whatever runs on its slices:"
    destroy = [f"sudo nvidia-smi mig -i {gpu.index} {what}" for what in ("-dci", "-dgi")]
    return Remedy(text, (*destroy, _create(gpu, names)))


def _create(gpu: Gpu, names: Sequence[str]) -> str:
    return f"sudo nvidia-smi mig -i {gpu.index} -cgi {','.join(names)} -C"


def _no_room(left: Sequence[str]) -> Remedy:
    return Remedy(
        f"No GPU has room for {', '.join(left)}: each has 7 shares of compute (the number before"
        " the g) and 8 of memory. Ask for fewer or smaller slices, or add a GPU."
    )
