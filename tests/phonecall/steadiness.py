"""Whether the machine had time for a call: where it had none, gaps tell nothing about a server."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

LATE_MS: Final = 20.0
"""A thread that wakes so late would have held up a phone's packet, too."""
OTHERS: Final = 0.25
"""Of all CPUs' time that others may take; a server's loop waits behind their threads."""

_EVERY_S: Final = 0.01
_TICKS_S: Final = os.sysconf("SC_CLK_TCK")


class Steadiness:
    """Watches for as long as it is entered, in a process namespace whose processes are those of
    the call. ``complaint``: what was wrong; empty for nothing."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._late_ms = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._busy_s = self._own_s = self._began = 0.0
        self._others = 0.0

    def __enter__(self) -> Steadiness:
        self._began, self._busy_s, self._own_s = time.monotonic(), _busy_s(), _own_s()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        others_s = _busy_s() - self._busy_s - (_own_s() - self._own_s)
        lasted_s = time.monotonic() - self._began
        self._others = max(0.0, others_s) / lasted_s / (os.cpu_count() or 1)

    @property
    def complaint(self) -> str:
        return complaint(self._late_ms, self._others)

    def _watch(self) -> None:
        due = time.monotonic() + _EVERY_S
        while not self._over.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self._late_ms = max(self._late_ms, (now - due) * 1000)
            due = now + _EVERY_S


def complaint(late_ms: float, others: float) -> str:
    """What is wrong where a thread woke so late, and others took that part of the CPUs."""
    told = []
    if late_ms > LATE_MS:
        told.append(f"a thread woke {late_ms:.0f} ms late")
    if others > OTHERS:
        told.append(f"others took {others:.0%} of the CPUs")
    return " and ".join(told)


def _busy_s() -> float:
    """CPU seconds that the whole machine has spent: user, nice, system, interrupts, stolen."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS_S


def _own_s() -> float:
    """CPU seconds that the processes of this namespace have spent."""
    spent = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        spent += int(fields[11]) + int(fields[12])
    return spent / _TICKS_S
