"""The composition root: configuration to engines, engines to a house, a house to a server."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import engines
from engines.downloads import StoreError
from engines.models import ModelStore
from engines.ports import Asr, Embedder, EndOfTurn, EngineError, Tts, Vad
from engines.remote.spec import EngineSpec, Kind, Place
from engines.vad.ears import Ears
from pipelines.conversation.ports import Engines
from voice.config import (
    ENGINES,
    NO_ENGINE,
    Config,
    ConfigError,
    EngineConfig,
    Faults,
    PlacementConfig,
    build,
)
from voice.house import House
from voice.late_diarizer import LateDiarizer
from voice.metering import Meter, metered
from voice.metrics import Metrics
from voice.model_states import UNUSABLE, model_states
from voice.packages import TRACES, faults, needs_of, packages

if TYPE_CHECKING:
    from pipelines.memory.lookup import Documents

logger = logging.getLogger(__name__)

_CREATES: Final = re.compile(r"^def create\(| as create$", re.MULTILINE)


@asynccontextmanager
async def open_house(config: Config) -> AsyncIterator[House]:
    """The engines, made and not yet warm; closed at the end of the context.

    Raises what ``check_engines`` raises, and EngineError for a model that is not there, or an index
    that is of no use.
    """
    check_engines(config)
    models = ModelStore(config.models_path)
    check_models(config, models)
    check_index(config)
    async with AsyncExitStack() as stack:
        made, meter = {}, Meter()
        places, shared = _places(config), config.placement.shared()
        for kind in ENGINES:
            where = places.get(kind, ()), shared.get(kind, ())
            engine = _make_or_place(kind, getattr(config, kind), models, *where)
            stack.push_async_callback(engine.close)
            apart = len(places.get(kind, ())) + len(shared.get(kind, ()))
            made[kind] = metered(engine, kind, meter, apart)
        judge = _make_judge(config.end_of_turn, models)
        if judge is not None:
            stack.push_async_callback(judge.close)
        ears = Ears(make_engine("vad", config.vad, models))
        embedder = _make_embedder(config, models)
        if embedder is not None:
            stack.push_async_callback(embedder.close)
            embedder = metered(embedder, "embedding", meter)
        documents = _documents(config, embedder)
        if documents is not None:
            stack.push_async_callback(documents.close)
        metrics = Metrics()
        metrics.watch_ears(ears)
        metrics.watch_engines(made | {"embedding": embedder}, ears)
        diarizer = make_diarizer(config, models)
        if diarizer is not None:
            stack.push_async_callback(diarizer.close)
        served = Engines(ears, **made, end_of_turn=judge, knowledge=documents)
        house = House(config, served, metrics, meter, embedder, diarizer, _voices(config))
        stack.push_async_callback(asyncio.to_thread, house.traces.close)
        stack.push_async_callback(asyncio.to_thread, house.records.close)
        yield house


@asynccontextmanager
async def open_hearing(config: Config) -> AsyncIterator[tuple[Vad, Asr]]:
    """What hears, and nothing else, for work on files without a server: made and not yet warm,
    closed at the end of the context. Raises what ``open_house`` does."""
    async with _open_alone(config, "asr", "vad") as asr:
        yield make_engine("vad", config.vad, ModelStore(config.models_path)), asr


@asynccontextmanager
async def open_speaking(config: Config) -> AsyncIterator[Tts]:
    """What speaks, and nothing else; as ``open_hearing``."""
    async with _open_alone(config, "tts") as tts:
        yield tts


@asynccontextmanager
async def open_embedding(config: Config) -> AsyncIterator[Embedder]:
    """What tells texts apart, and nothing else; as ``open_hearing``."""
    check_engines(config, ("embedding",))
    embedder: Embedder = make_engine("embedding", config.embedding, ModelStore(config.models_path))
    try:
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def _open_alone(config: Config, kind: str, *others: str) -> AsyncIterator[Any]:
    """One engine, in its places; ``others`` are looked at as well before it is made."""
    placement = PlacementConfig(**{kind: getattr(config.placement, kind)})
    config = dataclasses.replace(config, placement=placement)
    check_engines(config, (*others, kind))
    models, places, shared = ModelStore(config.models_path), _places(config), placement.shared()
    where = places.get(kind, ()), shared.get(kind, ())
    engine = _make_or_place(kind, getattr(config, kind), models, *where)
    try:
        yield engine
    finally:
        await engine.close()


def check_engines(config: Config, kinds: Sequence[str] | None = None) -> None:
    """What can be told before any engine is made, which may load for minutes. ``kinds``: of these
    alone; None for all that a server needs.

    Raises ConfigError, with a line for each engine that is not there, setting that it does not
    have, and package that it lacks, traces' included. An engine that is shared is the business of
    others.
    """
    found, needed = Faults(), dict[str, list[str]]()
    for kind in filter(config.placement.keeps, kinds or engine_kinds(config)):
        with found.kept():
            for package in dict.fromkeys(options_of(kind, getattr(config, kind))[1]):
                needed.setdefault(package, []).append(kind)
    if config.diarization.engine != NO_ENGINE and kinds is None:
        with found.kept():  # its settings alone: of packages is told who asks for it
            options_of("diarization", config.diarization)
    if config.traces.endpoint is not None and kinds is None:
        needed |= {package: ["traces"] for package in TRACES}
    for fault in faults(packages(needed)):
        found.add(fault)
    found.tell()


def _voices(config: Config) -> tuple[str, ...]:
    """Those that the engine knows by name; of one that another process keeps, nobody here knows."""
    if not config.placement.keeps("tts"):
        return ()
    voices: tuple[str, ...] = getattr(options_of("tts", config.tts)[0], "voices", ())
    return voices


def check_models(config: Config, models: ModelStore) -> None:
    """Raises EngineError where the models of several engines are not in place, with the one command
    that brings all of them. One is told of by its engine, which may do without."""
    kinds = filter(config.placement.keeps, engine_kinds(config))
    options = (options_of(kind, getattr(config, kind))[0] for kind in kinds)
    states = (state for each in options for state in model_states(each, models))
    names = list(dict.fromkeys(state.name for state in states if state.state in UNUSABLE))
    if len(names) > 1:
        told = f"{', '.join(names)} are not in {models.root}, or are damaged"
        raise StoreError(f"{told}: run `{models.pull_command(*names)}` to fetch them")


def check_index(config: Config) -> None:
    """Raises EngineError where the documents are in no index, or in one that an embedder of ours
    cannot be asked for: what can be told without its model."""
    if config.memory.index is None:
        return
    from pipelines.memory.store import Index

    index = Index(Path(config.memory.index).expanduser())
    index.close()
    section = config.embedding
    ours = engine_path("embedding", section.engine).startswith("engines.")
    model = getattr(options_of("embedding", section)[0], "model", "")
    if ours and model and model != index.model:
        told = f"is of the embedder {index.model}, and [embedding] is {model}"
        told = f"{index.path}: {told}: run `voice index` again"
        raise EngineError("memory", "unavailable", told)


def engine_kinds(config: Config) -> tuple[str, ...]:
    """The sections of the engines that a configuration cannot do without."""
    judge = () if config.end_of_turn.engine == NO_ENGINE else ("end_of_turn",)
    embedder = ("embedding",) if config.memory.index else ()
    return ("vad", *judge, *ENGINES, *embedder)


async def warm_up(house: House, told: Callable[[str], None]) -> None:
    """Load every model and run it once; then the house is ready. ``told`` is given a line for
    each. Raises EngineError."""
    loop = asyncio.get_running_loop()
    for kind in ("end_of_turn", *ENGINES):
        began, engine = loop.time(), getattr(house.engines, kind)
        if engine is None:
            continue
        await engine.warm_up()
        name, took_s = getattr(house.config, kind).engine, loop.time() - began
        house.metrics.model_load.labels(kind).set(took_s)
        told(f"{kind}  {name}  warm in {took_s:.1f} s")
    if (documents := house.engines.knowledge) is not None:
        began = loop.time()
        await documents.warm_up()
        told(f"memory  {house.config.memory.index}  warm in {loop.time() - began:.1f} s")
    house.ready = True


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


def _make_or_place(
    kind: str,
    config: EngineConfig,
    models: ModelStore,
    places: Sequence[Place],
    endpoints: Sequence[str],
) -> Any:
    """An engine in processes of its own and in those that are shared; in here where it has none."""
    if not places and not endpoints:
        return make_engine(kind, config, models)
    from engines.remote.pool import EnginePool

    path = engine_path(kind, config.engine)
    spec = EngineSpec(cast("Kind", kind), path, config.options, str(models.root))
    return EnginePool(spec, places, endpoints=endpoints)


def make_engine(kind: str, config: EngineConfig, models: ModelStore) -> Any:
    """An engine from its module: ``create(options, models)``."""
    module = engine_module(kind, config)
    return module.create(build(module.Options, config.options, kind), models)


def _make_judge(config: EngineConfig, models: ModelStore) -> EndOfTurn | None:
    """What tells by its sound whether a turn is over. Calls can do without."""
    if config.engine == NO_ENGINE:
        return None
    try:
        judge: EndOfTurn = make_engine("end_of_turn", config, models)
    except EngineError as error:
        logger.warning("turns are judged by their words alone: %s", error.message)
        return None
    return judge


def _make_embedder(config: Config, models: ModelStore) -> Embedder | None:
    """What tells texts apart. Only calls that look something up need it; its model is loaded when
    it is first asked. Raises EngineError where they do."""
    if config.embedding.engine == NO_ENGINE:
        return None
    try:
        embedder: Embedder = make_engine("embedding", config.embedding, models)
    except EngineError as error:
        if config.memory.index:
            raise
        logger.info("there are no embeddings: %s", error.message)
        return None
    return embedder


def _documents(config: Config, embedder: Embedder | None) -> Documents | None:
    """What calls may look up. ``Config.check`` has seen to it that there is an embedder."""
    if config.memory.index is None or embedder is None:
        return None
    from pipelines.memory.lookup import Documents  # with a database, which few servers need

    if config.llm.engine == "smollm2":
        logger.warning(
            "memory.index: smollm2 is too small to make use of documents: its answers get worse"
            ' with them. Set [llm] engine = "openai", base_url and model (vLLM, Ollama, or a hosted'
            " service), or leave memory.index out"
        )
    return Documents(config.memory, Path(config.memory.index).expanduser(), embedder)


def make_diarizer(config: Config, models: ModelStore) -> LateDiarizer | None:
    """What tells speakers apart, made when it is first asked for: most never ask, and it needs
    packages that a server can do without. None where there is to be none."""
    section = config.diarization
    if section.engine == NO_ENGINE:
        return None
    return LateDiarizer(lambda: make_engine("diarization", section, models))


def options_of(kind: str, config: EngineConfig) -> tuple[Any, tuple[str, ...]]:
    """An engine's options, and the packages that it needs; no options where one of those is
    missing without which there is no telling. Raises ConfigError."""
    try:
        options = build(engine_module(kind, config).Options, config.options, kind)
    except ConfigError as error:
        needs = needs_of(kind, config)
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name in needs:
            return None, needs
        raise
    return options, needs_of(kind, config, options)


def engine_path(kind: str, name: str) -> str:
    """The import path of the module that an engine's name stands for: one of ours goes before
    one of the user's own. Raises ConfigError."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{kind}.engine: {name!r} is no name. {_known(kind)}")
    ours = f"engines.{kind}.{name}"
    if "." in name or (find_spec(ours) is None and _is_module(name)):
        return name
    return ours


def _is_module(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None


def engine_module(kind: str, config: EngineConfig) -> Any:
    """The module that an engine's name stands for. Raises ConfigError."""
    name = config.engine
    path = engine_path(kind, name)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{path}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{kind}.engine: {name} needs the package {error.name}, which is not installed"
            ) from error
        raise ConfigError(f"{kind}.engine: there is no {name}. {_known(kind)}") from error
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


def _known(kind: str) -> str:
    """What an engine may be. Ours by their text: some need a package that is not here, and all
    take seconds to import."""
    files = sorted(file for root in engines.__path__ for file in Path(root, kind).glob("*.py"))
    names = [file.stem for file in files if _CREATES.search(file.read_text("utf-8"))]
    return (
        f"Known: {', '.join(names)}, or the import path of a module of your own, which lies in"
        " this folder or on PYTHONPATH"
    )
