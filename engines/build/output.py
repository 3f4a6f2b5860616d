"""A folder that appears whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engines.build.steps import BuildError


@contextmanager
def new_folder(
    out: Path, *, force: bool, needed_bytes: int, reads: Iterable[Path] = ()
) -> Iterator[Path]:
    """An empty folder beside ``out``, which takes the place of ``out`` on leaving.

    Where the body raises, Ctrl-C included, it is removed, and ``out`` is as it was; a build that
    was killed leaves it, and the next one clears it. Raises BuildError, before anything is
    written, where ``out`` has content and ``force`` is not set, where that content is no model
    or holds what the build ``reads``, where another build makes ``out`` just now, and where its
    disk has no room for ``needed_bytes``.
    """
    out = Path(out).expanduser().resolve()
    _refuse_to_overwrite(out, force=force)
    for path in reads:
        _refuse_to_lose(path.expanduser().resolve(), out)
    with _disk_faults(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        _require_room(out.parent, needed_bytes)
        made = out.with_name(f".{out.name}.building")
        with _alone_in(made, out):
            try:
                yield made
                _move(made, out)
            finally:
                shutil.rmtree(made, ignore_errors=True)


def _refuse_to_overwrite(out: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise BuildError(f"{out} is a file: name a folder", "bad_request")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not force:
        raise BuildError(
            f"{out} is there already: name another folder, or say --force to replace it",
            "bad_request",
        )
    if not (out / "config.json").is_file():
        # --force is typed for an older build, and must not cost a home directory.
        raise BuildError(
            f"{out} holds no model (it has no config.json), so --force does not replace it: name "
            "another folder, or empty it first",
            "bad_request",
        )


def _refuse_to_lose(path: Path, out: Path) -> None:
    if out in (path, *path.parents):
        raise BuildError(
            f"{out} holds {path}, which the build reads, and would be replaced: name another "
            "folder",
            "bad_request",
        )


@contextmanager
def _alone_in(made: Path, out: Path) -> Iterator[None]:
    """Hold ``made``, empty. What is in it was left by a build that was killed: one that runs
    holds its lock, which the system takes back when a process ends, however it ends."""
    made.mkdir(exist_ok=True)
    held = os.open(made, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It may have been moved into place between those two.
            if not os.path.samestat(os.fstat(held), made.stat()):
                raise FileNotFoundError(f"{made} was moved")
        except OSError as error:
            raise BuildError(
                f"another build is making {out}, or its disk knows no locks ({error}): wait for "
                "it, or name another folder",
                "unavailable",
            ) from error
        for left in made.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(held)


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BuildError(
            f"{folder} has {free >> 20} MiB free, and the build writes up to {needed >> 20}: make "
            "room, or name a folder on another disk"
        )


def _move(made: Path, out: Path) -> None:
    old = made.with_name(f"{made.name}.old")
    if out.exists():
        # A folder with content cannot be renamed over: the old one steps aside for an instant.
        shutil.rmtree(old, ignore_errors=True)  # of a build that was killed in this instant
        out.rename(old)
    try:
        made.rename(out)
    except BaseException:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


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
