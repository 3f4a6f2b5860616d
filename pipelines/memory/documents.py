"""Documents as the parts that they are made of, each with its place: what a passage is cut from.

Read are plain text, Markdown, HTML, CSV, and PDF where the package pypdf is installed. Encodings
are not guessed: a text is UTF-8, or says otherwise.
"""

from __future__ import annotations

import codecs
import csv
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines.extras import how_to_install
from pipelines.memory.html import html_parts
from pipelines.memory.parts import Part

MOST_BYTES: Final = 50_000_000
"""A longer file is no document for people."""

_HEADING: Final = re.compile(r"\s{0,3}#{1,6}[ \t]+(.*)")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}charset=["']?(?!utf-16)([\w.:-]{1,40})""", re.IGNORECASE
)
"""It is found in single bytes, so UTF-16 is wrong of it, and UTF-8 meant (HTML, 13.2.3.2)."""

_MOST_ROW: Final = 1_000_000
_MOST_NAME: Final = 100
"""Characters of a column's name, which each of its values has in front."""


class DocumentError(Exception):
    """A file cannot be read as a document. The message says why, and what to do."""


def read(path: Path) -> bytes:
    """All of a file. Raises DocumentError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # who opens a pipe waits for it to be written
            raise DocumentError("is no file, but a pipe or a device")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise DocumentError(f"has more than {MOST_BYTES >> 20} MiB: split it")
    return data


def parts_of(path: Path, data: bytes) -> list[Part]:
    """The parts of a file that holds ``data``, in order. Raises DocumentError."""
    return list(_READERS[path.suffix.lower()](data))


def is_document(path: Path) -> bool:
    """It is of a kind that is read here, by its name."""
    return path.suffix.lower() in _READERS


# --- text -----------------------------------------------------------------------------------


def _decoded(data: bytes, declared: str = "utf-8") -> str:
    encoding = declared
    for mark, marked in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            encoding = marked
    try:
        text = data.decode(encoding)
    except (UnicodeError, LookupError) as error:
        told = f"is no text in {encoding} ({error}): save it as UTF-8"
        raise DocumentError(told) from error
    if "\0" in text:
        raise DocumentError("is no text: it has zero bytes in it")
    return text


@dataclass(slots=True)
class _Paragraph:
    """Lines that belong together, from ``line`` on, under ``heading``."""

    heading: str = ""
    line: int = 0
    lines: list[str] | None = None

    def take(self) -> Iterator[Part]:
        """What there is of it; it is empty then."""
        if self.lines:
            yield Part(" ".join(self.lines), f"line {self.line}", self.heading)
        self.lines = None

    def add(self, number: int, line: str) -> None:
        if not self.lines:
            self.line, self.lines = number, []
        self.lines.append(line)


def _text(data: bytes, *, marked: bool = False) -> Iterator[Part]:
    """Paragraphs, which blank lines divide; where it is ``marked``, headings as well."""
    paragraph, fenced = _Paragraph(), False
    for number, line in enumerate(_decoded(data).splitlines(), 1):
        fenced ^= marked and _FENCE.match(line) is not None
        heading = _HEADING.fullmatch(line) if marked and not fenced else None
        if heading:
            yield from paragraph.take()
            paragraph.heading = heading[1].rstrip(" \t#").strip()
        elif line.strip():
            paragraph.add(number, line.strip())
        else:
            yield from paragraph.take()
    yield from paragraph.take()


def _markdown(data: bytes) -> Iterator[Part]:
    return _text(data, marked=True)


def _html(data: bytes) -> Iterator[Part]:
    declared = _CHARSET.search(data[:4096])
    yield from html_parts(_decoded(data, declared[1].decode() if declared else "utf-8"))


def _csv(data: bytes) -> Iterator[Part]:
    """Each row by itself, its values named by the first row's."""
    text = _decoded(data)
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    before = csv.field_size_limit(_MOST_ROW)
    try:
        names: list[str] = []
        reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
        for row in reader:
            if not names:
                names = [name[:_MOST_NAME] for name in row]
                continue
            values = (" ".join(value.split()) for value in row)
            named = zip(names, values, strict=False)
            told = "; ".join(f"{name}: {value}" for name, value in named if value)
            if told:
                yield Part(told, f"line {reader.line_num}", whole=True)
    except csv.Error as error:
        raise DocumentError(f"is no CSV: line {reader.line_num}: {error}") from error
    finally:
        csv.field_size_limit(before)


# --- PDF ------------------------------------------------------------------------------------


def _pdf(data: bytes) -> Iterator[Part]:
    try:
        from pipelines.memory.pdf import pages
    except ModuleNotFoundError as error:
        told = f"is a PDF, and the package that reads those is missing: {how_to_install('pdf')}"
        raise DocumentError(told) from error
    try:
        read = list(pages(data))
    except ValueError as error:
        raise DocumentError(f"is a PDF that cannot be read: {error}") from error
    if not any(text.strip() for text in read):
        raise DocumentError("is a PDF without text, only pictures of it: have it recognised first")
    for number, text in enumerate(read, 1):
        for paragraph in re.split(r"\n\s*\n", text):
            if paragraph.strip():
                yield Part(" ".join(paragraph.split()), f"page {number}")


_READERS: Final[Mapping[str, Callable[[bytes], Iterator[Part]]]] = {
    ".txt": _text,
    ".text": _text,
    ".rst": _text,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".csv": _csv,
    ".tsv": _csv,
    ".pdf": _pdf,
}
SUFFIXES: Final = tuple(_READERS)
