"""What ``voice say`` writes, and where: one file, or one for each chapter in a folder."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipelines.media.reading import MediaError
from pipelines.media.writing import CONTENT_TYPES, Encoder
from pipelines.narration.chapters import Chapter
from voice.saying.text import SayError

STDOUT: Final = "-"
USUAL: Final = "mp3"
PARTIAL: Final = ".part"
MARKS: Final = ".ffmetadata"

_BY_SUFFIX: Final = {f".{form}": form for form in CONTENT_TYPES} | {".ogg": "opus", ".wave": "wav"}
_NO_SLUG: Final = re.compile(r"[^\w]+")
_SLUG_BYTES: Final = 80
_SPECIAL: Final = re.compile(r"[=;#\\]")


@dataclass(frozen=True, slots=True)
class Output:
    """One file: these chapters, in this format."""

    path: Path
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Where all of it goes. ``path`` None is standard output."""

    path: Path | None
    form: str
    by_chapter: bool

    @property
    def partial(self) -> Path:
        """The folder of what is not finished, beside the file or in the folder of chapters."""
        assert self.path is not None
        if self.by_chapter:
            return self.path / f"unfinished{PARTIAL}"
        return self.path.with_name(self.path.name + PARTIAL)

    def outputs(self, chapters: Sequence[Chapter]) -> list[Output]:
        """The files, in order."""
        assert self.path is not None
        if not self.by_chapter:
            return [Output(self.path, tuple(chapters))]
        digits = max(2, len(str(len(chapters))))
        names = (
            f"{number:0{digits}}{_slug(chapter.title)}.{self.form}"
            for number, chapter in enumerate(chapters, 1)
        )
        return [
            Output(self.path / name, (chapter,))
            for name, chapter in zip(names, chapters, strict=True)
        ]


def target(out: str | None, form: str | None, *, by_chapter: bool, to_terminal: bool) -> Target:
    """What ``-o`` and ``--format`` mean together. Raises SayError, also where such a format cannot
    be made or there is no such folder."""
    if out is None or out == STDOUT:
        found = _stdout(form, out, by_chapter=by_chapter, to_terminal=to_terminal)
    elif by_chapter:
        found = _folder(Path(out), form)
    else:
        found = _file(Path(out), form)
    try:
        Encoder(found.form).finish()
    except MediaError as error:
        raise SayError(str(error)) from error
    return found


def _stdout(form: str | None, out: str | None, *, by_chapter: bool, to_terminal: bool) -> Target:
    if by_chapter:
        raise SayError("--chapters makes several files: name a folder for them, as -o chapters", 2)
    if to_terminal:
        given = "-o - writes sound" if out else "there is no -o"
        told = (
            f"{given}, and a terminal is no place for it: -o speech.{form or USUAL} writes a file"
        )
        raise SayError(told, 2)
    return Target(None, form or USUAL, by_chapter=False)


def _folder(path: Path, form: str | None) -> Target:
    if path.is_file() or (path.suffix.lower() in _BY_SUFFIX and not path.is_dir()):
        told = f"with --chapters, -o is a folder: -o {path.stem or 'chapters'}"
        raise SayError(f"{told} --format {form or _BY_SUFFIX.get(path.suffix.lower(), USUAL)}", 2)
    return Target(path, form or USUAL, by_chapter=True)


def _file(path: Path, form: str | None) -> Target:
    if path.is_dir():
        raise SayError(f"{path}: is a folder: name a file in it, or add --chapters", 2)
    if path.exists() and not path.is_file():
        raise SayError(f"{path}: is there and is no file: give another name, or - for a pipe", 2)
    if not path.parent.is_dir():
        raise SayError(f"{path}: there is no folder {path.parent}: mkdir -p {path.parent} makes it")
    by_name = _BY_SUFFIX.get(path.suffix.lower())
    if form is None and by_name is None:
        known = ", ".join(f".{each}" for each in CONTENT_TYPES)
        told = f"{path}: its name does not tell a format: end it in one of {known}"
        raise SayError(f"{told}; or say which with --format", 2)
    if form and by_name and form != by_name:
        raise SayError(f"{path}: is named as {by_name}, and --format says {form}: give one", 2)
    return Target(path, form or by_name or USUAL, by_chapter=False)


def _slug(title: str) -> str:
    """For a file's name: in any language, without what some system cannot have in one."""
    words = _NO_SLUG.sub("-", unicodedata.normalize("NFC", title).casefold()).strip("-_")
    while len(os.fsencode(words)) > _SLUG_BYTES:
        words = words[:-1]
    return f"-{words.rstrip('-')}" if words else ""


def chapter_marks(titles: Sequence[str], starts_ms: Sequence[int], end_ms: int) -> str:
    """The chapters of one file, as FFmpeg reads them."""
    lines = [";FFMETADATA1"]
    times = zip(titles, starts_ms, [*starts_ms[1:], end_ms], strict=True)
    for number, (title, start, end) in enumerate(times, 1):
        lines += ["[CHAPTER]", "TIMEBASE=1/1000", f"START={start}", f"END={end}"]
        lines.append("title=" + _SPECIAL.sub(r"\\\g<0>", title or str(number)))
    return "\n".join(lines) + "\n"
