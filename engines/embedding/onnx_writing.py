"""ONNX models written down from arrays, without the onnx package: the few messages of its format
that a graph of nodes and weights needs.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (field numbers), and
https://protobuf.dev/programming-guides/encoding/ (how fields are encoded).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

OPSET: Final = 17
"""The first with LayerNormalization."""

_IR_VERSION: Final = 8  # that of ONNX 1.12, which brought this opset
_TYPES: Final = {np.dtype(np.float32): 1, np.dtype(np.int32): 6, np.dtype(np.int64): 7}
_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a graph. ``dims``: numbers, or names for what varies."""

    name: str
    dtype: type[np.generic]
    dims: tuple[int | str, ...]


@dataclass(slots=True)
class Graph:
    """Nodes in their order, and the weights that they name."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]
    domains: Mapping[str, int] = field(default_factory=dict)
    """Of operators beside ONNX's own: the version of each set."""
    _parts: list[bytes] = field(default_factory=list)

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Keep an array under this name, which is given back."""
        dims = b"".join(_number(1, size) for size in values.shape)
        kind, raw = _number(2, _TYPES[values.dtype]), np.ascontiguousarray(values).tobytes()
        self._parts.append(_message(5, dims, kind, _text(8, name), _message(9, raw)))
        return name

    def node(
        self, kind: str, inputs: Iterable[str], *outputs: str, domain: str = "", **attributes: float
    ) -> str:
        """Append an operator; the name of its first output is given back. What is left out of its
        inputs is named by empty text."""
        parts = [
            *(_text(1, name) for name in inputs),
            *(_text(2, name) for name in outputs),
            _text(4, kind),
            *(_message(5, _attribute(*each)) for each in attributes.items()),
            _text(7, domain),
        ]
        self._parts.append(_message(1, *parts))
        return outputs[0]

    def model(self) -> bytes:
        """The bytes of its file."""
        ports = [*(_port(11, port) for port in self.inputs), *(_port(12, p) for p in self.outputs)]
        sets = {"": OPSET, **self.domains}
        return b"".join(
            (
                _number(1, _IR_VERSION),
                *(_message(8, _text(1, name), _number(2, sets[name])) for name in sets),
                _message(7, _text(2, "graph"), *self._parts, *ports),
            )
        )


def _port(number: int, port: Port) -> bytes:
    dims = [
        _message(1, _number(1, each) if isinstance(each, int) else _text(2, each))
        for each in port.dims
    ]
    tensor = _message(1, _number(1, _TYPES[np.dtype(port.dtype)]), _message(2, *dims))
    return _message(number, _text(1, port.name), _message(2, tensor))


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    number = _varint(2 << 3 | _FIXED32) + struct.pack("<f", value)
    return _text(1, name) + number + _number(20, _ATTRIBUTE_FLOAT)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, *parts: bytes) -> bytes:
    """A field that holds other fields, or bytes."""
    size = sum(map(len, parts))
    return b"".join((_varint(number << 3 | _BYTES), _varint(size), *parts))


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the low ones first; the top bit says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
