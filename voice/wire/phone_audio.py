"""How samples lie in a carrier's bytes, and how bytes are cut into the frames that it wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from engines.audio import Pcm
from voice.wire import g711
from voice.wire.phone import PhoneWireError

Encoding: TypeAlias = Literal["mulaw", "alaw", "little", "big"]
"""G.711, or linear 16-bit samples in that byte order."""

_SILENCE: Final[dict[Encoding, bytes]] = {
    "mulaw": b"\xff",
    "alaw": b"\xd5",
    "little": b"\0",
    "big": b"\0",
}


@dataclass(frozen=True, slots=True)
class Coding:
    """One way to write mono samples, at ``rate`` Hz."""

    encoding: Encoding
    rate: int

    @property
    def bytes_a_sample(self) -> int:
        return 1 if self.encoding in ("mulaw", "alaw") else 2

    @property
    def silence(self) -> bytes:
        """The byte that silence is made of."""
        return _SILENCE[self.encoding]

    def bytes_of(self, milliseconds: int) -> int:
        return self.rate * milliseconds // 1000 * self.bytes_a_sample

    def decode(self, data: bytes) -> Pcm:
        """Raises PhoneWireError on half a sample."""
        if self.encoding == "mulaw" or self.encoding == "alaw":
            return Pcm(g711.decode(data, self.encoding), self.rate)
        if len(data) % 2:
            raise PhoneWireError(
                f"16-bit audio has an even number of bytes, and {len(data)} came. "
                "Have the carrier send the encoding that it announces."
            )
        pcm = Pcm.from_bytes(data, self.rate)
        return pcm if self.encoding == "little" else Pcm(pcm.samples.byteswap(), self.rate)

    def encode(self, pcm: Pcm) -> bytes:
        """Raises ValueError if ``pcm`` is at another rate: it would play at the wrong speed."""
        if pcm.rate != self.rate:
            raise ValueError(f"this leg plays {self.rate} Hz, and was given {pcm.rate} Hz")
        if self.encoding == "mulaw" or self.encoding == "alaw":
            return g711.encode(pcm.samples, self.encoding)
        if self.encoding == "little":
            return pcm.to_bytes()
        return pcm.samples.astype(">i2").tobytes()


_SURE: Final = 4.0
"""By so much smoother one byte order must be than the other."""


def order_of(data: bytes) -> Encoding | None:
    """The byte order in which these 16-bit samples are sound and not noise; None where that cannot
    be told, of silence for one. Read the wrong way round, neighbouring samples have nothing to do
    with each other. Of 20 ms of speech it was never wrong, at 8 and 16 kHz."""
    little = _roughness(data, "<i2")
    big = _roughness(data, ">i2")
    if little * _SURE < big:
        return "little"
    return "big" if big * _SURE < little else None


def _roughness(data: bytes, dtype: str) -> float:
    steps = np.diff(np.frombuffer(data[: len(data) // 2 * 2], dtype).astype(np.float64))
    return float(steps @ steps)


class Frames:
    """Cuts audio into frames of one size, and keeps what does not fill one for the next time."""

    def __init__(self, size: int, silence: bytes) -> None:
        self._size = size
        self._silence = silence
        self._rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The frames that are now whole."""
        data = self._rest + data
        whole = len(data) - len(data) % self._size
        self._rest = data[whole:]
        return [data[at : at + self._size] for at in range(0, whole, self._size)]

    def finish(self) -> list[bytes]:
        """What was kept, filled up with silence."""
        rest, self._rest = self._rest, b""
        return [rest.ljust(self._size, self._silence)] if rest else []

    def drop(self) -> None:
        """Forget what was kept."""
        self._rest = b""
