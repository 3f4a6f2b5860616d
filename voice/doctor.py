"""What ``voice serve`` needs on this machine, and what of it is missing. Starts nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from engines.endpoint import endpoint_client, endpoint_url, without_key
from engines.models import ModelStore
from engines.placement import Inventory, Plan, draft
from engines.ports import EngineError
from engines.remote.endpoints import is_listening
from voice.app import check_index, engine_kinds, make_engine, options_of
from voice.config import Config, ConfigError, EngineConfig
from voice.doctor_phones import Phones, phones_of
from voice.doors.audiosocket import audiosocket_listener
from voice.model_states import UNUSABLE, ModelState, model_states
from voice.packages import (
    NVML,
    TENSORRT_LLM,
    Package,
    faults,
    needs_of,
    packages,
    version_of,
)
from voice.server import check_exposure, listen, url_of

_USABLE: Final = ("ready", "folder", "named")
_OVER_HTTP: Final = ("", "completions")
_CALL_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Machine:
    """Where this runs. ``cores`` are those that this process may use."""

    cores: int
    memory_mib: int
    python: str
    system: str


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
    """All of it. ``starts``: no problem was found. ``running``: the address of a server of ours
    that is there already; empty where there is none."""

    starts: bool
    machine: Machine
    inventory: Inventory
    packages: tuple[Package, ...]
    engines: tuple[Engine, ...]
    plan: Plan
    problems: tuple[Problem, ...]
    models_dir: str
    phones: Phones | None = None
    running: str = ""


def examine(config: Config | ConfigError, inventory: Inventory) -> Report:
    """Look at everything that this configuration needs. A configuration that cannot be read is
    a problem like any other: the rest is looked at all the same."""
    if isinstance(config, ConfigError):
        problems = tuple(map(Problem, str(config).splitlines()))
        root = str(ModelStore().root)
        there = tuple(packages({}))
        return Report(False, _machine(), inventory, there, (), Plan(), problems, root)
    plan = draft(config.placement.wanted(), inventory)
    models = ModelStore(config.models_path)
    checks = asyncio.run(_check(config, models, inventory))
    shared = config.placement.shared()
    silent = [(kind, one) for kind in shared for one in shared[kind] if not is_listening(one)]
    there = tuple(packages(_needed(checks, plan)))
    lacking = faults(there)
    closed, running = _door(config)
    found = [
        *closed,
        *map(Problem, dict.fromkeys(text for check in checks for text in check.problems)),
        *_unpulled(checks, models),
        *(_unheard(kind, endpoint) for kind, endpoint in silent),
        *map(Problem, lacking),
        *_unplaced(plan),
        *_useless_index(config),
    ]
    broken = {kind for kinds in lacking.values() for kind in kinds}
    broken |= {kind for kind, _ in silent} | {seat.kind for seat in plan.lacks}
    broken |= {check.kind for check in checks if check.problems or check.unusable}
    engines = tuple(
        Engine(check.kind, check.name, check.models, check.places, ready=check.kind not in broken)
        for check in checks
    )
    return Report(
        not found,
        _machine(),
        inventory,
        there,
        engines,
        plan,
        tuple(found),
        str(models.root),
        phones_of(config),
        running,
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
        return [model.name for model in self.models if model.state in UNUSABLE]


async def _check(config: Config, models: ModelStore, inventory: Inventory) -> list[_Check]:
    wanted, shared = config.placement.wanted(), config.placement.shared()
    checks = []
    for kind in engine_kinds(config):
        section, places = getattr(config, kind), wanted.get(kind, ())
        if not config.placement.keeps(kind):
            checks.append(_Check(kind, section.engine, shared[kind], (), (), ()))
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
        options, needs = options_of(kind, section)
    except ConfigError as error:
        told = tuple(str(error).splitlines())
        return _Check(kind, section.engine, places, (), needs_of(kind, section), told)
    if options is None:  # the package that is missing is told of with the way to get it
        return _Check(kind, section.engine, places, (), needs, ())
    try:
        states = tuple(model_states(options, models))
    except OSError as error:
        fault = f"models_dir: {error.strerror}: {models.root}: name a folder"
        return _Check(kind, section.engine, places, (), needs, (fault,))
    problems = [
        f"{kind}: there is no folder {model.name}: see to the path, or mount it"
        for model in states
        if model.state == "no folder"
    ]
    if all(model.state in _USABLE for model in states):
        problems.append(await _trial(kind, section, models) or await _call(kind, options))
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
    if kind != "vad":
        await engine.close()
    return ""


async def _call(kind: str, options: Any) -> str:
    """Call the server that an engine is given, if any, as it will do at its start. Why that is
    no use; empty where it answers."""
    url, key = str(getattr(options, "base_url", "")), str(getattr(options, "api_key", ""))
    if not url or getattr(options, "source", "") not in _OVER_HTTP:
        return ""
    try:
        address = endpoint_url(url, kind, kind)
        async with endpoint_client(address, key, connections=1, connect_s=_CALL_S) as client:
            async with asyncio.timeout(_CALL_S):
                answer = await client.get("models")
    except EngineError as error:
        return str(error)
    except TimeoutError:
        return f"{kind}: {url} does not answer within {_CALL_S:g} s: is it overloaded?"
    except httpx.HTTPError as error:
        why = without_key(str(error), key) or type(error).__name__
        return f"{kind}: nothing answers at {url} ({why}): start it, or see to [{kind}] base_url"
    if answer.status_code in (401, 403):
        return f"{kind}: {url} refuses the key (HTTP {answer.status_code}): see to [{kind}] api_key"
    if answer.status_code >= 500:
        return f"{kind}: {url} answers HTTP {answer.status_code}: is it still starting?"
    return ""


def _no_gpu(places: Sequence[str], inventory: Inventory, needs: Sequence[str]) -> str:
    """Why the engine would find no GPU; empty where it may find one, or has no place yet."""
    if "cpu" in places:
        return "it is placed on cpu"
    if not places and not inventory.gpus:
        return f"there is none: {inventory.reason}"
    if "torch" in needs and version_of("torch").endswith("+cpu"):
        return f"torch {version_of('torch')} is built for CPUs: install a build for CUDA"
    return ""


# --- packages -------------------------------------------------------------------------------


def _needed(checks: Sequence[_Check], plan: Plan) -> dict[str, list[str]]:
    """Package -> the kinds of engine that need it."""
    needed: dict[str, list[str]] = {}
    for check in checks:
        for name in dict.fromkeys(check.needs):
            needed.setdefault(name, []).append(check.kind)
    for seat in plan.seats:
        if seat.wanted != "cpu" and seat.kind not in needed.setdefault(NVML, []):
            needed[NVML].append(seat.kind)
    return needed


# --- the rest -------------------------------------------------------------------------------


def _door(config: Config) -> tuple[list[Problem], str]:
    """Why the server may not listen where it is told to, or cannot; and the address of the server
    of ours that does, if that is why."""
    try:
        check_exposure(config)
        with listen(config):  # at once, as they will be
            if (phones := audiosocket_listener(config.phone)) is not None:
                phones.close()
    except (ConfigError, OSError) as error:
        running = _running(config) if isinstance(error, OSError) else ""
        return ([], running) if running else ([Problem(str(error))], "")
    return [], ""


def _running(config: Config) -> str:
    """Where a server of ours answers, if one does."""
    url = url_of(config.server.host, config.server.port, here=True)
    try:
        with httpx.Client(timeout=_CALL_S, trust_env=False) as client:
            health, ready = (client.get(f"{url}/{door}").json() for door in ("health", "ready"))
    except (httpx.HTTPError, ValueError):
        return ""
    ours = health == {"status": "ok"} and isinstance(ready, dict) and "status" in ready
    return url if ours else ""


def _useless_index(config: Config) -> Iterator[Problem]:
    try:
        check_index(config)
    except EngineError as error:
        yield Problem(str(error))
    except ConfigError:  # told of with the engines
        return


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
