"""The index: passages, their vectors and where they are from, in one SQLite file with sqlite-vec.

SQLite comes with apsw: many a Python has its own without a way to load extensions. An index is
written beside its place and put there whole, so what is read here never changes: whoever reads
looks now and then whether there is another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw
import numpy as np
import sqlite_vec

from engines.ports import EngineError, FloatArray
from pipelines.memory.settings import NAME

FORMAT: Final = 1
"""Of the tables."""

_CACHE_KIB: Final = 65_536
"""For 10,000 passages it is all of the vectors. The file is not mapped: a server would die of one
that somebody copies another over."""

COUNTS: Final = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages)"

_NEAREST: Final = """
SELECT documents.source, passages.place, passages.text, 1 - nearest.distance
FROM (SELECT rowid, distance FROM vectors WHERE vector MATCH ? AND k = ?) AS nearest
JOIN passages ON passages.id = nearest.rowid
JOIN documents ON documents.id = passages.document
ORDER BY nearest.distance
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that is like what was asked: ``score`` 1 is the same, 0 has nothing to do with it.
    ``source`` is its document's path in the folder, ``place`` where in it, in words."""

    source: str
    place: str
    text: str
    score: float


class Index:
    """An index that is read; for one thread at a time. Raises EngineError (``unavailable``) where
    it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with failures(path):
            try:
                self.identity = identity_of(path)
            except FileNotFoundError as error:
                raise _unusable(path, "is not there: make it by `voice index DIR`") from error
            where = f"file:{quote(str(path.absolute()))}?immutable=1"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            self._connection = connect(where, flags)
            self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            about = read_about(self._connection)
            if about.get("format") != str(FORMAT):
                raise _unusable(path, "is of another version: make it anew by `voice index`")
            self.model = about["model"]
            self.dimensions = int(about["dimensions"])

    @property
    def counts(self) -> tuple[int, int]:
        """Documents, and passages."""
        with failures(self.path):
            [(documents, passages)] = rows(self._connection, COUNTS)
        return documents, passages

    def nearest(self, vector: FloatArray, most: int) -> tuple[Found, ...]:
        """The passages that are most like ``vector`` (dimensions,), the best first."""
        with failures(self.path):
            raw = np.ascontiguousarray(vector, "<f4").tobytes()
            nearest = rows(self._connection, _NEAREST, (raw, most))
        return tuple(Found(*row) for row in nearest)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def connect(where: str, flags: int) -> apsw.Connection:
    """A connection that knows vectors."""
    connection = apsw.Connection(where, flags=flags)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    return connection


def rows(connection: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """All that a query gives."""
    return connection.execute(query, values).fetchall()


def read_about(connection: apsw.Connection) -> dict[str, str]:
    """What an index says of itself; nothing where it is none."""
    try:
        return dict(rows(connection, "SELECT name, value FROM about"))
    except apsw.SQLError:
        return {}


def identity_of(path: Path) -> tuple[int, int, int]:
    """What changes when another file is put in its place. Raises OSError."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """What goes wrong with the file, in words."""
    try:
        yield
    except apsw.FullError as error:
        raise EngineError(NAME, "failed", f"{path}: the disk is full: make room") from error
    except (BlockingIOError, apsw.BusyError) as error:
        raise EngineError(NAME, "failed", f"{path}: another `voice index` is writing it") from error
    except OSError as error:
        raise _unusable(path, f"cannot be read or written: {error.strerror}") from error
    except (apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError) as error:
        raise _unusable(path, f"cannot be read or written: {error}") from error
    except apsw.Error as error:
        raise _unusable(path, f"is no index ({error}): make it anew by `voice index`") from error


def _unusable(path: Path, told: str) -> EngineError:
    return EngineError(NAME, "unavailable", f"{path}: {told}")
