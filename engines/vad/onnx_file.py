"""The weights of an ONNX file, without a runtime: just enough of protobuf to find them.

An ONNX file is a protobuf message (onnx.proto3 of github.com/onnx/onnx): the model's field 7
is the graph, the graph's field 5 its initializers, each a tensor with its sizes (1), element
type (2), name (8) and little-endian bytes (9).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engines.ports import EngineError, FloatArray

_GRAPH, _INITIALIZER = 7, 5
_SIZES, _TYPE, _NAME, _BYTES = 1, 2, 8, 9
_FLOAT32 = 1
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


def read_initializers(path: Path) -> dict[str, FloatArray]:
    """The float32 initializers of the file's graph, by name.

    Raises EngineError where the file cannot be read as ONNX.
    """
    try:
        data = memoryview(path.read_bytes())
        tensors = [
            _tensor(tensor)
            for graph in _parts(data, _GRAPH)
            for tensor in _parts(graph, _INITIALIZER)
        ]
    except (OSError, ValueError, IndexError) as error:
        raise EngineError(
            "onnx", "failed", f"{path} cannot be read ({error}): pull the model again"
        ) from error
    return dict(tensor for tensor in tensors if tensor)


def _tensor(data: memoryview) -> tuple[str, FloatArray] | None:
    fields = list(_fields(data))
    if (_TYPE, _FLOAT32) not in fields:
        return None
    name = b"".join(_parts(data, _NAME)).decode()
    # Written one by one, or packed into one part.
    sizes = [value for field, value in fields if field == _SIZES and isinstance(value, int)]
    for packed in _parts(data, _SIZES):
        at = 0
        while at < len(packed):
            size, at = _varint(packed, at)
            sizes.append(size)
    return name, np.frombuffer(b"".join(_parts(data, _BYTES)), "<f4").reshape(sizes)


def _parts(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """The strings, bytes and messages in a field."""
    for field, value in _fields(message):
        if field == wanted and isinstance(value, memoryview):
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _DELIMITED:
            length, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"unknown wire type {kind}")
        if at + length > len(message):
            raise ValueError("it ends too early")
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number, 7 bits in a byte, lowest first; and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
