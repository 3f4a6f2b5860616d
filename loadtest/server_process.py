"""A server under test: its process, and what the kernel says of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


class Server:
    """``voice serve`` with these arguments, on one core if one is named; ready once it is made.

    Raises SystemExit where it does not start.
    """

    def __init__(self, arguments: Sequence[str], core: int | None = None) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "voice.cli", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [*command, "--set", "server.log_level=warning"],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        assert self.process.stdout is not None
        ready = next((line for line in self.process.stdout if line.startswith("READY")), None)
        if ready is None:
            raise SystemExit("the server did not start")
        self.port = int(ready.strip().rpartition(":")[2])
        self.ready_s = time.perf_counter() - began

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)

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
