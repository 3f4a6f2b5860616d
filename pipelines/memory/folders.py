"""What there is in a folder of documents."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.memory.documents import DocumentError, is_document


@dataclass(frozen=True, slots=True)
class Document:
    """A file of the folder; ``source`` is its path in there, with slashes."""

    source: str
    path: Path
    size: int
    changed_ns: int


@dataclass(slots=True)
class Folder:
    """Its documents, by source; what could not be reached, with the reason; and how many files
    there are that are no documents, by suffix."""

    documents: dict[str, Document] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)

    def may_have(self, source: str) -> bool:
        """A document is there, or may be there in what could not be reached."""
        if source in self.documents:
            return True
        return any(source == lost or source.startswith(f"{lost}/") for lost in self.failed)


def look_into(folder: Path) -> Folder:
    """All documents of a folder and those within, hidden ones aside; links to other folders are not
    followed. Raises DocumentError where it is none."""
    found = Folder()

    def lose(error: OSError) -> None:
        where = Path(str(error.filename))
        if where == folder:
            raise DocumentError(f"{folder}: cannot be read: {error.strerror}") from error
        found.failed[_source(folder, where)] = f"cannot be read: {error.strerror}"

    for root, folders, names in os.walk(folder, onerror=lose):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                _add(found, folder, Path(root, name))
    return found


def _add(found: Folder, folder: Path, path: Path) -> None:
    if not is_document(path):
        found.ignored[path.suffix.lower() or path.name] += 1
        return
    source = _source(folder, path)
    try:
        stat = path.stat()
    except OSError as error:
        found.failed[source] = f"cannot be read: {error.strerror}"
    else:
        found.documents[source] = Document(source, path, stat.st_size, stat.st_mtime_ns)


def _source(folder: Path, path: Path) -> str:
    text = path.relative_to(folder).as_posix()
    return text.encode("utf-8", "replace").decode("utf-8")
