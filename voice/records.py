"""What the house keeps of its calls: journals and recordings, as configured and asked for."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from pipelines.conversation.ports import Observer, Recorder
from pipelines.conversation.settings import TurnSettings
from voice import journal, recording
from voice.config import JournalConfig
from voice.disk import Disk

logger = logging.getLogger(__name__)

_DAY_S: Final = 86_400.0
_OURS: Final = re.compile(rf"\d{{8}}T\d{{6}}-.*({journal.SUFFIX}|{recording.SUFFIX})")


@dataclass(frozen=True, slots=True)
class Kept:
    """What reads and hears along with one call."""

    observers: tuple[Observer, ...] = ()
    recorder: Recorder | None = None


class Records:
    """Opens the files of each call; ``close`` waits until they are written."""

    def __init__(self, config: JournalConfig) -> None:
        self._journals = _folder(config.dir)
        self._recordings = _folder(config.recordings)
        self._record_all = config.record == "all"
        self._keep_days = config.keep_days
        self._tidied_at = -_DAY_S
        self._disk = Disk()

    @property
    def can_record(self) -> bool:
        """A call that asks to be recorded will be."""
        return self._recordings is not None

    @contextmanager
    def keep(self, call: str, rate: int, turns: TurnSettings, *, record: bool) -> Iterator[Kept]:
        """What is to be kept of a call, until the end of the context. ``rate``: of the caller's
        audio in Hz; ``turns``: the settings that the call begins with."""
        name = journal.name_of(call, datetime.now(UTC))
        self._tidy()
        with ExitStack() as stack:
            kept = Kept()
            if self._journals is not None:
                path = self._journals / (name + journal.SUFFIX)
                written = journal.Journal(self._disk, path, call, rate, turns)
                kept = Kept((stack.enter_context(closing(written)),))
            if self._recordings is not None and (record or self._record_all):
                path = self._recordings / (name + recording.SUFFIX)
                recorder = stack.enter_context(closing(recording.Recording(self._disk, path)))
                kept = Kept(kept.observers, recorder)
            yield kept

    def close(self) -> None:
        """Wait until all is written. No call may be open any more."""
        self._disk.close()

    def _tidy(self) -> None:
        """Once a day, in the disk's thread: delete what is too old."""
        now = asyncio.get_running_loop().time()
        if self._keep_days is None or now - self._tidied_at < _DAY_S:
            return
        self._tidied_at = now
        oldest = time.time() - self._keep_days * _DAY_S
        for folder in (self._journals, self._recordings):
            if folder is not None:
                self._disk.do(partial(_delete, folder, oldest))


def _folder(name: str | None) -> Path | None:
    return Path(name).expanduser() if name else None


def _delete(folder: Path, oldest: float) -> None:
    """Delete what calls have left in this folder and nobody has written to since ``oldest``."""
    for path in folder.glob("*"):
        try:
            if _OURS.fullmatch(path.name) and path.stat().st_mtime < oldest:
                path.unlink()
        except OSError as error:
            logger.warning("%s: cannot be deleted: %s", path, error.strerror)
