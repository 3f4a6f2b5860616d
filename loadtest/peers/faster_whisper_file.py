"""A file heard by faster-whisper's batched pipeline, in its own environment: prints JSON.

Arguments: the folder of the model, the file, threads, compute type, beams, batch, language.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

PAGE_MB = 4096 / 1e6


class Memory:
    """What the process holds, in MB: ``before``, and the ``most`` until the context is left."""

    def __init__(self) -> None:
        self.before = self.most = resident_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, resident_mb())

    @property
    def above_mb(self) -> float:
        return self.most - self.before


def resident_mb() -> float:
    """Of this process, now; 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * PAGE_MB
    except OSError:
        return 0.0


def hear(whisper: Any, arguments: list[str]) -> dict[str, Any]:
    """What came of it, and what it cost, the loading of the model left out."""
    folder, file, threads, compute, beams, batch, language = arguments
    model = whisper.WhisperModel(
        folder, device="cpu", compute_type=compute, cpu_threads=int(threads)
    )
    pipeline = whisper.BatchedInferencePipeline(model)
    with Memory() as memory:
        began, cpu = time.perf_counter(), time.process_time()
        segments, _ = pipeline.transcribe(
            file, language=language, beam_size=int(beams), batch_size=int(batch)
        )
        text = " ".join(segment.text.strip() for segment in segments)
    return {
        "took_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "above_mb": memory.above_mb,
        "text": text,
    }


if __name__ == "__main__":
    import faster_whisper  # type: ignore[import-not-found]

    sys.stdout.write(json.dumps(hear(faster_whisper, sys.argv[1:])) + "\n")
