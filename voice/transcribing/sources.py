"""Which files are to be heard, and what their transcripts are called.

A file in a folder is looked at to tell whether there is sound in it; its name only tells a damaged
recording, which somebody wants to hear of, from what never was one.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

from pipelines.media.reading import MediaError, open_media

_OF_SOUND: Final = re.compile(
    r"\.(3gp|aac|ac3|aif|aifc|aiff|amr|ape|asf|au|avi|caf|eac3|flac|flv|m4a|m4b|m4v|mka|mkv|mov"
    r"|mp2|mp3|mp4|mpeg|mpg|mts|oga|ogg|ogv|opus|ts|tta|w64|wav|wave|webm|wma|wmv|wv)",
    re.IGNORECASE,
)

_MISSING: Final = "there is no such file"


class SourceError(Exception):
    """A file that cannot be heard, and not for what is in it. The text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be heard. ``shown``: its name for people; ``within``: its name in the folder that
    it was found in; ``seems_s``: how long it seems to be, None where there is no telling."""

    path: Path
    shown: str
    within: PurePath
    seems_s: float | None = None


@dataclass(slots=True)
class Found:
    """``failures``: what cannot be heard, by its name for people, and why; ``passed_over``: how
    many files of folders are no recordings."""

    sources: list[Source] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    passed_over: int = 0


def find(named: Sequence[Path], look_on: Callable[[], bool] = lambda: True) -> Found:
    """What is there behind these names of files and folders, each file once. Opens every file, so
    it may take a while; it ends early once ``look_on`` says no."""
    found, seen = Found(), set[str]()
    for name in named:
        if os.path.isdir(name):  # Path's own raises where a folder above may not be entered
            _find_in(name, found, seen, look_on)
        else:
            _look(name, PurePath(name.name), found, seen)
    return found


def printed(name: str | os.PathLike[str]) -> str:
    """A file's name for people: on one line, and nothing in it that a terminal would obey."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in os.fspath(name)
    )


def _find_in(folder: Path, found: Found, seen: set[str], look_on: Callable[[], bool]) -> None:
    before = len(found.sources) + len(found.failures)
    for path in _files(folder, found):
        if not look_on():
            return
        _look(path, path.relative_to(folder), found, seen, in_folder=True)
    if len(found.sources) + len(found.failures) == before:
        found.failures[printed(folder)] = "there is no recording in this folder"


def _files(folder: Path, found: Found) -> Iterator[Path]:
    """All but what is hidden, in the order of their names."""

    def failed(error: OSError) -> None:
        found.failures[printed(error.filename)] = f"the folder cannot be read: {error.strerror}"

    for root, folders, names in os.walk(folder, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _look(
    path: Path, within: PurePath, found: Found, seen: set[str], *, in_folder: bool = False
) -> None:
    try:
        if (real := os.path.realpath(path)) in seen:
            return
        seen.add(real)
        found.sources.append(Source(path, printed(path), within, _seems_s(path)))
    except (OSError, MediaError, SourceError) as error:
        if in_folder and not _OF_SOUND.fullmatch(path.suffix):
            found.passed_over += 1
        else:
            found.failures[printed(path)] = reason_of(error, path)


def _seems_s(path: Path) -> float | None:
    """Raises OSError, MediaError and SourceError."""
    check_regular(path)
    with path.open("rb") as file, open_media(file) as media:
        return media.seems_s


def check_regular(path: Path) -> None:
    """Raises OSError and, for what is no plain file, SourceError: a pipe would be waited for
    without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise SourceError("it is no plain file")


def reason_of(error: Exception, path: Path) -> str:
    """What is wrong with the file at ``path``, without its name; that of another stands before."""
    if not isinstance(error, OSError):
        return str(error).rstrip(".")
    own = error.filename is None or str(error.filename) == str(path)
    if own and isinstance(error, FileNotFoundError):
        return _MISSING
    told = str(error.strerror or error)
    return told if own else f"{printed(error.filename)}: {told}"


def name_outputs(sources: Sequence[Source], folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Where the transcripts of each go, less the suffix: apart from one another, also where
    capitals count for nothing, and no source among them.

    The shortest name that does: the file's own without its suffix, with it, then both again with
    more and more of the folders that it lies in.
    """
    names = [list(_names(source)) for source in sources]
    chosen = [0] * len(names)
    taken = Counter(os.path.realpath(source.path).casefold() for source in sources)
    while True:
        wanted = [
            _outputs(folder / mine[at], suffixes) for mine, at in zip(names, chosen, strict=True)
        ]
        count = taken + Counter(output for outputs in wanted for output in outputs)
        doubled = [
            index
            for index, outputs in enumerate(wanted)
            if max(count[output] for output in outputs) > 1
            and chosen[index] + 1 < len(names[index])
        ]
        if not doubled:
            return [folder / mine[at] for mine, at in zip(names, chosen, strict=True)]
        for index in doubled:
            chosen[index] += 1


def _names(source: Source) -> Iterator[PurePath]:
    parts = Path(os.path.abspath(source.path)).parts
    for more in range(len(source.within.parts), len(parts)):
        name = PurePath(*parts[-more:])
        yield name.with_suffix("")
        yield name


def _outputs(name: Path, suffixes: Sequence[str]) -> set[str]:
    return {os.path.realpath(f"{name}{suffix}").casefold() for suffix in suffixes}
