"""An index that is being written: beside its place, a document at a time, put there when all is in.

What is begun and not put in place is a good beginning for the next time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import apsw

from engines.ports import EngineError, FloatArray
from pipelines.memory.passages import VERSION, Passage
from pipelines.memory.settings import NAME
from pipelines.memory.store import COUNTS, FORMAT, connect, failures, read_about, rows

PART: Final = ".part"

_CHUNK: Final = 1_024
"""Vectors that sqlite-vec keeps in one piece, which goes once all of them have gone."""

_PAGE_BYTES: Final = 16_384
"""Vectors are read a third faster than by SQLite's usual 4 KiB."""

_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE

_TABLES: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id),
    place TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX passages_of ON passages (document);
"""


@dataclass(frozen=True, slots=True)
class State:
    """What a document was like when it was read; ``digest`` is of its bytes, and empty where not
    all of its passages are in."""

    size: int
    changed_ns: int
    digest: str = ""


class Writing:
    """For one thread at a time, and one process: the next is told that it is being written. To be
    closed. Raises EngineError."""

    def __init__(self, path: Path, model: str, dimensions: int) -> None:
        self._path = path
        self._part = path.with_name(path.name + PART)
        self._vectors = f"USING vec0(vector float[{dimensions}] distance_metric=cosine)"
        about = {
            "format": str(FORMAT),
            "cut": str(VERSION),
            "model": model,
            "dimensions": str(dimensions),
        }
        with failures(self._part):
            if path.exists():
                _check_ours(path)
            self._lock = _locked(self._part)
            self._connection = _opened(self._part)
            try:
                self.anew = self._begin(about)
                """Why nothing of what there was can be used; empty where it can, or nothing was."""
            except BaseException:
                self.close()
                raise

    def known(self) -> dict[str, State]:
        """The documents that are in, by source."""
        query = "SELECT source, size, changed_ns, digest FROM documents"
        with failures(self._part):
            return {row[0]: State(*row[1:]) for row in rows(self._connection, query)}

    def counts(self) -> tuple[int, int]:
        """Documents, and passages."""
        with failures(self._part):
            [(documents, passages)] = rows(self._connection, COUNTS)
        return documents, passages

    def forget(self, sources: Iterable[str]) -> None:
        """Take documents out."""
        with failures(self._part), self._connection:
            for source in sources:
                self._forget(source)

    def begin(self, source: str) -> bool:
        """A document comes: what was of it goes. Whether there was anything."""
        with failures(self._part), self._connection:
            known = self._forget(source)
            insert = "INSERT INTO documents (source, size, changed_ns, digest) VALUES (?, 0, 0, '')"
            self._connection.execute(insert, (source,))
        return known

    def add(self, source: str, passages: Sequence[Passage], vectors: FloatArray) -> None:
        """More of a document that has begun."""
        with failures(self._part), self._connection:
            execute = self._connection.execute
            query = "SELECT id FROM documents WHERE source = ?"
            [(document,)] = rows(self._connection, query, (source,))
            for passage, vector in zip(passages, vectors.astype("<f4"), strict=True):
                insert = "INSERT INTO passages (document, place, text) VALUES (?, ?, ?)"
                execute(insert, (document, passage.place, passage.text))
                insert = "INSERT INTO vectors (rowid, vector) VALUES (?, ?)"
                execute(insert, (self._connection.last_insert_rowid(), vector.tobytes()))

    def finish(self, source: str, state: State) -> None:
        """A document is all in; or it was, and has changed its time and nothing else."""
        with failures(self._part), self._connection:
            update = "UPDATE documents SET size = ?, changed_ns = ?, digest = ? WHERE source = ?"
            values = (state.size, state.changed_ns, state.digest, source)
            self._connection.execute(update, values)

    def put_in_place(self) -> None:
        """All is in: whoever looks for the index finds this one from now on."""
        with failures(self._part):
            self._pack()
            self._connection.close()
            self._part.replace(self._path)  # while it is locked: nobody may write it there
            self._lock.close()

    def close(self) -> None:
        """Let go of the file; what is in stays for the next time."""
        self._connection.close()
        self._lock.close()

    def _begin(self, about: dict[str, str]) -> str:
        """With what there is: beside the index, or else in it. Why nothing of that is of use."""
        if not _is_whole(self._connection):
            self._clear()
        if not read_about(self._connection) and self._path.exists():
            _copy(self._path, self._connection)
        whole = _is_whole(self._connection)
        old = read_about(self._connection) if whole else {}
        if old != about:
            self._clear()
            self._start(about)
        return _fault(old, about) if whole else "it is damaged"

    def _clear(self) -> None:
        self._connection.close()
        os.truncate(self._part, 0)
        self._connection = _opened(self._part)

    def _start(self, about: dict[str, str]) -> None:
        """Begin with nothing."""
        with self._connection:
            self._connection.execute(_TABLES)
            self._connection.execute(f"CREATE VIRTUAL TABLE vectors {self._vectors}")
            insert = "INSERT INTO about (name, value) VALUES (?, ?)"
            self._connection.executemany(insert, about.items())

    def _forget(self, source: str) -> bool:
        execute = self._connection.execute
        of = "(SELECT id FROM documents WHERE source = ?)"
        query = f"SELECT id FROM passages WHERE document = {of}"
        ids = rows(self._connection, query, (source,))
        self._connection.executemany("DELETE FROM vectors WHERE rowid = ?", ids)
        execute(f"DELETE FROM passages WHERE document = {of}", (source,))
        execute("DELETE FROM documents WHERE source = ?", (source,))
        return self._connection.changes() > 0

    def _pack(self) -> None:
        """Give back the room of what has gone, where that is more than half."""
        execute = self._connection.execute
        [(chunks,)] = rows(self._connection, "SELECT count(*) FROM vectors_chunks")
        if chunks * _CHUNK > 2 * (self.counts()[1] + _CHUNK):
            with self._connection:
                execute("CREATE TEMP TABLE kept AS SELECT rowid AS id, vector FROM vectors")
                execute("DROP TABLE vectors")
                execute(f"CREATE VIRTUAL TABLE vectors {self._vectors}")
                execute("INSERT INTO vectors (rowid, vector) SELECT id, vector FROM kept")
                execute("DROP TABLE kept")
        [(free,)] = rows(self._connection, "PRAGMA freelist_count")
        [(pages,)] = rows(self._connection, "PRAGMA page_count")
        if 2 * free > pages:
            execute("VACUUM")


def _locked(part: Path) -> BinaryIO:
    """The file, which nobody else writes for as long as it is open. Raises BlockingIOError."""
    with ExitStack() as opened:
        file = opened.enter_context(part.open("ab"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if part.exists() and os.path.samestat(part.stat(), os.fstat(file.fileno())):
            opened.pop_all()
            return file
    return _locked(part)  # what was opened has been put in its place meanwhile


def _opened(part: Path) -> apsw.Connection:
    connection = connect(str(part), _FLAGS)
    connection.execute(f"PRAGMA locking_mode=EXCLUSIVE; PRAGMA page_size={_PAGE_BYTES}")
    return connection


def _is_whole(connection: apsw.Connection) -> bool:
    try:
        return rows(connection, "PRAGMA quick_check(1)") == [("ok",)]
    except (apsw.NotADBError, apsw.CorruptError):
        return False


def _copy(path: Path, connection: apsw.Connection) -> None:
    """All of an index, or nothing of it."""
    source = connect(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        with connection.backup("main", source, "main") as copying:
            copying.step()
    finally:
        source.close()


def _check_ours(path: Path) -> None:
    """Raises EngineError where it is a file of somebody's that is no index."""
    connection = connect(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        ours = bool(read_about(connection))
    except (apsw.NotADBError, apsw.CantOpenError, apsw.CorruptError):
        ours = False
    finally:
        connection.close()
    if not ours:
        told = f"{path}: is there and is no index: name another file by -o, or delete it"
        raise EngineError(NAME, "failed", told)


def _fault(old: dict[str, str], about: dict[str, str]) -> str:
    """Why an index that says ``old`` of itself is of no use to one that says ``about``."""
    if not old or old == about:
        return ""
    if (model := old.get("model")) != about["model"]:
        return f"its vectors are those of the model {model}"
    return "it is of another version"
