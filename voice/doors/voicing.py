"""A call's audio in the format of its wire, both ways."""

from __future__ import annotations

from typing import Final

import numpy as np
import soxr

from engines.audio import Pcm, Samples, samples_of
from voice.wire import g711
from voice.wire.realtime_session import RealtimeAudioFormat, RealtimeAudioPCM, RealtimeAudioPCMU

PCM_RATE: Final = 24_000


def rate_of(form: RealtimeAudioFormat) -> int:
    """Samples a second on the wire."""
    return PCM_RATE if isinstance(form, RealtimeAudioPCM) else g711.RATE


def decode(data: bytes, form: RealtimeAudioFormat) -> Samples:
    """The wire's bytes as samples at ``rate_of(form)``. Raises ValueError on half a sample."""
    if isinstance(form, RealtimeAudioPCM):
        return samples_of(data)
    return g711.decode(data, _law(form))


class VoiceEncoder:
    """One reply's audio for the wire. Resampling keeps its state between pieces, so that their
    borders are not heard; ``finish`` gives what the filter holds back."""

    def __init__(self, form: RealtimeAudioFormat) -> None:
        self._form = form
        self._stream: soxr.ResampleStream | None = None

    def encode(self, pcm: Pcm) -> bytes:
        """The next piece; empty while the filter fills."""
        rate = rate_of(self._form)
        if pcm.rate == rate:
            return self._pack(pcm.samples)
        if self._stream is None:
            self._stream = soxr.ResampleStream(pcm.rate, rate, 1, dtype="int16", quality="MQ")
        return self._pack(self._stream.resample_chunk(pcm.samples))

    def finish(self) -> bytes:
        """The reply's last samples."""
        if self._stream is None:
            return b""
        stream, self._stream = self._stream, None
        return self._pack(stream.resample_chunk(np.zeros(0, np.int16), last=True))

    def _pack(self, samples: Samples) -> bytes:
        if isinstance(self._form, RealtimeAudioPCM):
            return Pcm(samples, PCM_RATE).to_bytes()
        return g711.encode(samples, _law(self._form))


def _law(form: RealtimeAudioFormat) -> g711.Law:
    return "mulaw" if isinstance(form, RealtimeAudioPCMU) else "alaw"
