"""Sound as a value: samples and the rate they were taken at, never one without the other.

Mono signed 16-bit is what every wire here carries, so it is what travels between storeys;
engines turn it into floats inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.int16]

FULL_SCALE = 32768.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in speech: ``at_ms`` after the start of the audio, the text has been said up to
    ``offset``, in characters."""

    offset: int
    at_ms: float


@dataclass(frozen=True, slots=True)
class Pcm:
    """Mono audio: ``samples`` (n,) int16 at ``rate`` Hz.

    ``marks``: in speech from a voice that can tell, the ends of its words, both numbers rising;
    offsets count in the whole text that was asked for. Whatever makes new samples drops them.
    """

    samples: Samples
    rate: int
    marks: tuple[Mark, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes, rate: int) -> Pcm:
        """Little-endian signed 16-bit bytes. Raises ValueError on an odd count."""
        return cls(samples_of(data), rate)

    @classmethod
    def from_floats(cls, samples: NDArray[np.floating], rate: int) -> Pcm:
        """Floats in [-1, 1]; what is beyond is clipped."""
        scaled = np.rint(np.clip(samples, -1.0, 1.0) * (FULL_SCALE - 1))
        return cls(scaled.astype(np.int16), rate)

    @classmethod
    def silence(cls, milliseconds: int, rate: int) -> Pcm:
        """Nothing, for so long."""
        return cls(np.zeros(milliseconds * rate // 1000, np.int16), rate)

    def to_bytes(self) -> bytes:
        """Little-endian signed 16-bit bytes."""
        return self.samples.astype("<i2", copy=False).tobytes()

    def floats(self) -> NDArray[np.float32]:
        """The samples as float32 in [-1, 1)."""
        return self.samples.astype(np.float32) / np.float32(FULL_SCALE)

    def part(self, start: int, stop: int | None = None) -> Pcm:
        """The samples from one to the other, with the marks among them."""
        start_ms, stop_ms = (1000.0 * (at or 0) / self.rate for at in (start, stop))
        marks = tuple(
            Mark(mark.offset, mark.at_ms - start_ms)
            for mark in self.marks
            if start_ms < mark.at_ms and (stop is None or mark.at_ms <= stop_ms)
        )
        return Pcm(self.samples[start:stop], self.rate, marks)

    @property
    def duration_ms(self) -> float:
        return 1000.0 * len(self.samples) / self.rate

    def __len__(self) -> int:
        return len(self.samples)


def samples_of(data: bytes) -> Samples:
    """Little-endian signed 16-bit bytes as samples. Raises ValueError on an odd count."""
    if len(data) % 2:
        raise ValueError(f"16-bit audio needs an even number of bytes, got {len(data)}")
    return np.frombuffer(data, "<i2")
