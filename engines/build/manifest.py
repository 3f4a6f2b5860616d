"""What a built folder consists of, byte by byte, and what it was made from.

A manifest holds no time and no machine's name: the same source, versions and seed on the same
kind of device give the same manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from engines.build.steps import BuildError, Quiet, Steps, step

MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_CHUNK: Final = 1 << 22
_WEIGHTS: Final = {".safetensors", ".bin", ".pt", ".pth", ".gguf"}
_PACKAGES: Final = ("antiphon", "nvidia-modelopt", "safetensors", "torch", "transformers")


class FileRecord(msgspec.Struct, frozen=True):
    """``size`` in bytes; ``sha256`` in hex."""

    size: int
    sha256: str


class Source(msgspec.Struct, frozen=True):
    """``name``: at the hub, or the folder as it was given; ``revision``: the hub's commit."""

    name: str
    revision: str
    files: dict[str, FileRecord]


class Calibration(msgspec.Struct, frozen=True):
    """What ranges were measured on. ``sha256`` is that of all token ids; ``texts`` says where
    they come from; ``generated``: how many of the ``tokens`` the model made itself."""

    texts: str
    sequences: int
    tokens: int
    generated: int
    seed: int
    sha256: str


class Fidelity(msgspec.Struct, frozen=True):
    """How the folder, read back from the disk, predicts next tokens against its source, on
    ``positions`` tokens that it was not calibrated on. ``mean_kl`` is the source's divergence
    from it, in nats; ``agreement`` the share of positions where both find the same likeliest."""

    sequences: int
    positions: int
    mean_kl: float
    worst_kl: float
    agreement: float


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """``kind`` is what serves it: ``orpheus`` or ``whisper``."""

    kind: str
    precision: str
    source: Source
    versions: dict[str, str]
    files: dict[str, FileRecord]
    fidelity: Fidelity
    calibration: Calibration | None = None
    format: int = msgspec.field(default=_FORMAT, name="manifest_format")


def verify_manifest(folder: Path, *, thorough: bool = True) -> Manifest | None:
    """The folder's manifest, once its files are found to be those it lists; None without one.

    Sizes alone are compared unless ``thorough``, which reads every byte. Raises EngineError for
    a file that is missing or altered, and for weights that the manifest does not know.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    manifest = _read(path)
    for name, record in manifest.files.items():
        _compare(folder / name, record, thorough=thorough)
    unknown = sorted({file.name for file in _weights_in(folder)} - manifest.files.keys())
    if unknown:
        raise BuildError(
            f"{folder / unknown[0]} is not of this build, and an engine might load it: move it "
            "elsewhere"
        )
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put it into the folder."""
    content = msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=2)
    (folder / MANIFEST).write_bytes(content + b"\n")


def record(files: Iterable[Path], what: str, steps: Steps | None = None) -> dict[str, FileRecord]:
    """Size and hash of each file, by name. Raises OSError."""
    steps = steps or Quiet()
    paths = sorted(files)
    with step(steps, what, "B", sum(path.stat().st_size for path in paths)):
        return {path.name: _record(path, steps) for path in paths}


def versions() -> dict[str, str]:
    """Of the packages that a build's outcome depends on, those that are installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _read(path: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise BuildError(f"{path} cannot be read ({error}): build the folder again") from error
    if manifest.format != _FORMAT:
        raise BuildError(
            f"{path} has the format {manifest.format}, and this version reads {_FORMAT}: build "
            "the folder again"
        )
    return manifest


def _compare(path: Path, wanted: FileRecord, *, thorough: bool) -> None:
    again = "build the folder again"
    try:
        size = path.stat().st_size
        if size != wanted.size:
            raise BuildError(f"{path} has {size} bytes, and was built with {wanted.size}: {again}")
        if thorough and (actual := _record(path, Quiet()).sha256) != wanted.sha256:
            raise BuildError(
                f"{path} is damaged or was altered: its sha256 is {actual}, and was built with "
                f"{wanted.sha256}: {again}"
            )
    except OSError as error:
        raise BuildError(f"{path} cannot be read ({error.strerror}): {again}") from error


def _record(path: Path, steps: Steps) -> FileRecord:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            steps.advance(len(chunk))
    return FileRecord(size, digest.hexdigest())


def _weights_in(folder: Path) -> Iterable[Path]:
    return (path for path in folder.iterdir() if path.suffix in _WEIGHTS)
