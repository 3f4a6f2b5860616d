"""Files that are written while calls go on, in a thread, so that no call waits for a disk.

What cannot be written is told once and given up: a full disk must not end a call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final, Generic, Protocol, TypeVar

T = TypeVar("T", contravariant=True)

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 40
"""Batches of one file that may wait for the disk: 20 s of them, two a second."""


class Sink(Protocol[T]):
    """A file in its own format. Used in the disk's thread only."""

    def write(self, batch: T) -> None:
        """Write this behind all that was written before."""

    def close(self) -> None:
        """Nothing more will come."""


class Disk:
    """The thread that writes for all calls. One failure is told; the next only after something
    could be written again."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "disk")
        self._failing = False

    def do(self, work: Callable[[], None]) -> None:
        """Have this done in the thread, after all that was handed in before; never waits."""
        self._thread.submit(work)

    def close(self) -> None:
        """Wait until all is written; nothing can be handed in any more."""
        self._thread.shutdown()

    def went_well(self) -> None:
        """Something was written."""
        self._failing = False

    def failed(self, path: Path, error: Exception) -> None:
        """Something was not: the file ends here."""
        if not isinstance(error, OSError):
            logger.error("%s: its writing ended by a bug", path, exc_info=error)
        elif not self._failing:
            self._failing = True
            reason = error.strerror or error
            logger.warning("%s: cannot be written: %s; the call goes on without", path, reason)


class DiskFile(Generic[T]):
    """One file of one call. ``make`` gives its sink, in the disk's thread."""

    def __init__(self, disk: Disk, path: Path, make: Callable[[Path], Sink[T]]) -> None:
        self._disk = disk
        self._path = path
        self._make = make
        self._sink: Sink[T] | None = None
        self._handed_in = self._done = 0
        self._closed = self._broken = False

    @property
    def ended(self) -> bool:
        """Nothing more can be written: it is closed, or has failed."""
        return self._closed or self._broken

    def put(self, batch: T) -> None:
        """Have this written; never waits. Where the disk is too slow, the file ends: one with a
        hole would tell a wrong story."""
        if self.ended:
            return
        if self._handed_in - self._done >= MOST_WAITING:
            self._disk.failed(self._path, OSError(0, "the disk is too slow"))
            self.close()
            return
        self._handed_in += 1
        self._disk.do(lambda: self._write(batch))

    def close(self) -> None:
        """Have what waits written, and the file closed."""
        if not self._closed:
            self._closed = True
            self._disk.do(self._close)

    def _write(self, batch: T) -> None:
        try:
            if not self._broken:
                self._sink = self._sink or self._make(self._path)
                self._sink.write(batch)
                self._disk.went_well()
        except Exception as error:  # noqa: BLE001 - told there: nobody waits for this thread
            self._broken = True
            self._disk.failed(self._path, error)
            self._close()
        finally:
            self._done += 1

    def _close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is None:
            return
        try:
            sink.close()
        except Exception as error:  # noqa: BLE001 - told there: nobody waits for this thread
            self._disk.failed(self._path, error)


def create(path: Path) -> BinaryIO:
    """A new file that only the server's own user can read, in a folder made for it if need be.
    Raises OSError, also where the file is there already."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "w+b")
