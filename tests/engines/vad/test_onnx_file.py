"""Initializers come out of an ONNX file by name; what is not one is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.ports import EngineError
from engines.vad.onnx_file import read_initializers


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def part(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def tensor(name: str, array: np.ndarray, *, kind: int = 1, packed: bool = False) -> bytes:
    if packed:
        sizes = part(1, b"".join(varint(size) for size in array.shape))
    else:
        sizes = b"".join(number(1, size) for size in array.shape)
    return sizes + number(2, kind) + part(8, name.encode()) + part(9, array.tobytes())


def model(*tensors: bytes) -> bytes:
    """With a version before the graph, nodes before the tensors, and fixed-width fields."""
    nodes = part(1, b"node") + varint(9 << 3 | 5) + bytes(4) + varint(10 << 3 | 1) + bytes(8)
    graph = nodes + b"".join(part(5, data) for data in tensors)
    return number(1, 8) + part(7, graph)


def test_float_tensors_are_read_by_name_in_either_coding(tmp_path: Path) -> None:
    weight = np.arange(600, dtype="<f4").reshape(2, 300)
    bias = np.array([1.5], "<f4")
    counts = np.array([3], "<i8")
    path = tmp_path / "m.onnx"
    path.write_bytes(
        model(
            tensor("weight", weight, packed=True),
            tensor("counts", counts, kind=7),
            tensor("bias", bias),
        )
    )
    read = read_initializers(path)
    assert set(read) == {"weight", "bias"}
    np.testing.assert_array_equal(read["weight"], weight)
    np.testing.assert_array_equal(read["bias"], bias)


@pytest.mark.parametrize(
    "content",
    [
        model(tensor("w", np.zeros(5, "<f4")))[:-3],
        model(number(1, 6) + number(2, 1) + part(9, bytes(20))),
        b"\x3f",
        b"\xff",
    ],
    ids=["cut off", "sizes that do not fit", "unknown wire type", "half a number"],
)
def test_what_is_no_onnx_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"m\.onnx cannot be read"):
        read_initializers(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"gone\.onnx cannot be read"):
        read_initializers(tmp_path / "gone.onnx")
