"""Samples of a run: how many callers there are, what the server uses, what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from loadtest.figures import Sample
from loadtest.machine import Gpus, GpuState, ProcessState, Tree
from loadtest.scrape import Metrics, fetch

Total: TypeAlias = Callable[[Literal["open", "talking", "speaking"]], float]

KEPT: Final = (
    "antiphon_calls",
    "antiphon_engine_",
    "antiphon_strain",
    "antiphon_tts_",
)
"""Beginnings of the metrics that each sample keeps."""

_NOT_KEPT: Final = ("_bucket", "_sum", "_count", "_created")


class Watch:
    """Looks at a server: over HTTP at ``base``, and at its process where ``pid`` is known."""

    def __init__(self, base: str, pid: int | None, api_key: str | None = None) -> None:
        self.metrics: Metrics = {}
        self.gone = False
        self._base = base
        self._api_key = api_key
        self._tree = None if pid is None else Tree(pid)
        self._gpus = None if pid is None else Gpus()
        self._last: tuple[float, float] | None = None

    async def sample(self, at_s: float, total: Total) -> Sample:
        """What is so now. What the server does not answer stays as it was."""
        metrics, state, gpus = await asyncio.to_thread(self._look)
        self.metrics = metrics or self.metrics
        self.gone = self._tree is not None and state is None
        return Sample(
            at_s=round(at_s, 2),
            open=int(total("open")),
            talking=int(total("talking")),
            speaking=int(total("speaking")),
            cores=self._cores(at_s, state),
            rss_mb=None if state is None else state.rss_mb,
            gpus=gpus,
            gauges=_kept(metrics),
        )

    def _look(self) -> tuple[Metrics, ProcessState | None, list[GpuState]]:
        state = None if self._tree is None else self._tree.state()
        gpus = [] if self._gpus is None else self._gpus.state()
        return fetch(self._base, self._api_key), state, gpus

    def _cores(self, at_s: float, state: ProcessState | None) -> float | None:
        before, self._last = self._last, None if state is None else (at_s, state.cpu_s)
        if before is None or self._last is None or at_s <= before[0]:
            return None
        return round((self._last[1] - before[1]) / (at_s - before[0]), 3)


def _kept(metrics: Metrics) -> dict[str, float]:
    return {
        key: value
        for key, value in metrics.items()
        if key.startswith(KEPT) and not key.partition("{")[0].endswith(_NOT_KEPT)
    }
