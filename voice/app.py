"""The composition root: configuration to engines, engines to a house, a house to a server."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import engines
from engines.models import ModelStore
from engines.remote.spec import EngineSpec, Kind, Place
from engines.vad.ears import Ears
from pipelines.conversation.ports import Engines
from voice.config import ENGINES, Config, ConfigError, EngineConfig, build
from voice.house import House
from voice.metrics import Metrics

if TYPE_CHECKING:
    from engines.remote.pool import EnginePool

logger = logging.getLogger(__name__)

_CREATES: Final = re.compile(r"^def create\(| as create$", re.MULTILINE)


@asynccontextmanager
async def open_house(config: Config) -> AsyncIterator[House]:
    """The engines, made and not yet warm; closed at the end of the context.

    Raises ConfigError for an engine that is not there, EngineError for a model that is not.
    """
    models = ModelStore(config.models_path)
    async with AsyncExitStack() as stack:
        made = {}
        places, shared = _places(config), config.placement.shared()
        for kind in ENGINES:
            section = getattr(config, kind)
            engine = (
                _place(kind, section, models, places.get(kind, ()), shared.get(kind, ()))
                if kind in places or kind in shared
                else make_engine(kind, section, models)
            )
            stack.push_async_callback(engine.close)
            made[kind] = engine
        ears = Ears(make_engine("vad", config.vad, models))
        metrics = Metrics()
        metrics.watch_ears(ears)
        metrics.watch_engines(made)
        house = House(config, Engines(ears, **made), metrics)
        stack.push_async_callback(asyncio.to_thread, house.records.close)
        yield house


async def warm_up(house: House, told: Callable[[str], None]) -> None:
    """Load every model and run it once; then the house is ready. ``told`` is given a line for
    each. Raises EngineError."""
    loop = asyncio.get_running_loop()
    for kind in ENGINES:
        began = loop.time()
        await getattr(house.engines, kind).warm_up()
        name = getattr(house.config, kind).engine
        told(f"{kind}  {name}  warm in {loop.time() - began:.1f} s")
    house.ready = True


async def watch_loop(metrics: Metrics, every_s: float = 0.25) -> None:
    """Measure how late the event loop is, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))


def _places(config: Config) -> Mapping[str, Sequence[Place]]:
    """Where the engines run that do not run in here."""
    wanted = config.placement.wanted()
    if not wanted:
        return {}
    from engines.placement import inventory, plan

    planned = plan(wanted, inventory())
    for warning in planned.warnings:
        logger.warning("placement: %s", warning)
    return planned.places


def _place(
    kind: str,
    config: EngineConfig,
    models: ModelStore,
    places: Sequence[Place],
    endpoints: Sequence[str],
) -> EnginePool:
    """An engine in processes of its own, and in those that are shared. Its options are tried
    here, before any engine is loaded, except where they are the business of others."""
    from engines.remote.pool import EnginePool

    if places:
        build(engine_module(kind, config).Options, config.options, kind)
    path = engine_path(kind, config.engine)
    spec = EngineSpec(cast("Kind", kind), path, config.options, str(models.root))
    return EnginePool(spec, places, endpoints=endpoints)


def make_engine(kind: str, config: EngineConfig, models: ModelStore) -> Any:
    """An engine from its module: ``create(options, models)``."""
    module = engine_module(kind, config)
    return module.create(build(module.Options, config.options, kind), models)


def engine_path(kind: str, name: str) -> str:
    """The import path of the module that an engine's name stands for. Raises ConfigError."""
    path = name if "." in name else f"engines.{kind}.{name}"
    if not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(
            f"{kind}.engine: {name!r} is no name. Known: {', '.join(_known(kind))}, or the import"
            " path of a module of your own"
        )
    return path


def engine_module(kind: str, config: EngineConfig) -> Any:
    """The module that an engine's name stands for. Raises ConfigError."""
    name = config.engine
    path = engine_path(kind, name)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is not None and not path.startswith(error.name):
            raise ConfigError(
                f"{kind}.engine: {name} needs the package {error.name}, which is not installed"
            ) from error
        raise ConfigError(
            f"{kind}.engine: there is no {name}. Known: {', '.join(_known(kind))}, or the import"
            " path of a module of your own"
        ) from error
    except Exception as error:
        raise ConfigError(
            f"{kind}.engine: {path} cannot be imported: {error!r}:"
            f" `python -c 'import {path}'` shows where"
        ) from error
    if not (hasattr(module, "create") and hasattr(module, "Options")):
        raise ConfigError(
            f"{kind}.engine: {path} is no engine: it needs Options and create(options, models)"
        )
    return module


def _known(kind: str) -> list[str]:
    """By their text: some need a package that is not here, and all take seconds to import."""
    files = sorted(file for root in engines.__path__ for file in Path(root, kind).glob("*.py"))
    return [file.stem for file in files if _CREATES.search(file.read_text("utf-8"))]
