"""A process that speaks as engines.diarization.worker does and tells nothing apart: the number of
speakers that it is asked for says what it is to do. Each answer names the process."""

import os
import sys
import threading

import msgspec
import numpy as np

from engines.diarization.worker import Done, Failed, Job, Setup

CRASH, FAIL, HANG = 6, 7, 8


def answer(job: Job) -> Done | Failed:
    if job.least == CRASH:
        os._exit(3)
    if job.least == FAIL:
        return Failed("failed", "it was asked to")
    if job.least == HANG:
        threading.Event().wait()
    samples = np.fromfile(job.path, np.int16)
    pid, most = os.getpid(), job.most or 0
    turns = [(f"{pid}", len(samples), int(samples[:1].sum())), ("bounds", job.least, most)]
    return Done(turns, turns[:1])


def tell(told: Done | Failed) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=Setup)
    useless = setup.recipe.device == "none"
    tell(Failed("unavailable", "no such device") if useless else Done())
    while line := sys.stdin.buffer.readline():
        tell(answer(msgspec.json.decode(line, type=Job)))


if __name__ == "__main__":
    main()
