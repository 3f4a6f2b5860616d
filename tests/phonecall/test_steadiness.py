"""When a machine is too busy for a call to tell anything."""

import pytest

from tests.phonecall.steadiness import complaint


@pytest.mark.parametrize(
    ("late_ms", "others", "told"),
    [
        (20.0, 0.25, ""),
        (21.0, 0.1, "a thread woke 21 ms late"),
        (3.0, 0.5, "others took 50% of the CPUs"),
        (80.0, 0.9, "a thread woke 80 ms late and others took 90% of the CPUs"),
    ],
)
def test_it_says_what_was_wrong(late_ms: float, others: float, told: str) -> None:
    assert complaint(late_ms, others) == told
