"""Commands that take long: they give way to calls, and keep what is done when they are stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NICE: Final = 10


def give_way() -> None:
    """From now on, calls of a server on the same machine go before this process."""
    os.nice(_NICE)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM is Ctrl-C within, and Ctrl-C stops also what a script runs behind itself, where it
    would be ignored. In the main thread only."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
