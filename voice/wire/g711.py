"""G.711, the two eight-bit codes of the telephone: mu-law and A-law (ITU-T G.711).

Both ways are table look-ups. The encoders follow from the decoders: of all 256 values, the one
nearest to the sample, found once for every 16-bit sample.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = Literal["mulaw", "alaw"]
RATE: Final = 8_000


def _decode_mulaw(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Inverted bits: sign, three of exponent, four of mantissa; biased by 33 in 14 bits."""
    inverted = ~codes & 0xFF
    exponent, mantissa = (inverted >> 4) & 7, inverted & 15
    magnitude = (((mantissa << 1) + 33) << exponent) - 33
    return np.where(inverted & 0x80, -magnitude, magnitude) << 2


def _decode_alaw(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Every other bit inverted: sign, three of exponent, four of mantissa; 13 bits."""
    even = codes ^ 0x55
    exponent, mantissa = (even >> 4) & 7, even & 15
    step = np.where(exponent, ((mantissa << 1) + 33) << np.maximum(exponent - 1, 0), 0)
    magnitude = np.where(exponent, step, (mantissa << 1) + 1)
    return np.where(even & 0x80, magnitude, -magnitude) << 3


def _encoder(values: NDArray[np.int16]) -> NDArray[np.uint8]:
    """For each of the 65,536 samples, as unsigned, the code of the nearest value."""
    order = np.argsort(values, kind="stable")
    ordered = values[order].astype(np.int32)
    borders = (ordered[1:] + ordered[:-1] + 1) // 2
    samples = np.arange(65_536).astype(np.uint16).view(np.int16).astype(np.int32)
    return order[np.searchsorted(borders, samples, side="right")].astype(np.uint8)


_CODES = np.arange(256, dtype=np.int32)
_DECODE: Final[dict[Law, NDArray[np.int16]]] = {
    "mulaw": _decode_mulaw(_CODES).astype(np.int16),
    "alaw": _decode_alaw(_CODES).astype(np.int16),
}
_ENCODE: Final[dict[Law, NDArray[np.uint8]]] = {
    law: _encoder(values) for law, values in _DECODE.items()
}


def decode(data: bytes, law: Law) -> NDArray[np.int16]:
    """Codes, one a sample, to samples (n,) int16."""
    return _DECODE[law][np.frombuffer(data, np.uint8)]


def encode(samples: NDArray[np.int16], law: Law) -> bytes:
    """Samples (n,) int16 to codes, one a sample."""
    return _ENCODE[law][samples.view(np.uint16)].tobytes()
