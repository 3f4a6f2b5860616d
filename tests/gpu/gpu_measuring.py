"""One run of the bench: its time, its tables, and what it believes only once it is checked."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

LIMIT_S = 330.0


class Bench:
    """One run: its device, its time, and what it has found."""

    def __init__(self, device: str, size: Any) -> None:
        self.device, self.size = torch.device(device), size
        self.began = time.perf_counter()
        self.found: dict[str, Any] = {"limit_s": LIMIT_S, "tables": {}, "checks": {}}
        self.on_gpu = self.device.type == "cuda"

    @property
    def rounding(self) -> float:
        """What sums in 32 bits may differ by: GPUs choose their kernels by the batch's size."""
        return 1e-4 if self.on_gpu else 1e-5

    @property
    def left_s(self) -> float:
        return LIMIT_S - (time.perf_counter() - self.began)

    def has(self, seconds: float, what: str) -> bool:
        """Whether there is time for what takes so long; says what is left out where not."""
        if self.left_s < seconds:
            left = f"{self.left_s:.0f} s left, {seconds:.0f} wanted"
            say(f"  skipped for lack of time: {what} ({left})")
        return self.left_s >= seconds

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def check(self, what: str, error: float, limit: float) -> None:
        """Ends the run where ``error`` is above ``limit``, or no number."""
        fine = error <= limit
        self.found["checks"][what] = {"error": error, "limit": limit, "right": fine}
        say(f"  {'right' if fine else 'WRONG'}: {what}: {error:.1e} (at most {limit:.0e})")
        if not fine:
            self.write()
            sys.exit(f"{what} is wrong, so no time of it is of use")

    def table(self, name: str, columns: Sequence[str]) -> Callable[..., None]:
        """Prints the heading; gives a function that prints and keeps a row."""
        rows = self.found["tables"].setdefault(name, [])
        say(f"\n{name}\n" + "".join(f"{column:>{max(10, len(column) + 2)}}" for column in columns))

        def add(*values: Any) -> None:
            rows.append(dict(zip(columns, values, strict=True)))
            cells = zip(columns, map(shown, values), strict=True)
            say("".join(f"{value:>{max(10, len(column) + 2)}}" for column, value in cells))

        return add

    def median_ms(self, run: Callable[[], object]) -> float:
        """Of one run, each waited for."""
        for _ in range(3):
            run()
        took = []
        for _ in range(self.size.rounds):
            self.wait()
            began = time.perf_counter()
            run()
            self.wait()
            took.append(1000 * (time.perf_counter() - began))
        return statistics.median(took)

    def write(self) -> None:
        """To $OUT/bench.json, where OUT is set."""
        self.found["took_s"] = round(time.perf_counter() - self.began, 1)
        if folder := os.environ.get("OUT"):
            Path(folder, "bench.json").write_text(json.dumps(self.found, indent=2) + "\n")


def say(line: str) -> None:
    print(line, flush=True)


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def out_of_memory(what: str) -> Iterator[None]:
    """Says what did not fit, and goes on."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        say(f"  skipped for lack of memory: {what} ({str(error).splitlines()[0]})")
