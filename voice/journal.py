"""The journal of a call: all that its turn machine was told, when, and what it decided.

One JSON line each, written while the call goes on. What language, sound or models had to say is
in the events already, as words and numbers, so a journal is all that a replay needs; it holds no
audio. The first line is a header; the lines behind it are one of

- ``[now, probability, level_db, echo]``: a window was heard and nothing came of it;
- ``{"t": now, "event": [name, fields], "commands": [[name, fields], ...]}``: any other step;
- ``{"t": now, "output": [name, fields]}``: something of a reply went out;
- ``{"t": now, "stages": fields}``: a reply has ended, and its stages first gave something then;
- ``{"t": now, "closed": true}``: the call is over.

``now`` is in milliseconds of the call's clock, which began at the header's ``clock_ms``. Names
are those of ``pipelines.conversation.events``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias, get_args

import msgspec

from pipelines.conversation.events import (
    Command,
    Event,
    Output,
    ReplyAudio,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from voice.disk import Disk, DiskFile, create

VERSION: Final = 1
SUFFIX: Final = ".jsonl"

WRITE_S: Final = 0.5
"""A server that dies takes no more than this of its journals with it."""

MOST_ENTRIES: Final = 4_000
"""A batch that grows beyond this does not wait for its time."""

_EVENTS: Final[Mapping[str, type]] = {kind.__name__: kind for kind in get_args(Event)}
_COMMANDS: Final[Mapping[str, type]] = {kind.__name__: kind for kind in get_args(Command)}


class JournalError(Exception):
    """A file is no journal that can be read; the message says which, where, and why."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a replay begins with. ``began`` is the wall clock's time when the call's own clock
    stood at ``clock_ms``; ``rate``, of the caller's audio in Hz."""

    call: str
    began: datetime
    clock_ms: float
    rate: int
    settings: TurnSettings
    version: int = VERSION
    journal: Literal["antiphon"] = "antiphon"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What the header of any version has."""

    journal: Literal["antiphon"]
    version: int


@dataclass(frozen=True, slots=True)
class Step:
    """The machine took ``event`` at ``now`` and gave ``commands``."""

    now: int
    event: Event
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """An output went out. ``fields`` are its own, but for audio ``epoch`` and ``duration_ms``."""

    now: float
    name: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Staged:
    """A reply has ended. The stages' times are in seconds of the call's clock."""

    now: float
    stages: Stages


@dataclass(frozen=True, slots=True)
class Closed:
    """The call is over."""

    now: float


Entry: TypeAlias = Step | Said | Staged | Closed


@dataclass(frozen=True, slots=True)
class Recorded:
    """A journal. ``whole`` is false where its last line was cut off; the call of one that does
    not end with Closed was not over when the journal was read, or its server died."""

    header: Header
    entries: list[Entry] = field(default_factory=list)
    whole: bool = True

    @property
    def steps(self) -> Iterator[Step]:
        """What the machine did."""
        return (entry for entry in self.entries if isinstance(entry, Step))

    @property
    def closed(self) -> bool:
        """The call has come to its end."""
        return bool(self.entries) and isinstance(self.entries[-1], Closed)


# --- lines ----------------------------------------------------------------------------------


def encode(entry: Header | Entry) -> bytes:
    """An entry as a line, its end included."""
    return msgspec.json.encode(_plain(entry)) + b"\n"


def _plain(entry: Header | Entry) -> Any:
    match entry:
        case Step(now, WindowHeard() as window, ()):
            return [now, window.probability, window.level_db, window.echo]
        case Step():
            commands = [_named(command) for command in entry.commands]
            return {"t": entry.now, "event": _named(entry.event), "commands": commands}
        case Said():
            return {"t": entry.now, "output": [entry.name, entry.fields]}
        case Staged():
            return {"t": entry.now, "stages": entry.stages}
        case Closed():
            return {"t": entry.now, "closed": True}
        case Header():
            return entry


def _named(thing: Event | Command) -> tuple[str, Event | Command]:
    return type(thing).__name__, thing


def decode(line: bytes) -> Entry:
    """The entry of a line. Raises ValueError, saying what is wrong with it."""
    plain = msgspec.json.decode(line)
    if isinstance(plain, list):
        now, *window = plain
        return Step(msgspec.convert(now, int), _built(_EVENTS, ["WindowHeard", _window(window)]))
    match plain:
        case {"t": now, "event": event, "commands": [*commands]}:
            built = tuple(_built(_COMMANDS, command) for command in commands)
            return Step(msgspec.convert(now, int), _built(_EVENTS, event), built)
        case {"t": float() | int() as now, "output": [str() as name, dict() as fields]}:
            return Said(now, name, fields)
        case {"t": float() | int() as now, "stages": stages}:
            return Staged(now, msgspec.convert(stages, Stages))
        case {"t": float() | int() as now, "closed": True}:
            return Closed(now)
    raise ValueError("it is nothing that a journal holds")


def _window(values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("probability", "level_db", "echo"), values, strict=True))


def _built(kinds: Mapping[str, type], named: Any) -> Any:
    match named:
        case [str() as name, dict() as fields] if name in kinds:
            return msgspec.convert(fields, kinds[name])
        case [str() as name, _]:
            raise ValueError(f"there is no {name}: this version of the server does not know it")
    raise ValueError("a name and its fields are missing")


# --- reading --------------------------------------------------------------------------------


def read(path: Path) -> Recorded:
    """A journal from its file. Raises JournalError."""
    try:
        opened = path.open("rb")
    except OSError as error:
        raise JournalError(
            f"{path}: cannot be read: {error.strerror}. Give a file of the folder journal.dir"
        ) from error
    with opened as file:
        recorded = Recorded(_read_header(path, file.readline()))
        for number, line in enumerate(file, 2):
            try:
                recorded.entries.append(decode(line))
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return Recorded(recorded.header, recorded.entries, whole=False)
                raise JournalError(f"{path}: line {number} cannot be read: {error}") from error
    return recorded


def _read_header(path: Path, line: bytes) -> Header:
    if not line:
        raise JournalError(f"{path}: is empty: its call ended before anything was written")
    try:
        mark = msgspec.json.decode(line, type=_Mark)
        if mark.version == VERSION:
            return msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(
            f"{path}: is not a journal: {error}. Give a file of the folder journal.dir"
        ) from error
    raise JournalError(
        f"{path}: is a journal of version {mark.version}, and this server reads version {VERSION}:"
        " replay it with the server that wrote it"
    )


# --- writing --------------------------------------------------------------------------------


class Journal:
    """Writes one call down; an Observer. To be closed at the call's end."""

    def __init__(
        self, disk: Disk, path: Path, call: str, rate: int, settings: TurnSettings
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = DiskFile(disk, path, _Lines)
        self._batch: list[Header | Entry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._add(Header(call, datetime.now(UTC), self._now(), rate, settings))

    def stepped(self, event: Event, commands: Sequence[Command], now: int) -> None:
        self._add(Step(now, event, tuple(commands)))

    def said(self, output: Output, now: float) -> None:
        if isinstance(output, ReplyAudio):
            fields = {"epoch": output.epoch, "duration_ms": output.pcm.duration_ms}
        else:
            fields = msgspec.to_builtins(output)
        self._add(Said(now, type(output).__name__, fields))

    def staged(self, stages: Stages) -> None:
        self._add(Staged(self._now(), stages))

    def close(self) -> None:
        """The call is over."""
        self._add(Closed(self._now()))
        self._write()
        self._file.close()

    def _now(self) -> float:
        return self._loop.time() * 1000.0

    def _add(self, entry: Header | Entry) -> None:
        if self._file.ended:
            return
        self._batch.append(entry)
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._write)
        if len(self._batch) >= MOST_ENTRIES:
            self._write()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._batch = self._batch, []
        self._file.put(batch)


class _Lines:
    """A file of lines."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = create(path)

    def write(self, batch: Sequence[Header | Entry]) -> None:
        self._file.writelines(map(encode, batch))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def name_of(call: str, began: datetime) -> str:
    """What a call's files are called, but for their suffix: in the order of time, and safe
    whatever a client may call itself."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in call)[:80]
    return f"{began:%Y%m%dT%H%M%S}-{safe}"
