"""A folder that appears whole or not at all."""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engines.build.steps import BuildError


@contextmanager
def new_folder(out: Path, *, force: bool, needed_bytes: int) -> Iterator[Path]:
    """An empty folder beside ``out``, which takes the place of ``out`` on leaving.

    Where the body raises, Ctrl-C included, it is removed, and ``out`` is as it was. Raises
    BuildError, before anything is written, where ``out`` has content and ``force`` is not set,
    or where its disk has no room for ``needed_bytes``.
    """
    out = Path(out).expanduser().absolute()
    _refuse_to_overwrite(out, force=force)
    with _disk_faults(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        _require_room(out.parent, needed_bytes)
        made = out.with_name(f".{out.name}.building-{uuid.uuid4().hex[:8]}")
        try:
            made.mkdir()
            yield made
            _move(made, out)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _refuse_to_overwrite(out: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise BuildError(f"{out} is a file: name a folder", "bad_request")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise BuildError(
            f"{out} is there already: name another folder, or say --force to replace it",
            "bad_request",
        )


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BuildError(
            f"{folder} has {free >> 20} MiB free, and the build writes up to {needed >> 20}: make "
            "room, or name a folder on another disk"
        )


def _move(made: Path, out: Path) -> None:
    if not out.exists():
        made.rename(out)
        return
    # A folder with content cannot be renamed over: the old one steps aside for an instant.
    old = made.with_name(f"{made.name}.old")
    out.rename(old)
    try:
        made.rename(out)
    except BaseException:
        old.rename(out)
        raise
    shutil.rmtree(old)


@contextmanager
def _disk_faults(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f"the disk of {out} is full: make room"
        elif error.filename is None:
            raise
        else:
            what = f"cannot build {out}: {error}; see to it"
        raise BuildError(f"{what}, then build again; nothing half-made is left") from error
    except Exception as error:
        # safetensors has an exception of its own for every failure, of the disk too.
        if type(error).__name__ == "SafetensorError" and "os error 28" in str(error).lower():
            raise BuildError(
                f"the disk of {out} is full: make room, then build again; nothing half-made is left"
            ) from error
        raise
