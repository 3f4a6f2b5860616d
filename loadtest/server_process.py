"""A server under test: its process, and what the kernel says of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO


class NotStarted(SystemExit):
    """A server that did not come up; the message holds its last words."""


class Server:
    """``voice serve`` with these arguments, on one core if one is named; ready once it is made.

    What it logs goes to ``log``, or to where this program's errors go. A key that stops this
    program does not stop it: that is done on leaving. Raises NotStarted.
    """

    def __init__(
        self, arguments: Sequence[str], core: int | None = None, log: IO[bytes] | None = None
    ) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "voice.cli", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [*command, "--set", "server.log_level=warning"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        assert self.process.stdout is not None
        ready = None
        try:
            ready = next((line for line in self.process.stdout if line.startswith("READY")), None)
        finally:
            if ready is None:  # it failed, or a key was pressed: nobody is left to end it
                self.process.kill()
                self.close()
        if ready is None:
            raise NotStarted(f"the server did not start{_last_words(log)}")
        self.port = int(ready.strip().rpartition(":")[2])
        self.ready_s = time.perf_counter() - began

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; by force where it does not end by itself."""
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def cpu_s(self) -> float:
        """CPU seconds so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def rss_mb(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _last_words(log: IO[bytes] | None) -> str:
    if log is None:
        return ""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return ":\n" + "\n".join(lines[-12:]) if lines else ""
