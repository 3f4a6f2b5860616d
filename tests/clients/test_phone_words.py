"""The strictness that all simulated carriers share."""

import numpy as np
import pytest

from clients.phone_words import CarrierError, at, linear, parsed, same, unlinear


@pytest.mark.parametrize("message", [b"{}", "", "[]", "nonsense"])
def test_only_objects_in_text_are_read(message: str | bytes) -> None:
    with pytest.raises(CarrierError):
        parsed(message, "X")


def test_values_are_found_by_their_path() -> None:
    assert at({"a": {"b": 1}}, "a", "b") == 1
    for path in (("a", "c"), ("x",), ("a", "b", "c")):
        with pytest.raises(CarrierError, match=r"\.".join(path)):
            at({"a": {"b": 1}}, *path)


def test_what_differs_is_named() -> None:
    same(1, 1, "x")
    with pytest.raises(CarrierError, match="the rate is 8, and should be 16"):
        same(8, 16, "the rate")


def test_linear_audio_in_either_order() -> None:
    samples = np.array([0x1234, -2], np.int16)
    assert linear(samples) == b"\x34\x12\xfe\xff"
    assert unlinear(linear(samples, ">"), ">").tolist() == samples.tolist()
    with pytest.raises(CarrierError, match="3 bytes"):
        unlinear(b"\0\0\0")
