"""The decoder's step on a GPU: batches padded to a few sizes, each size one CUDA graph.

A step launches some three hundred small kernels, which takes longer than they run; a graph
launches them as one. It replays fixed addresses, so what a batch consists of is copied into
place before, and its samples out of place after, both through pinned memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from engines.batching.policy import BUCKETS, bucket
from engines.tts.snac_layers import COLUMNS, SOURCE, TARGET, StreamingSnac

_REHEARSALS: Final = 3
"""Runs before a capture: they compile, choose kernels and get their workspaces."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """What batches of one size are run with: their rows and samples here and on the device."""

    rows_here: torch.Tensor
    rows: torch.Tensor
    audio: torch.Tensor
    audio_here: torch.Tensor
    done: torch.cuda.Event
    graph: torch.cuda.CUDAGraph | None


class CudaStep:
    """Runs ``core`` over ``states`` on their device. Rows that pad a batch use row ``spare``.

    Called with rows (n, COLUMNS) int64 it gives their samples (n, frame_samples). Nothing here
    lets products be rounded to TF32; where the process allows it, samples are exact to 1e-3.
    """

    def __init__(
        self,
        core: StreamingSnac,
        states: torch.Tensor,
        spare: int,
        *,
        compiled: bool,
        graphs: bool,
    ) -> None:
        self._core, self._states, self._spare = core, states, spare
        if compiled:
            # In place: a wrapper would have to be called instead of the module everywhere. The
            # second size makes the number of rows a variable, so that few kernels serve all.
            core.compile(fullgraph=True)
        self._stream = torch.cuda.Stream(states.device)  # type: ignore[no-untyped-call]
        pool = torch.cuda.graph_pool_handle() if graphs else None
        sizes = [size for size in BUCKETS if size <= bucket(spare)]
        with torch.inference_mode(), torch.cuda.device(states.device):
            # The largest first: the others then find room in its memory. None runs beside
            # another, and what they leave lies outside of it.
            self._lanes = {size: self._lane(size, pool) for size in reversed(sizes)}

    def __call__(self, rows: NDArray[np.int64], _steady: bool) -> NDArray[np.floating[Any]]:
        most = max(self._lanes)
        pieces = [self._run(rows[i : i + most]) for i in range(0, len(rows), most)]
        return np.concatenate(pieces)

    @torch.inference_mode()
    def _run(self, rows: NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        lane = self._lanes[bucket(len(rows))]
        here = lane.rows_here.numpy()
        here[: len(rows)], here[len(rows) :] = rows, self._padding()
        with torch.cuda.device(self._states.device), torch.cuda.stream(self._stream):
            lane.rows.copy_(lane.rows_here, non_blocking=True)
            if lane.graph is None:
                self._decode(lane.rows, lane.audio)
            else:
                lane.graph.replay()
            lane.audio_here.copy_(lane.audio, non_blocking=True)
            lane.done.record()
            lane.done.synchronize()
        decoded: NDArray[np.floating[Any]] = lane.audio_here.numpy()[: len(rows)].copy()
        return decoded

    def _decode(self, rows: torch.Tensor, audio: torch.Tensor) -> None:
        audio.copy_(self._core(self._states, rows, False))

    def _padding(self) -> NDArray[np.int64]:
        """A row whose voice ended before its first frame: all of it is masked."""
        row = np.zeros(COLUMNS, np.int64)
        row[[SOURCE, TARGET]] = self._spare
        return row

    def _lane(self, size: int, pool: Any) -> _Lane:
        device, dtype = self._states.device, self._states.dtype
        samples = self._core.frame_samples
        rows_here = torch.empty(size, COLUMNS, dtype=torch.int64, pin_memory=True)
        rows_here.numpy()[:] = self._padding()
        rows = rows_here.to(device)
        audio = torch.empty(size, samples, device=device, dtype=dtype)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_REHEARSALS):
                self._decode(rows, audio)
        self._stream.synchronize()
        graph = None
        if pool is not None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=self._stream):
                self._decode(rows, audio)
        return _Lane(
            rows_here=rows_here,
            rows=rows,
            audio=audio,
            audio_here=torch.empty(size, samples, dtype=dtype, pin_memory=True),
            done=torch.cuda.Event(),  # type: ignore[no-untyped-call]
            graph=graph,
        )
