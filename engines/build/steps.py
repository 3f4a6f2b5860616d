"""What a build tells of itself while it runs, and how it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeAlias

from engines.extras import how_to_install
from engines.ports import EngineError

MOST_SEED: Final = 2**32 - 1

Code: TypeAlias = Literal["failed", "bad_request", "unavailable", "unauthorized"]


class BuildError(EngineError):
    """A build cannot go on; the message says why, and what to do."""

    def __init__(self, message: str, code: Code = "failed") -> None:
        super().__init__("build", code, message)

    def __str__(self) -> str:
        return self.message


class Steps(Protocol):
    """Told of each long step. ``unit`` is what ``total`` and the amounts count: bytes, tokens."""

    def begin(self, what: str, unit: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...

    def end(self) -> None: ...

    def say(self, line: str) -> None: ...


class Quiet:
    """Steps that nobody looks at."""

    def begin(self, what: str, unit: str, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def end(self) -> None:
        pass

    def say(self, line: str) -> None:
        pass


@contextmanager
def step(steps: Steps, what: str, unit: str, total: int) -> Iterator[None]:
    """One step, which is over on leaving, however that happens."""
    steps.begin(what, unit, total)
    try:
        yield
    finally:
        steps.end()


def needs(module: str) -> Any:
    """The module, of a package that only builds need. Raises BuildError where it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise BuildError(
            f"building needs {module.partition('.')[0]} ({error}): {how_to_install('build')}",
            "unavailable",
        ) from error


def require_within(option: str, value: float, least: float, most: float) -> None:
    """Raise BuildError where ``value`` of ``--option`` lies outside; NaN does."""
    if not least <= value <= most:
        raise BuildError(
            f"--{option} is {value}, and has to be from {least} to {most}", "bad_request"
        )


def require_device(device: str) -> None:
    """Raise BuildError where torch is not installed or has no such device."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise BuildError(f"--device is {device!r}: take cpu, cuda or cuda:N", "bad_request")
    if device.startswith("cuda") and not needs("torch").cuda.is_available():
        raise BuildError(
            f"torch sees no {device} here: leave --device out, or see `voice doctor`",
            "unavailable",
        )
    needs("torch")
