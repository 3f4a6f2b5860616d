"""How commands are told to stop."""

import signal
from collections.abc import Iterator

import pytest

from voice.background import stopped_by_signals


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_each_is_ctrl_c(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script has it that runs it behind itself
    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        signal.raise_signal(number)


def test_sigterm_is_as_before_behind_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopped_by_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
