"""Settings and fixtures that all tests share."""

import asyncio
import importlib.util
import selectors
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# A shared machine may be slow at any moment, so no example has a deadline of its own.
settings.register_profile("ci", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("ci")

FAKE_NVML = Path(__file__).parent / "fakes" / "pynvml.py"


# --- time -----------------------------------------------------------------------------------


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

    Nothing waits for real, so a test of minutes takes milliseconds and always goes alike. Where
    even the next timer is missing, the test would wait for ever: that raises.
    """

    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__(_Jumping(self._jump))

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        self._now += seconds


class _Jumping(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("nothing will ever happen any more: the test waits in vain")
        self._jump(timeout)
        return []


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_clock: runs on a loop whose time jumps")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_clock"):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


# --- a VAD that needs no model --------------------------------------------------------------


class LoudnessVad:
    """Takes what is loud for speech. A window's probability is its peak, 1 from a tenth on."""

    rate = 16_000
    window_samples = 512

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.batches: list[int] = []
        self._opened = 0

    def twin(self) -> "LoudnessVad":
        return LoudnessVad()

    def follow(self, slot: int, windows: np.ndarray) -> np.ndarray:
        assert slot in self.slots
        return np.minimum(np.abs(windows).max(axis=1) * 10, 1).astype(np.float32)

    def open(self) -> int:
        self._opened += 1
        self.slots.add(self._opened)
        return self._opened

    def close(self, slot: int) -> None:
        self.slots.remove(slot)

    def step(self, slots: np.ndarray, windows: np.ndarray) -> np.ndarray:
        assert windows.shape == (len(slots), self.window_samples)
        assert len(set(slots.tolist())) == len(slots)
        assert self.slots.issuperset(slots.tolist())
        self.batches.append(len(slots))
        return np.minimum(np.abs(windows).max(axis=1) * 10, 1).astype(np.float32)


@pytest.fixture
def vad() -> LoudnessVad:
    return LoudnessVad()


@pytest.fixture
def run_virtually() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end on a loop of its own whose time jumps: for Hypothesis, whose
    examples each need one."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(coroutine)

    return run


# --- machines -------------------------------------------------------------------------------


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What ``import pynvml`` gives, a machine without a GPU until it is told to be another:
    ``nvml.pretend(gpus=[nvml.h200("1g.18gb")])``."""
    spec = importlib.util.spec_from_file_location("pynvml", FAKE_NVML)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tiny models lose by a second thread, and a sum over two is not that over one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
