"""What ``voice serve`` needs on this machine, and what of it is missing. Starts nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from engines.models import ModelStore
from engines.placement import Inventory, Plan, draft
from engines.ports import EngineError
from engines.remote.endpoints import is_listening
from voice.app import engine_module, make_engine
from voice.config import ENGINES, Config, ConfigError, EngineConfig, build
from voice.server import check_exposure

TENSORRT_LLM: Final = "tensorrt_llm"
_OLDEST_TENSORRT_LLM: Final = (1, 3)  # 1.2 has no Whisper, and its sampler drops a penalty
_SOURCES: Final = {
    "trtllm": (TENSORRT_LLM,),
    "transformers": ("torch", "transformers"),
    "completions": (),
}
_UNUSABLE: Final = ("missing", "damaged")
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "asr.whisper_trtllm": (TENSORRT_LLM,),
    "asr.whisper_transformers": ("torch", "transformers"),
    "llm.trtllm": (TENSORRT_LLM,),
    "tts.orpheus": ("torch", "snac"),
}


@dataclass(frozen=True, slots=True)
class Extra:
    """A package that only some features need: how it is called, what for, and how it is got."""

    name: str
    purpose: str
    how: str


EXTRAS: Final = (
    Extra("torch", "Orpheus; Whisper in PyTorch", "`pip install torch`"),
    Extra("snac", "Orpheus, its audio decoder", "`pip install snac`"),
    Extra("transformers", "Orpheus; Whisper in PyTorch", "`pip install transformers`"),
    Extra(
        TENSORRT_LLM,
        "Whisper, Orpheus and chat at full speed on NVIDIA GPUs",
        "run in NVIDIA's TensorRT-LLM container, 1.3.0rc26 or later (docs/gpu.md)",
    ),
    Extra("pyannote.audio", "telling speakers apart", "`pip install pyannote.audio`"),
    Extra("pyzmq", "engines in processes of their own ([placement])", "`pip install pyzmq`"),
    Extra("nvidia-ml-py", "listing GPUs, [placement] on them", "`pip install nvidia-ml-py`"),
    Extra("nvidia-modelopt", "`voice build`: weights in FP8", "`pip install nvidia-modelopt`"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where this runs. ``cores`` are those that this process may use."""

    cores: int
    memory_mib: int
    python: str
    system: str


@dataclass(frozen=True, slots=True)
class Package:
    """An optional package as it is here. ``version`` empty: missing. ``needed_by``: engines."""

    name: str
    purpose: str
    version: str
    how: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model that an engine is set to. ``state``: ready, missing, damaged, folder, or named,
    where only the engine can tell."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as configured. ``places``: its processes, and the endpoints of those that are
    shared; none for one inside the server."""

    kind: str
    name: str
    models: tuple[ModelState, ...]
    places: tuple[str, ...]
    ready: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps the server from starting, and the commands against it, if any."""

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. ``starts``: no problem was found."""

    starts: bool
    machine: Machine
    inventory: Inventory
    packages: tuple[Package, ...]
    engines: tuple[Engine, ...]
    plan: Plan
    problems: tuple[Problem, ...]
    models_dir: str


def examine(config: Config | ConfigError, inventory: Inventory) -> Report:
    """Look at everything that this configuration needs. A configuration that cannot be read is
    a problem like any other: the rest is looked at all the same."""
    if isinstance(config, ConfigError):
        packages = tuple(_packages({}))
        problems = (Problem(str(config)),)
        root = str(ModelStore().root)
        return Report(False, _machine(), inventory, packages, (), Plan(), problems, root)
    plan = draft(config.placement.wanted(), inventory)
    models = ModelStore(config.models_path)
    checks = asyncio.run(_check(config, models, inventory))
    shared = config.placement.shared()
    silent = [(kind, one) for kind in shared for one in shared[kind] if not is_listening(one)]
    packages = tuple(_packages(_needed(checks, plan)))
    faults = {package: fault for package in packages if (fault := _fault(package))}
    found = [
        *_exposure(config),
        *map(Problem, dict.fromkeys(text for check in checks for text in check.problems)),
        *_unpulled(checks, models),
        *(_unheard(kind, endpoint) for kind, endpoint in silent),
        *map(Problem, faults.values()),
        *_unplaced(plan),
    ]
    broken = {kind for package in faults for kind in package.needed_by}
    broken |= {kind for kind, _ in silent} | {seat.kind for seat in plan.lacks}
    broken |= {check.kind for check in checks if check.problems or check.unusable}
    engines = tuple(
        Engine(check.kind, check.name, check.models, check.places, ready=check.kind not in broken)
        for check in checks
    )
    return Report(
        not found, _machine(), inventory, packages, engines, plan, tuple(found), str(models.root)
    )


def _machine() -> Machine:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        pages >> 20,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
    )


# --- engines and their models ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Check:
    kind: str
    name: str
    places: tuple[str, ...]
    models: tuple[ModelState, ...]
    needs: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def unusable(self) -> list[str]:
        """The models of the store that must be fetched."""
        return [model.name for model in self.models if model.state in _UNUSABLE]


async def _check(config: Config, models: ModelStore, inventory: Inventory) -> list[_Check]:
    wanted, shared = config.placement.wanted(), config.placement.shared()
    checks = []
    for kind in ("vad", *ENGINES):
        section, places = getattr(config, kind), wanted.get(kind, ())
        if kind in shared and not places:  # whoever keeps it has all that it needs
            checks.append(_Check(kind, section.engine, shared[kind], (), ("pyzmq",), ()))
            continue
        check = await _check_one(kind, section, places, models, inventory)
        checks.append(dataclasses.replace(check, places=(*places, *shared.get(kind, ()))))
    return checks


async def _check_one(
    kind: str,
    section: EngineConfig,
    places: tuple[str, ...],
    models: ModelStore,
    inventory: Inventory,
) -> _Check:
    try:
        options = build(engine_module(kind, section).Options, section.options, kind)
    except ConfigError as error:
        needs = _needs(kind, section, None)
        absent = isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name in needs
        # A package that is needed and absent is told of with the way to get it.
        problems = [] if absent else [str(error)]
        return _Check(kind, section.engine, places, (), needs, tuple(problems))
    needs = _needs(kind, section, options)
    try:
        states = tuple(_model_states(options, models))
    except OSError as error:
        told = f"models_dir: {error.strerror}: {models.root}: name a folder"
        return _Check(kind, section.engine, places, (), needs, (told,))
    problems = []
    if not any(model.state in _UNUSABLE for model in states):
        problems.append(await _trial(kind, section, models))
    if TENSORRT_LLM in needs or str(getattr(options, "device", "")).startswith("cuda"):
        because = _no_gpu(places, inventory, needs)
        problems.append(because and f"{kind}: {section.engine} needs a GPU, and {because}")
    return _Check(kind, section.engine, places, states, needs, tuple(filter(None, problems)))


async def _trial(kind: str, section: EngineConfig, models: ModelStore) -> str:
    """Make the engine as the server would, which loads no weights, and let it go again. What
    went wrong; empty where nothing did."""
    try:
        engine = make_engine(kind, section, models)
    except (ConfigError, EngineError) as error:
        return str(error)
    except (ImportError, OSError) as error:
        return f"{kind}: {section.engine} cannot be made: {error}"
    except Exception as error:  # noqa: BLE001 - a bug of one engine, and the rest is to be told
        return f"{kind}: {section.engine} cannot be made, by a bug of its own: {error!r}"
    if kind in ENGINES:
        await engine.close()
    return ""


def _no_gpu(places: Sequence[str], inventory: Inventory, needs: Sequence[str]) -> str:
    """Why the engine would find no GPU; empty where it may find one, or has no place yet."""
    if "cpu" in places:
        return "it is placed on cpu"
    if not places and not inventory.gpus:
        return f"there is none: {inventory.reason}"
    if "torch" in needs and _version("torch").endswith("+cpu"):
        return f"torch {_version('torch')} is built for CPUs: install a build for CUDA"
    return ""


def _needs(kind: str, section: EngineConfig, options: Any) -> tuple[str, ...]:
    source = _SOURCES.get(getattr(options, "source", ""), ())
    return (*_NEEDS.get(f"{kind}.{section.engine}", ()), *source)


def _model_states(options: Any, models: ModelStore) -> Iterator[ModelState]:
    """The models that options name: any of the catalogue, and the fields that hold others."""
    for option in dataclasses.fields(options):
        value = getattr(options, option.name)
        if isinstance(value, str) and value in models.catalogue:
            yield ModelState(value, _state(value, models))
        elif option.name in ("model", "snac") and value:
            is_folder = Path(value).expanduser().is_dir()
            yield ModelState(value, "folder" if is_folder else "named")


def _state(name: str, models: ModelStore) -> str:
    faults = models.faults(name)
    if not faults:
        return "ready"
    return "missing" if any(fault.missing for fault in faults) else "damaged"


# --- packages -------------------------------------------------------------------------------


def _needed(checks: Sequence[_Check], plan: Plan) -> dict[str, list[str]]:
    """Package -> the kinds of engine that need it."""
    needed: dict[str, list[str]] = {}
    for check in checks:
        for name in dict.fromkeys(check.needs):
            needed.setdefault(name, []).append(check.kind)
    for seat in plan.seats:
        for name in ("pyzmq",) if seat.wanted == "cpu" else ("pyzmq", "nvidia-ml-py"):
            if seat.kind not in needed.setdefault(name, []):
                needed[name].append(seat.kind)
    return needed


def _packages(needed: Mapping[str, Sequence[str]]) -> Iterator[Package]:
    for package in EXTRAS:
        yield Package(
            package.name,
            package.purpose,
            _version(package.name),
            package.how,
            tuple(needed.get(package.name, ())),
        )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
    found = name.isidentifier() and importlib.util.find_spec(name) is not None
    return "of no known version" if found else ""


def _fault(package: Package) -> str:
    """What is wrong with a package that is needed; empty where nothing is."""
    by = " and ".join(package.needed_by)
    if by and not package.version:
        return f"{by}: the package {package.name} is missing: {package.how}"
    if by and package.name == TENSORRT_LLM and _is_old(package.version):
        return f"{by}: {package.name} {package.version} is too old: {package.how}"
    return ""


def _is_old(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < _OLDEST_TENSORRT_LLM


# --- the rest -------------------------------------------------------------------------------


def _exposure(config: Config) -> Iterator[Problem]:
    try:
        check_exposure(config)
    except ConfigError as error:
        yield Problem(str(error))


def _unpulled(checks: Sequence[_Check], models: ModelStore) -> Iterator[Problem]:
    names = dict.fromkeys(name for check in checks for name in check.unusable)
    if names:
        told = "models are not in place" if len(names) > 1 else "model is not in place"
        yield Problem(f"{len(names)} {told}", (models.pull_command(*names),))


def _unheard(kind: str, endpoint: str) -> Problem:
    text = f"{kind}: no engine process listens at {endpoint}: start one, for all its servers"
    return Problem(text, (f"voice engine {kind} {endpoint}",))


def _unplaced(plan: Plan) -> Iterator[Problem]:
    """What each process lacks, and how to make it."""
    lacks = dict.fromkeys(f"{seat.kind} on {seat.wanted}: {seat.lack}" for seat in plan.lacks)
    if lacks:
        words = [remedy.text for remedy in plan.remedies if not remedy.commands]
        text = ". ".join(["placement: " + "; ".join(lacks), *words])
        made = [remedy for remedy in plan.remedies if remedy.commands]
        yield Problem(text, tuple(line for r in made for line in (f"# {r.text}", *r.commands)))
