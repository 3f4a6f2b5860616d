"""What the VAD costs: microseconds for each window of each call, by the size of the batch.

    python -m loadtest.vad_bench

One thread each. onnxruntime runs the same model on the same windows, in turn with ours, so
that the ratio holds on a busy machine: once call by call, as it is commonly used, and once
with all calls in one batch.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from engines.models import ModelStore
from engines.vad import silero

CALLS = (1, 8, 16, 32, 64, 128)
FloatArray = NDArray[np.float32]


def onnx_step(path: Path, windows: FloatArray, *, batched: bool) -> Callable[[], None]:
    """The ONNX model over the same windows, with its states carried on."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    heard = np.concatenate([np.zeros((len(windows), 64), np.float32), windows], axis=1)
    group = len(windows) if batched else 1
    groups = [heard[i : i + group] for i in range(0, len(heard), group)]
    states = [np.zeros((2, group, 128), np.float32) for _ in groups]
    rate = np.array(16_000, np.int64)

    def step() -> None:
        for i, samples in enumerate(groups):
            feed = {"input": samples, "state": states[i], "sr": rate}
            _, states[i] = session.run(None, feed)

    return step


def best_us(step: Callable[[], object], rounds: int) -> float:
    """The shortest of many short runs: what it costs when nothing else has the core."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - began)
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=500, help="runs for each figure")
    rounds = parser.parse_args().rounds
    models = ModelStore()
    vad = silero.create(silero.Options(), models)
    onnx = models.path("silero-vad") / "silero_vad.onnx"
    noise = np.random.default_rng(0)
    print("us per stream-window   ours   onnx one by one   onnx in a batch   ratio to each")
    for calls in CALLS:
        slots = np.array([vad.open() for _ in range(calls)], np.intp)
        windows = noise.uniform(-0.3, 0.3, (calls, 512)).astype(np.float32)
        ours = best_us(functools.partial(vad.step, slots, windows), rounds) / calls
        single = best_us(onnx_step(onnx, windows, batched=False), rounds // 5) / calls
        batch = best_us(onnx_step(onnx, windows, batched=True), rounds // 5) / calls
        print(
            f"{calls:9d} calls {ours:12.1f} {single:17.1f} {batch:17.1f}"
            f"   {single / ours:5.1f} {batch / ours:5.1f}"
        )
        for slot in slots:
            vad.close(int(slot))


if __name__ == "__main__":
    main()
