"""The decoder on a GPU gives what it gives on a CPU, whatever the batch is padded to.

Where there is no GPU, its place is taken by what keeps the same rules: a graph replays the work
that was captured, on the tensors that were there then.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from engines.tts.snac import SnacDecoder
from engines.tts.snac_cuda import CudaStep
from engines.tts.snac_layers import COLUMNS, END, SOURCE, TARGET, StreamingSnac
from engines.tts.snac_weights import TINY, random_snac

pytestmark = pytest.mark.torch

FRAMES = np.random.default_rng(0).integers(0, 4096, (6, 80, 7))


def heard_on(device: str, voices: int, **how: bool) -> np.ndarray:
    decoder = SnacDecoder(random_snac(**TINY), slots=9, device=device, **how)
    slots = [decoder.open(seed) for seed in range(voices)]
    steps = [decoder.step(slots, list(step[:voices])) for step in FRAMES]
    return np.concatenate([np.stack(step) for step in steps], axis=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("how", [{"graphs": False}, {"graphs": True}, {"compiled": True}])
@pytest.mark.parametrize("voices", [1, 3, 9])
def test_it_is_that_of_the_cpu(voices: int, how: dict[str, bool]) -> None:
    assert np.abs(heard_on("cuda", voices, **how) - heard_on("cpu", voices)).max() <= 1e-4


# --- without a GPU --------------------------------------------------------------------------


class PretendedGraph:
    """Replays what was captured."""

    capturing: "PretendedGraph | None" = None
    replays = 0

    def __init__(self) -> None:
        self.work: Callable[[], None] = lambda: pytest.fail("nothing was captured")

    def replay(self) -> None:
        PretendedGraph.replays += 1
        self.work()


class PretendedStream:
    def __init__(self, device: Any = None) -> None: ...
    def wait_stream(self, other: Any) -> None: ...
    def record(self) -> None: ...
    def synchronize(self) -> None: ...


@contextmanager
def pretended_capture(graph: PretendedGraph, pool: Any, stream: Any) -> Iterator[None]:
    PretendedGraph.capturing = graph
    yield
    PretendedGraph.capturing = None


PRETENDED = {
    "Event": PretendedStream,
    "Stream": PretendedStream,
    "CUDAGraph": PretendedGraph,
    "graph": pretended_capture,
    "graph_pool_handle": object,
    "stream": nullcontext,
    "device": nullcontext,
    "current_stream": PretendedStream,
}


@pytest.fixture
def pretended_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    decode, empty = CudaStep._decode, torch.empty

    def decode_or_capture(*work: Any) -> None:
        if PretendedGraph.capturing is None:
            decode(*work)
        else:
            PretendedGraph.capturing.work = partial(decode, *work)

    for name, pretended in PRETENDED.items():
        monkeypatch.setattr(torch.cuda, name, pretended)
    monkeypatch.setattr(PretendedGraph, "replays", 0)
    monkeypatch.setattr(CudaStep, "_decode", decode_or_capture)
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **how: empty(*size, **how))


@pytest.mark.parametrize(
    ("voices", "graphs"), [(1, True), (3, False), (3, True), (9, True), (70, True)]
)
def test_padded_and_replayed_it_gives_the_same(
    pretended_cuda: None, voices: int, graphs: bool
) -> None:
    core = StreamingSnac(random_snac(**TINY), noise=True).eval()
    plain = torch.zeros(voices + 1, sum(core.state_sizes))
    padded = plain.clone()
    step = CudaStep(core, padded, voices, compiled=False, graphs=graphs)
    rows = np.zeros((voices, COLUMNS), np.int64)
    rows[:, [SOURCE, TARGET]] = np.arange(voices)[:, None]
    rows[:, END] = 3
    for _ in range(4):
        with torch.inference_mode():
            expected = core(plain, torch.from_numpy(rows), False).numpy()
        assert np.abs(step(rows, False) - expected).max() <= 1e-6
        rows += np.eye(COLUMNS, dtype=np.int64)[2]  # the next frame
    assert (PretendedGraph.replays > 0) == graphs
    assert torch.isfinite(padded).all()
