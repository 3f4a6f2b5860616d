"""The configuration: one TOML file, the environment, the command line; read once, here alone.

A later source goes over an earlier one: defaults, files that a file includes, the file,
environment (``VOICE_SERVER_PORT``, ``VOICE_LLM_BASE_URL``, and ``VOICE_API_KEYS`` for short),
flags. A setting that is not known is an error that names the nearest one that is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from engines.nearest import nearest
from engines.remote.endpoints import fault_of, is_endpoint
from pipelines.conversation.settings import TurnSettings
from pipelines.memory.settings import MemorySettings
from pipelines.narration.settings import NarrationSettings
from voice.admission import DEFAULT_TENANT, AdmissionSettings, TenantSettings, fault_of_shares
from voice.auth import fault_of_keys
from voice.config_files import ConfigError as ConfigError
from voice.config_files import Faults as Faults
from voice.config_files import read
from voice.config_words import wanted
from voice.files import FileSettings
from voice.ladder import OverloadSettings
from voice.mcp.settings import McpSettings
from voice.phone_settings import PhoneSettings
from voice.traces import TraceSettings

T = TypeVar("T")

PREFIX: Final = "VOICE_"
ENGINES: Final = ("asr", "llm", "tts")
"""The sections of the models that can be scripted."""
_BESIDE: Final = ("vad", "end_of_turn", "diarization", "embedding")
_OF_ENGINES: Final = (*_BESIDE, *ENGINES, "placement")
NO_ENGINE: Final = "none"
"""The name for no engine, where one may be missing: ``end_of_turn``, ``diarization``,
``embedding``."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where to listen and whom to let in. Without keys the host must be a loopback. Once it is
    told to stop, calls may go on for ``drain_s``. Of a client that goes on sending more than
    ``messages_per_s`` no more than that is read."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8080
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_origins: tuple[str, ...] = ()
    drain_s: Annotated[float, Meta(ge=0)] = 5.0
    max_message_bytes: Annotated[int, Meta(ge=1)] = 16 * 1024 * 1024
    messages_per_s: Annotated[float, Meta(ge=100)] = 500.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Who answers, unless a session says otherwise. ``language`` None lets Whisper detect it.
    ``context_tokens``: what the model is given to read at most, instructions and tools included;
    from three quarters of it on, notes stand for the beginning of the call.
    ``tools``: those of the server's own that the model may use, ``expect_answer``, ``hang_up``, and
    on telephones ``send_digits``."""

    instructions: str = (
        "You are a friendly voice assistant. Answer in one or two short, spoken sentences."
    )
    voice: str | None = None
    language: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    context_tokens: Annotated[int, Meta(ge=1_000)] = 6_000
    tools: tuple[Literal["expect_answer", "hang_up", "send_digits"], ...] = ()


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """An engine by name (a module of ours: ``whisper``) or by the import path of a module of
    yours (``my_house.my_asr``). All other settings of its section are that module's ``Options``."""

    engine: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PlacementConfig:
    """Where engines run: each name is one process of its own (``engines.placement``); none is
    inside the server. Names: a MIG profile, a UUID, ``gpu0``, or ``cpu``; or the endpoint of an
    engine that runs already and may be shared, ``ipc:///run/antiphon/tts``."""

    asr: tuple[str, ...] = ()
    llm: tuple[str, ...] = ()
    tts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind, endpoints in self.shared().items():
            for endpoint in endpoints:
                fault = fault_of(endpoint)
                if endpoints.count(endpoint) > 1:
                    fault = "is there twice: name it once"
                if fault:
                    raise ConfigError(f"placement.{kind}: {endpoint}: {fault}")

    def wanted(self) -> dict[str, tuple[str, ...]]:
        """The kinds of engine that run in processes of this server, with the names."""
        return self._named(lambda name: not is_endpoint(name))

    def shared(self) -> dict[str, tuple[str, ...]]:
        """The kinds of engine that run elsewhere on this machine, with the endpoints."""
        return self._named(is_endpoint)

    def keeps(self, kind: str) -> bool:
        """Whether this server has an engine of the kind of its own, in here or in a process; else
        others run all that there are, and what these need is their business."""
        return kind in self.wanted() or kind not in self.shared()

    def _named(self, chosen: Callable[[str], bool]) -> dict[str, tuple[str, ...]]:
        found = {kind: tuple(filter(chosen, getattr(self, kind))) for kind in ENGINES}
        return {kind: names for kind, names in found.items() if names}


@dataclass(frozen=True, slots=True)
class JournalConfig:
    """What is kept of calls, and where; nothing unless a folder is named. ``dir``: journals, which
    hold what was said as words (``voice replay`` shows them). ``recordings``: the sound, of the
    calls that ask for it (``?record=1``) or of all. After ``keep_days`` both are deleted."""

    dir: str | None = None
    recordings: str | None = None
    record: Literal["asked", "all"] = "asked"
    keep_days: Annotated[int, Meta(ge=1)] | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """All of it."""

    server: ServerConfig = field(default_factory=ServerConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    turns: TurnSettings = field(default_factory=TurnSettings)
    vad: EngineConfig = field(default_factory=lambda: EngineConfig("silero"))
    asr: EngineConfig = field(default_factory=lambda: EngineConfig("moonshine"))
    end_of_turn: EngineConfig = field(default_factory=lambda: EngineConfig("smart_turn"))
    llm: EngineConfig = field(default_factory=lambda: EngineConfig("smollm2"))
    tts: EngineConfig = field(default_factory=lambda: EngineConfig("hibari"))
    embedding: EngineConfig = field(default_factory=lambda: EngineConfig("minilm"))
    diarization: EngineConfig = field(default_factory=lambda: EngineConfig("pyannote"))
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    traces: TraceSettings = field(default_factory=TraceSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    overload: OverloadSettings = field(default_factory=OverloadSettings)
    phone: PhoneSettings = field(default_factory=PhoneSettings)
    files: FileSettings = field(default_factory=FileSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    narration: NarrationSettings = field(default_factory=NarrationSettings)
    tenants: Mapping[str, TenantSettings] = field(default_factory=dict)
    models_dir: str | None = None

    def check(self) -> None:
        """Raises ConfigError where settings cannot hold together. Not asked of a file that is
        included: the rest of them is in another."""
        if fault := fault_of_shares(self.admission, self.tenants) or fault_of_keys(self.keys):
            raise ConfigError(fault)
        if self.phone.tenant not in self.keys:
            raise ConfigError(f"phone.tenant: there is no tenant {self.phone.tenant!r}")
        if self.memory.index and self.embedding.engine == NO_ENGINE:
            raise ConfigError("memory.index: nothing is found in it without an embedding.engine")

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The keys of all tenants, by the tenant's name."""
        keys = {name: tenant.keys for name, tenant in self.tenants.items()}
        return keys | {DEFAULT_TENANT: (*self.server.api_keys, *keys.get(DEFAULT_TENANT, ()))}

    @property
    def models_path(self) -> Path | None:
        """Where models are kept; None for the user's cache folder."""
        return Path(self.models_dir).expanduser() if self.models_dir else None


def load(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
    *,
    scripted: bool = False,
    check_engines: Callable[[Config], None] | None = None,
) -> Config:
    """The configuration from its sources; ``settings`` are ``section.key=value``. ``scripted``
    puts null engines in place of the models that file and environment name; the VAD stays real.
    ``check_engines`` raises ConfigError: it is asked where something else is wrong, so that all of
    it is told together.

    Raises ConfigError.
    """
    merged: dict[str, Any] = read(path, _check) if path is not None else {}
    faults = Faults()
    for variable, value in sorted((environment or {}).items()):
        if variable.startswith(PREFIX):
            with faults.kept():
                _put(merged, _path_of(variable), value, variable)
    if scripted:
        merged |= {kind: {"engine": "scripted"} for kind in ENGINES}
        merged |= {"end_of_turn": {"engine": NO_ENGINE}, "embedding": {"engine": "scripted"}}
    for setting in settings:
        with faults.kept():
            name, value = _split(setting)
            _put(merged, name.split("."), value, f"--set {name}")
    config = Config()
    with faults.kept():
        config = build(Config, merged, "")
        config.check()
    if faults.any and check_engines is not None:
        with faults.kept():
            check_engines(build(Config, {k: merged[k] for k in _OF_ENGINES if k in merged}, ""))
    faults.tell()
    return config


def _split(setting: str) -> tuple[str, str]:
    name, separator, value = setting.partition("=")
    if not separator:
        raise ConfigError(f"--set {setting}: write it as section.key=value")
    return name, value


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """A dataclass from plain values, text taken for numbers where numbers are wanted.

    ``where`` is the path of ``values`` in the configuration. Raises ConfigError, with a line for
    each value that is wrong.
    """
    if kind is EngineConfig:
        values = _engine_values(values, where)
    hints = get_type_hints(kind, include_extras=True)
    known = {option.name for option in dataclasses.fields(kind)}  # type: ignore[arg-type]
    built, faults = {}, Faults()
    for name, value in values.items():
        path = f"{where}.{name}" if where else name
        with faults.kept():
            if name not in known:
                raise ConfigError(f"{path}: there is no such setting.{_near(name, known, where)}")
            built[name] = _value(hints[name], value, path)
    faults.tell()
    try:
        return kind(**built)
    except TypeError as error:
        missing = ", ".join(sorted(known - set(built)))
        raise ConfigError(f"{where}: something is missing of {missing}") from error
    except ValueError as error:  # of settings that know what they cannot be
        raise ConfigError(f"{where}.{error}") from error


def _engine_values(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """An engine's section as EngineConfig has it: its name, and all the rest."""
    options = dict(values)
    engine = options.pop("engine", getattr(Config(), where).engine)
    return {"engine": engine, "options": options}


def _value(hint: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: is a section, not a value")
        return build(hint, value, path)
    if named := _named_sections(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: holds sections, as [{path}.NAME], not a value")
        return {name: _value(named, section, f"{path}.{name}") for name, section in value.items()}
    if get_origin(hint) is tuple and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        words = wanted(hint)
        raise ConfigError(f"{path}: {f'must be {words}' if words else error}") from error


def _check(values: Mapping[str, Any]) -> None:
    """Raises ConfigError where these cannot be settings."""
    build(Config, values, "")


def _named_sections(hint: Any) -> Any:
    """The dataclass of sections whose names are the user's own; None for any other hint."""
    if get_origin(hint) is not Mapping:
        return None
    kind = get_args(hint)[1]
    return kind if dataclasses.is_dataclass(kind) else None


def _path_of(variable: str) -> list[str]:
    """The setting that a variable of the environment stands for."""
    spelled = {f"{PREFIX}API_KEYS": ["server", "api_keys"]}
    spelled |= {PREFIX + "_".join(path).upper(): path for path in _paths(Config)}
    if variable in spelled:
        return spelled[variable]
    section, _, option = variable.removeprefix(PREFIX).lower().partition("_")
    if section in ("vad", "diarization", "embedding", *ENGINES) and option:
        return [section, option]
    if section == "tenants":
        for setting in (each.name for each in dataclasses.fields(TenantSettings)):
            tenant = option.removesuffix(f"_{setting}")
            if tenant not in ("", option):
                return [section, tenant, setting]
    ends = [name for name, path in spelled.items() if variable.endswith(f"_{path[-1]}".upper())]
    raise ConfigError(f"{variable}: there is no such setting.{nearest(variable, ends or spelled)}")


def _paths(kind: Any) -> Iterator[list[str]]:
    """Every setting that is known by name."""
    hints = get_type_hints(kind)
    for option in dataclasses.fields(kind):
        if hints[option.name] is EngineConfig:
            yield [option.name, "engine"]
        elif dataclasses.is_dataclass(hints[option.name]):
            yield from ([option.name, *path] for path in _paths(hints[option.name]))
        else:
            yield [option.name]


def _put(merged: dict[str, Any], names: list[str], value: str, source: str) -> None:
    place = merged
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise ConfigError(f"{source}: {name} is a value, not a section")
    place[names[-1]] = value


def _near(name: str, known: Iterable[str], where: str) -> str:
    """What was meant by ``name``, which the section ``where`` with ``known`` does not have: the
    same name in another section goes before a similar one in this."""
    paths = [".".join(path) for path in _paths(Config)]
    elsewhere = [path for path in paths if path.rpartition(".")[2] == name]
    if elsewhere:
        return nearest(f"{where}.{name}", elsewhere, cutoff=0.0)
    own = {*known, "engine"} if where in (*_BESIDE, *ENGINES) else known
    return nearest(name, own, f"{where}." if where else "")
