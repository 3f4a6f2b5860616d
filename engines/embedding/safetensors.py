"""Weights as safetensors keeps them (https://github.com/huggingface/safetensors, "Format"): the
length of a JSON header in eight bytes, the header, and all arrays one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from engines.ports import FloatArray

_MOST_HEADER: Final = 100_000_000  # that of the reference reader


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_floats(path: Path) -> dict[str, FloatArray]:
    """The float32 arrays of a file, by name, as views of it; others are left out. Raises OSError,
    and ValueError where it is no such file."""
    whole = np.memmap(path, np.uint8, mode="r")
    size = int.from_bytes(whole[:8].tobytes(), "little")
    if not 0 < size <= min(_MOST_HEADER, len(whole) - 8):
        raise ValueError("it is no safetensors file")
    header = msgspec.json.decode(whole[8 : 8 + size].tobytes(), type=dict[str, msgspec.Raw])
    header.pop("__metadata__", None)
    tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in header.items()}
    data = whole[8 + size :]
    return {
        name: data[slice(*tensor.data_offsets)].view(np.float32).reshape(tensor.shape)
        for name, tensor in tensors.items()
        if tensor.dtype == "F32"
    }
