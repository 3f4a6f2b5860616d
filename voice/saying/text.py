"""What ``voice say`` is to say: words of the command line, a file, or standard input."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import BinaryIO, Final

MOST_BYTES: Final = 64 * 1024 * 1024

_MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CONTAINERS: Final = {
    b"%PDF": ("a PDF", "pdftotext {} - | voice say -"),
    b"PK\x03\x04": (
        "a ZIP, as EPUB, DOCX and ODT files are",
        "pandoc -t markdown {} | voice say -",
    ),
    b"{\\rtf": ("RTF", "pandoc -f rtf -t markdown {} | voice say -"),
}
_LIKE_A_PATH: Final = re.compile(r"\S+\.[A-Za-z]{2,5}|\S*/\S*")
_BINARY_CONTROLS: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT: Final = 8_192
_MOST_CONTROLS: Final = 0.05


class SayError(Exception):
    """Cannot be done, for a reason that a line tells; ``status`` is what the command ends with: 2
    where the command line is wrong."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def text_of(given: str | None, stdin: BinaryIO | None = None) -> str:
    """The text that ``given`` stands for. Raises SayError."""
    if given is None or given == "-":
        stdin = stdin or sys.stdin.buffer
        if given is None and stdin.isatty():
            told = 'what is to be said? Give a text, a file or -: voice say "Hello." -o hello.mp3'
            raise SayError(told, 2)
        return _decoded(stdin.read(MOST_BYTES + 1), "standard input")
    if not _is_there(given):
        return _words(given)
    if Path(given).is_dir():
        raise SayError(f"{given}: is a folder: name a file in it", 2)
    try:
        with Path(given).open("rb") as file:
            return _decoded(file.read(MOST_BYTES + 1), given)
    except OSError as error:
        raise SayError(f"{given}: cannot be read: {error.strerror}") from error


def is_from(given: str | None, path: Path) -> bool:
    """``path`` is the file that ``given`` stands for."""
    return given is not None and _is_there(given) and path.exists() and path.samefile(given)


def _is_there(given: str) -> bool:
    try:
        return os.path.lexists(given)
    except ValueError:  # a NUL in it
        return False


def _words(given: str) -> str:
    """A text of the command line, unless it seems to be a file that is not there."""
    if _LIKE_A_PATH.fullmatch(given):
        told = f"{given}: there is no such file. If these are words to be said: echo '{given}' |"
        raise SayError(f"{told} voice say -", 2)
    return _checked(given, "the text")


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MOST_BYTES:
        raise SayError(f"{name}: has more than {MOST_BYTES >> 20} MiB: split it, by chapters say")
    for mark, (kind, way) in _CONTAINERS.items():
        if data.startswith(mark):
            told = f"{name}: is {kind}, not text: {way.format('FILE')} has its words said"
            raise SayError(told)
    encoding = _MARKS.get(data[:2], "utf-8-sig")
    if encoding == "utf-8-sig":
        _check_text(data[:_LOOKED_AT], name)
    try:
        return _checked(data.decode(encoding), name)
    except UnicodeDecodeError as error:
        odd_byte = f"byte {error.start} is {data[error.start]:#04x}"
        told = f"{name}: is not in UTF-8 ({odd_byte}): iconv -f LATIN1 -t UTF-8 makes it so, if"
        raise SayError(f"{told} it is text in Latin-1") from error


def _check_text(head: bytes, name: str) -> None:
    """Text has stray control characters at most."""
    odd = list(_BINARY_CONTROLS.finditer(head))
    if len(odd) > _MOST_CONTROLS * len(head):
        told = f"byte {odd[0].start()} is {odd[0][0][0]:#04x}"
        raise SayError(f"{name}: is no text ({told}): give plain text or Markdown")


def _checked(text: str, name: str) -> str:
    if not text.strip("\ufeff \t\r\n\f\v\x00"):
        raise SayError(f"{name}: is empty: there is nothing to be said")
    return text
