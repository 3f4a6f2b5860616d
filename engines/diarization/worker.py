"""The process that tells speakers apart: ``python -m engines.diarization.worker``.

It has a process of its own, since pyannote works for minutes in Python as much as in torch, which
a call would hear; since that can be stopped, and a thread cannot; and since its 600 MB go with it.
Lines of JSON come in on stdin: first a recipe, then a job at a time. Each is answered by one line
on stdout. The end of stdin is the end of the process, in the middle of a job, too.
"""

from __future__ import annotations

import ctypes
import io
import os
import queue
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from engines.diarization.assembly import Recipe, apply, assemble, is_too_short
from engines.extras import how_to_install

MODULE: Final = "engines.diarization.worker"
_MOST_CHARACTERS: Final = 500
_PR_SET_PDEATHSIG: Final = 1


class Setup(msgspec.Struct):
    """What to make, and how much later than all others the process may run."""

    recipe: Recipe
    niceness: int


class Job(msgspec.Struct):
    """A file of int16 at 16 kHz, and how many speak in it."""

    path: str
    least: int
    most: int | None


class Done(msgspec.Struct, tag="done"):
    """Turns as (speaker, start, end) in ms, in order; in ``exclusive`` one at a time speaks. Both
    are empty in the answer to a setup."""

    turns: list[tuple[str, int, int]] = []
    exclusive: list[tuple[str, int, int]] = []


class Failed(msgspec.Struct, tag="failed"):
    """An EngineError's code and message."""

    code: str
    message: str


Answer: TypeAlias = Done | Failed


def main() -> None:
    """Serve until stdin ends."""
    die_with_the_parent()
    tell, lines = _own_stdout(), _lines_of_stdin()
    setup = msgspec.json.decode(lines.get(), type=Setup)
    os.nice(setup.niceness)
    pipeline, answer = prepare(setup.recipe)
    tell(answer)
    while pipeline is not None:
        tell(answer_to(pipeline, msgspec.json.decode(lines.get(), type=Job)))


def prepare(recipe: Recipe) -> tuple[Any, Answer]:
    """The pipeline, None where it cannot be made."""
    try:
        return assemble(recipe), Done()
    except ImportError as error:
        told = f"{_reason(error)}: it needs pyannote.audio 4: {how_to_install('diarize')}"
    except Exception as error:  # noqa: BLE001 - of pyannote, torch, the hub's library, each its own
        told = _why_not(recipe, error)
    return None, Failed("unavailable", told)


def answer_to(pipeline: Any, job: Job) -> Answer:
    """Run it on one file."""
    try:
        if not os.path.getsize(job.path):  # which cannot be mapped
            return Done()
        # Not to be written to, and torch warns of what it could not write to.
        samples = np.memmap(job.path, np.int16, mode="c")
        if is_too_short(samples):
            return Done()
        turns, exclusive = apply(pipeline, samples, job.least, job.most)
    except Exception as error:  # noqa: BLE001 - told to whoever asked; the next job may do well
        return Failed("failed", f"the recording could not be worked on: {_reason(error)}")
    return Done(_turns(turns), _turns(exclusive))


def _turns(annotation: Any) -> list[tuple[str, int, int]]:
    """Of a ``pyannote.core.Annotation``, whose times are seconds."""
    return [
        (str(speaker), round(1000 * segment.start), round(1000 * segment.end))
        for segment, _, speaker in annotation.itertracks(yield_label=True)
    ]


def _why_not(recipe: Recipe, error: Exception) -> str:
    if "_torchaudio" in str(error):
        return (
            "torchaudio's native part does not fit the torch that is installed: install the build"
            " of torchaudio that goes with it, or remove lib/*.so from torchaudio's folder"
            f" ({_reason(error)})"
        )
    if not recipe.pipeline or Path(recipe.pipeline).exists():
        return f"the models cannot be loaded: {_reason(error)}"
    return (
        f"{recipe.pipeline} cannot be had from the hub: accept its conditions on its page there and"
        " log in (`hf auth login`), or name a folder with its files in diarization.pipeline"
        f" ({_reason(error)})"
    )


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_MOST_CHARACTERS]


def die_with_the_parent() -> None:
    """A process that stands still (SIGSTOP) would never see its stdin end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _own_stdout() -> Callable[[Answer], None]:
    """Takes stdout for the answers, and gives whatever prints stderr in its place."""
    descriptor = os.dup(1)
    os.dup2(2, 1)

    def tell(answer: Answer) -> None:
        os.write(descriptor, msgspec.json.encode(answer) + b"\n")

    return tell


def _lines_of_stdin() -> queue.SimpleQueue[bytes]:
    """What comes, read in a thread, so that its end is seen at any time."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        # Unbuffered: a thread that waits inside a buffer keeps the interpreter from ending.
        for line in io.FileIO(0, closefd=False):
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines


if __name__ == "__main__":
    main()
