"""The server under load: one that runs already, or one that is started and ended here."""

from __future__ import annotations

import dataclasses
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from loadtest.server_process import NotStarted, Server
from loadtest.websocket import address_of
from voice.config import Config


class HouseError(Exception):
    """There is no server to call. The message says what to do."""


@dataclass(frozen=True, slots=True)
class House:
    """Where it is, which process it is (None: not known), and what it is, in words."""

    url: str
    pid: int | None
    described: str
    scripted: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which server: ``url`` of one that runs, else what one is started with. ``most_calls``: it
    is told to admit so many."""

    url: str | None = None
    pid: int | None = None
    config: Path | None = None
    settings: Sequence[str] = ()
    scripted: bool = False
    core: int | None = None
    most_calls: int | None = None

    def check(self) -> None:
        """Raises HouseError where an option says something of a server that another rules out."""
        starting = [
            *(["--config"] if self.config else []),
            *(["--set"] if self.settings else []),
            *(["--scripted"] if self.scripted else []),
            *(["--server-core"] if self.core is not None else []),
        ]
        if self.url is not None and starting:
            raise HouseError(f"{starting[0]} is for a server that is started; --url names one")
        if self.url is None and self.pid is not None:
            raise HouseError("--pid is for a server that runs: name it by --url")
        if self.pid is not None and not Path(f"/proc/{self.pid}").exists():
            raise HouseError(f"--pid {self.pid}: there is no such process here")
        cores = sorted(os.sched_getaffinity(0))
        if self.core is not None and self.core not in cores:
            there = ", ".join(map(str, cores))
            raise HouseError(f"--server-core {self.core}: there is no such core; there are {there}")

    def arguments(self) -> list[str]:
        """Those of ``voice serve``."""
        settings = list(self.settings)
        if self.most_calls is not None:
            settings.insert(0, f"{most_calls_setting()}={self.most_calls}")
        return [
            *(["--config", str(self.config)] if self.config else []),
            *(["--scripted"] if self.scripted else []),
            *(part for setting in settings for part in ("--set", setting)),
        ]


@contextmanager
def house(wanted: Wanted, tell: Callable[[str], None] = lambda _command: None) -> Iterator[House]:
    """A server that answers; ``tell`` hears what is started. Raises HouseError."""
    wanted.check()
    if wanted.url is not None:
        _reach(wanted.url)
        yield House(wanted.url, wanted.pid, wanted.url)
        return
    arguments = wanted.arguments()
    described = " ".join(("voice serve", *arguments))
    tell(described)
    with tempfile.TemporaryFile() as log, _start(arguments, wanted.core, log) as server:
        url = f"ws://127.0.0.1:{server.port}/v1/realtime"
        yield House(url, server.process.pid, described, wanted.scripted)


def _start(arguments: Sequence[str], core: int | None, log: IO[bytes]) -> Server:
    try:
        return Server(arguments, core, log)
    except NotStarted as error:
        raise HouseError(str(error)) from None


def _reach(url: str) -> None:
    address = address_of(url)
    try:
        socket.create_connection((address.host, address.port), timeout=5).close()
    except OSError as error:
        raise HouseError(
            f"nothing answers at {url}: {error.strerror or error}; start it with `voice serve`, or"
            " leave --url out to have one started"
        ) from error


def most_calls_setting() -> str:
    """Where the configuration says how many calls a server takes."""
    sections = {option.name for option in dataclasses.fields(Config)}
    return "admission.max_calls" if "admission" in sections else "server.max_calls"
