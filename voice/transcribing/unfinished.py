"""What has been heard of a file so far, on disk, so that a run that was stopped can go on.

It holds the recogniser's transcripts by the sound they are of, and not places in the file: going
on, the file is cut as it was before, and what the recogniser has heard already is not asked of it
again. So nothing can be lost or come twice, whatever was under way when the run was stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from engines.ports import Asr, AsrRequest, Transcript

_VERSION: Final = 1
_HEAD_BYTES: Final = 1 << 16

HIDDEN: Final = "#"
"""How the value of a setting begins that is no use to people, or nobody's business."""


class UnfinishedError(Exception):
    """What is there of an earlier run cannot be gone on with. The text says why."""


class Identity(Struct, frozen=True):
    """Which file it is, as far as can be told without reading all of it."""

    size: int
    modified_ns: int
    head: str

    @classmethod
    def of(cls, file: BinaryIO) -> Identity:
        """Of an open file, which is left at its beginning. Raises OSError."""
        told = os.fstat(file.fileno())
        file.seek(0)
        head = hashlib.blake2b(file.read(_HEAD_BYTES), digest_size=16).hexdigest()
        file.seek(0)
        return cls(told.st_size, told.st_mtime_ns, head)


class Beginning(Struct, frozen=True, tag="begun"):
    """The first line. ``settings``: those that what is heard depends on, by what people call
    them."""

    version: int
    identity: Identity
    settings: Mapping[str, str]


class Heard(Struct, frozen=True, tag="heard"):
    """A piece of the sound, and what the recogniser said."""

    sound: str
    transcript: Transcript


class Ending(Struct, frozen=True, tag="whole"):
    """The transcripts of the file, which is so long, have been written, all of them."""

    lasts_ms: int


_LINE: Final = msgspec.json.Decoder(Beginning | Heard | Ending)
_ENCODER: Final = msgspec.json.Encoder()


class Unfinished:
    """Of one file. Nothing is written before there is something to keep; a disk that takes no more
    costs the going on later, and nothing else: ``lost`` then says why."""

    def __init__(self, path: Path, identity: Identity, settings: Mapping[str, str]) -> None:
        self.path = path
        self.known: dict[str, Transcript] = {}
        self.whole_ms: int | None = None
        self.lost = ""
        self._beginning = Beginning(_VERSION, identity, settings)
        self._file: BinaryIO | None = None
        self._begun = False

    @classmethod
    def open(
        cls, path: Path, identity: Identity, settings: Mapping[str, str], *, resume: bool
    ) -> Unfinished:
        """What there is at ``path``, where ``resume`` says so; else it begins anew.

        Raises UnfinishedError where it is of another file, was heard otherwise, or where another
        run is at it.
        """
        unfinished = cls(path, identity, settings)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while not unfinished._has(path):
                unfinished._leave()
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                unfinished._file = os.fdopen(descriptor, "r+b", buffering=0)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            unfinished._leave()
            raise UnfinishedError("another `voice transcribe` is at this file") from None
        except OSError as error:
            unfinished._lose(error)
            return unfinished
        try:
            if resume:
                unfinished._read()
        except UnfinishedError:
            unfinished._leave()
            raise
        return unfinished

    def keep(self, sound: str, transcript: Transcript) -> None:
        """Remember what was heard."""
        self.known[sound] = transcript
        self._write(Heard(sound, transcript))

    def end(self, lasts_ms: int) -> None:
        """All transcripts of the file are written; what was heard is kept for other formats."""
        self.whole_ms = lasts_ms
        self._write(Ending(lasts_ms))

    def drop(self) -> None:
        """Nothing of it will be needed any more."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave it for a later run; where there is nothing in it, leave nothing."""
        if self._file is not None and not os.fstat(self._file.fileno()).st_size:
            self.path.unlink(missing_ok=True)
        self._leave()

    def _has(self, path: Path) -> bool:
        """The file that is open lies there: another run may just have done away with it."""
        with suppress(FileNotFoundError):
            file = self._file
            return file is not None and os.path.samestat(os.fstat(file.fileno()), path.stat())
        return False

    def _read(self) -> None:
        """All lines up to one that is broken: the run may have been killed in the middle of it."""
        assert self._file is not None
        read = 0
        for line in self._file.read().splitlines(keepends=True):
            try:
                told = _LINE.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            if not line.endswith(b"\n") or (not self._begun and not isinstance(told, Beginning)):
                break
            read += len(line)
            self._take(told)
        self._file.truncate(read)
        self._file.seek(read)

    def _take(self, told: Beginning | Heard | Ending) -> None:
        match told:
            case Beginning():
                _check(told, self._beginning)
                self._begun = True
            case Heard():
                self.known[told.sound] = told.transcript
            case Ending():
                self.whole_ms = told.lasts_ms

    def _write(self, line: Heard | Ending) -> None:
        if self._file is None:
            return
        lines = [line] if self._begun else [self._beginning, line]
        data = b"".join(_ENCODER.encode(each) + b"\n" for each in lines)
        try:
            if not self._begun:
                self._file.truncate(0)
            write_all(self._file, data)
        except OSError as error:
            self._lose(error)
        self._begun = True

    def _lose(self, error: OSError) -> None:
        """The disk takes no more: what is written of it stays as it is."""
        self.lost = f"{self.path}: {error.strerror or error}"
        self._leave()

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it to a file without a buffer, which may take a part of it only. Raises
    OSError."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[file.write(rest) :]


def _check(before: Beginning, now: Beginning) -> None:
    """Raises UnfinishedError where the two are not of the same."""
    if why := _difference(before, now):
        told = f"--resume cannot go on: {why}"
        raise UnfinishedError(f"{told}. Without --resume it is begun anew")


def _difference(before: Beginning, now: Beginning) -> str:
    if before.version != now.version:
        return "it was begun by another version of this program"
    if before.identity != now.identity:
        return "the file has changed since"
    for name in sorted({*before.settings, *now.settings}):
        was, wanted = (each.settings.get(name, "none") for each in (before, now))
        if was != wanted:
            told = "" if was.startswith(HIDDEN) else f", {was}, and now it is {wanted}"
            return f"it was begun with another {name}{told}"
    return ""


def clear(paths: Iterable[Path], folder: Path) -> None:
    """Nothing of these will be needed any more, but by a run that has just begun with one; nor the
    ``folder`` that they lie in, where nothing else is in it."""
    for path in paths:
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


class Remembering:
    """An ``engines.ports.Asr`` that asks another only what it has not heard before. ``told`` is
    called for each request that is, before it is."""

    def __init__(self, asr: Asr, kept: Unfinished, told: Callable[[], None]) -> None:
        self._asr = asr
        self._kept = kept
        self._told = told

    async def warm_up(self) -> None:
        """The other is warm."""

    async def close(self) -> None:
        """The other is closed by who has opened it."""

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        """See ``engines.ports.Engine``."""
        sound = key_of(request)
        if known := self._kept.known.get(sound):
            yield _one(known)
            return
        self._told()
        async with (
            self._asr.open(request) as transcripts,
            aclosing(self._noted(sound, transcripts)) as noted,
        ):
            yield noted

    async def _noted(
        self, sound: str, transcripts: AsyncIterator[Transcript]
    ) -> AsyncGenerator[Transcript, None]:
        async for transcript in transcripts:
            self._kept.keep(sound, transcript)
            yield transcript


def key_of(request: AsrRequest) -> str:
    """The same for the same sound that is asked for in the same way."""
    asked = msgspec.json.encode([request.language, request.prompt, request.word_times])
    return hashlib.blake2b(asked + request.pcm.to_bytes(), digest_size=16).hexdigest()


async def _one(transcript: Transcript) -> AsyncIterator[Transcript]:
    yield transcript
