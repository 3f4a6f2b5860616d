"""Files of settings, those that they include, and what is said of one that cannot be used."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Mapping[str, Any]], None]


class ConfigError(Exception):
    """The configuration cannot be used; the message says which key, where, and what to do."""


class Faults:
    """ConfigErrors that are kept, so that one error tells of all of them: a line each."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """One more."""
        self._lines.append(line)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._lines)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the one that ends the context."""
        try:
            yield
        except ConfigError as error:
            self.add(str(error))

    def tell(self) -> None:
        """Raises ConfigError where one was kept."""
        if self._lines:
            raise ConfigError("\n".join(dict.fromkeys(self._lines)))


def read(path: Path, check: Check, within: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The settings of a file over those of the files that it includes, the later of which go over
    the earlier. ``check`` raises ConfigError for settings that cannot be: it is asked about each
    included file, so that what it says is told with the file's name.

    Raises ConfigError.
    """
    values = _toml(path)
    names = values.pop("include", [])
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ConfigError(f'{path}: include: is a list of files: include = ["capacity.toml"]')
    within = (*within, path.resolve())
    merged: dict[str, Any] = {}
    for name in names:
        included = path.parent / name
        if Path(os.path.realpath(included)) in within:
            raise ConfigError(f"{path}: include: {included} includes itself")
        _merge(merged, _included(included, check, within, path))
    _merge(merged, values)
    return merged


def _included(path: Path, check: Check, within: tuple[Path, ...], by: Path) -> dict[str, Any]:
    try:
        values = read(path, check, within)
        check(values)
    except ConfigError as error:
        lines = str(error).splitlines()
        named = [line if line.startswith(f"{path}: ") else f"{path}: {line}" for line in lines]
        raise ConfigError("\n".join(f"{by}: include: {line}" for line in named)) from error
    return values


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Put the values of ``over`` into ``under``, section by section."""
    for name, value in over.items():
        place = under.get(name)
        if isinstance(place, dict) and isinstance(value, dict):
            _merge(place, value)
        else:
            under[name] = value


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
