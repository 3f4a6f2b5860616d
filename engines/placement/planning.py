"""What is wanted (``asr = 1g.18gb, 1g.18gb``), and what is there: a Place for each process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engines.placement.cutting import Remedy, remedies
from engines.placement.gpus import Gpu, Inventory, Slice, is_profile
from engines.ports import EngineError
from engines.remote.spec import Place

_CPU: Final = "cpu"
_GPU: Final = re.compile(r"(?:gpu)?(\d+)")
_SLICE: Final = re.compile(r"MIG-.*|gpu\d+:\d+")


@dataclass(frozen=True, slots=True)
class Seat:
    """One process that is wanted. ``place`` None: ``lack`` says what is missing for it.

    ``device`` is what it gets, None for a CPU.
    """

    kind: str
    wanted: str
    device: Slice | Gpu | None = None
    place: Place | None = None
    lack: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who sits where, in the order in which it was wanted."""

    seats: tuple[Seat, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def places(self) -> Mapping[str, tuple[Place, ...]]:
        """Kind of engine -> where its processes run."""
        found: dict[str, tuple[Place, ...]] = {}
        for seat in self.seats:
            if seat.place is not None:
                found[seat.kind] = (*found.get(seat.kind, ()), seat.place)
        return found

    @property
    def lacks(self) -> tuple[Seat, ...]:
        """Those that got nothing."""
        return tuple(seat for seat in self.seats if seat.place is None)


class PlacementError(EngineError):
    """Not every engine has a place. ``plan`` is the plan as far as it goes."""

    def __init__(self, plan: Plan) -> None:
        lines = [f"{seat.kind} on {seat.wanted}: {seat.lack}" for seat in plan.lacks]
        for remedy in plan.remedies:
            lines += [remedy.text, *(f"  {command}" for command in remedy.commands)]
        super().__init__("placement", "unavailable", "\n".join(dict.fromkeys(lines)))
        self.plan = plan


def plan(wanted: Mapping[str, Sequence[str]], inventory: Inventory) -> Plan:
    """A place for each process: ``wanted`` is the kind of engine -> one name a process.

    A name is a slice profile (``1g.18gb``), one slice (``MIG-…`` or ``gpu0:1``), a whole GPU
    (``GPU-…``, ``gpu0`` or ``0``) or ``cpu``. A slice that a profile gets is nobody else's;
    whoever names the same device twice wants it shared. Raises PlacementError.
    """
    drafted = draft(wanted, inventory)
    if drafted.lacks:
        raise PlacementError(drafted)
    return drafted


def draft(wanted: Mapping[str, Sequence[str]], inventory: Inventory) -> Plan:
    """The plan as far as it goes, and how to make what is missing."""
    wishes = [(kind, name.strip()) for kind, names in wanted.items() for name in names]
    named = {name for _, name in wishes}
    free = [part for part in inventory.slices if not named & {part.uuid, part.name}]
    seats = tuple(_seat(kind, name, inventory, free) for kind, name in wishes)
    return Plan(_numbered(seats), _remedies(seats, inventory), _warnings(seats))


class _Lacking(Exception):  # noqa: N818 - says what is missing for one seat
    """The reason is its message."""


def _seat(kind: str, name: str, inventory: Inventory, free: list[Slice]) -> Seat:
    try:
        device = _device(name, inventory, free)
    except _Lacking as lack:
        return Seat(kind, name, lack=str(lack))
    if device is None:
        return Seat(kind, name, None, Place(_CPU, {"CUDA_VISIBLE_DEVICES": ""}))
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": device.uuid}
    called = device.name if isinstance(device, Slice) else device.short_name
    return Seat(kind, name, device, Place(called, environment))


def _device(name: str, inventory: Inventory, free: list[Slice]) -> Slice | Gpu | None:
    """What the name stands for, taken out of ``free`` if it is one of many. None: a CPU."""
    if name == _CPU:
        return None
    if is_profile(name.lower()):
        return _take(name.lower(), inventory, free)
    if not _is_device(name):
        raise _Lacking(
            f"{name!r} is no place: write a slice profile (1g.18gb), a slice (MIG-… or gpu0:1),"
            " a whole GPU (GPU-… or gpu0), cpu, or the endpoint of an engine that is shared"
            " (ipc:///PATH)"
        )
    return _slice(name, inventory) if _SLICE.fullmatch(name) else _whole(name, inventory)


def _is_device(name: str) -> bool:
    """Whether this reads as something of a GPU's."""
    return bool(
        is_profile(name.lower())
        or _SLICE.fullmatch(name)
        or name.startswith("GPU-")
        or _GPU.fullmatch(name)
    )


def _take(profile: str, inventory: Inventory, free: list[Slice]) -> Slice:
    for part in free:
        if part.profile == profile:
            free.remove(part)
            return part
    if not inventory.gpus:
        raise _Lacking("there is no GPU")
    offers = {gpu.name: gpu.profiles for gpu in inventory.gpus if gpu.profiles}
    if offers and not any(profile.split("+")[0] in known for known in offers.values()):
        told = "; ".join(f"{gpu} has {', '.join(known)}" for gpu, known in offers.items())
        raise _Lacking(f"no GPU here is cut that way: {told}")
    there = sum(part.profile == profile for part in inventory.slices)
    raise _Lacking(f"all there are of it ({there}) are taken" if there else "there is none")


def _slice(name: str, inventory: Inventory) -> Slice:
    for part in inventory.slices:
        if name in (part.uuid, part.name):
            return part
    raise _Lacking("there is no such slice: `nvidia-smi -L` lists those there are")


def _whole(name: str, inventory: Inventory) -> Gpu:
    number = _GPU.fullmatch(name)
    for gpu in inventory.gpus:
        if gpu.uuid == name or (number and gpu.index == int(number[1])):
            break
    else:
        known = ", ".join(gpu.short_name for gpu in inventory.gpus) or "none"
        raise _Lacking(f"there is no such GPU; there is {known}")
    if gpu.mig:
        raise _Lacking(
            "it is in MIG mode, where only slices can be used: name a profile, or run"
            f" `sudo nvidia-smi -i {gpu.index} -mig 0`"
        )
    return gpu


def _numbered(seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Places of one kind told apart where several are on the same device: cpu, cpu#2."""
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for seat in seats:
        place = seat.place
        if place is not None:
            seen[seat.kind, place.name] += 1
            count = seen[seat.kind, place.name]
            if count > 1:
                place = Place(f"{place.name}#{count}", place.environment)
        numbered.append(Seat(seat.kind, seat.wanted, seat.device, place, seat.lack))
    return tuple(numbered)


def _warnings(seats: Iterable[Seat]) -> tuple[str, ...]:
    sharing: dict[str, list[str]] = {}
    for seat in seats:
        if seat.place is not None and seat.device is not None:
            sharing.setdefault(seat.place.name, []).append(seat.kind)
    return tuple(
        f"{' and '.join(kinds)} share {name}: they take turns unless NVIDIA MPS runs, and a"
        " fault of one can end the other"
        for name, kinds in sharing.items()
        if len(kinds) > 1
    )


def _remedies(seats: Sequence[Seat], inventory: Inventory) -> tuple[Remedy, ...]:
    lacks = [
        seat.wanted.lower() for seat in seats if seat.place is None and _is_device(seat.wanted)
    ]
    if not inventory.gpus:
        return (Remedy(f"No GPU: {inventory.reason}"),) if lacks else ()
    whole = {seat.device.index for seat in seats if isinstance(seat.device, Gpu)}
    keeping: dict[int, list[str]] = {}
    for seat in seats:
        if isinstance(seat.device, Slice):
            keeping.setdefault(seat.device.gpu, []).append(seat.wanted.lower())
    missing = [name for name in lacks if is_profile(name)]
    return remedies(missing, [gpu for gpu in inventory.gpus if gpu.index not in whole], keeping)
