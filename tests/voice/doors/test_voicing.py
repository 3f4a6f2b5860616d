"""Audio in the wire's formats, whole and without clicks however it is cut."""

import numpy as np
import pytest

from engines.audio import Pcm
from voice.doors.voicing import VoiceEncoder, decode, rate_of
from voice.wire import g711
from voice.wire.realtime_session import (
    RealtimeAudioFormat,
    RealtimeAudioPCM,
    RealtimeAudioPCMA,
    RealtimeAudioPCMU,
)

FORMATS = [
    (RealtimeAudioPCM(), 24_000),
    (RealtimeAudioPCMU(), 8_000),
    (RealtimeAudioPCMA(), 8_000),
]


def tone(rate: int, seconds: float = 1.0) -> Pcm:
    return Pcm.from_floats(0.5 * np.sin(2 * np.pi * 440 * np.arange(rate * seconds) / rate), rate)


def encode(form: RealtimeAudioFormat, *pieces: Pcm) -> bytes:
    encoder = VoiceEncoder(form)
    data = b"".join(map(encoder.encode, pieces)) + encoder.finish()
    assert encoder.finish() == b""
    return data


@pytest.mark.parametrize(("form", "rate"), FORMATS)
def test_a_format_has_its_rate_and_reads_what_it_writes(
    form: RealtimeAudioFormat, rate: int
) -> None:
    assert rate_of(form) == rate
    pcm = tone(rate)
    samples = decode(encode(form, pcm), form)
    assert samples.dtype == np.int16
    assert np.abs(samples.astype(int) - pcm.samples).max() <= 512


@pytest.mark.parametrize(("form", "rate"), FORMATS)
@pytest.mark.parametrize("voice_rate", [16_000, 22_050, 24_000, 44_100])
def test_any_voice_fits_any_wire(form: RealtimeAudioFormat, rate: int, voice_rate: int) -> None:
    samples = decode(encode(form, tone(voice_rate)), form).astype(float)
    assert len(samples) == pytest.approx(rate, abs=3)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    assert np.argmax(spectrum) == pytest.approx(440, abs=1)
    assert np.abs(samples).max() == pytest.approx(16_384, rel=0.05)


@pytest.mark.parametrize(("form", "rate"), FORMATS)
def test_how_a_reply_is_cut_is_not_heard(form: RealtimeAudioFormat, rate: int) -> None:
    voice = tone(22_050)
    whole = decode(encode(form, voice), form).astype(int)
    cuts = np.array_split(voice.samples, 37)
    pieces = decode(encode(form, *(Pcm(cut, 22_050) for cut in cuts)), form).astype(int)
    assert len(whole) == len(pieces)
    assert np.abs(whole - pieces).max() <= 1_100  # one step of G.711 at this level


def test_half_a_sample_is_refused_and_telephones_have_no_halves() -> None:
    with pytest.raises(ValueError, match="even number of bytes"):
        decode(b"abc", RealtimeAudioPCM())
    assert len(decode(b"abc", RealtimeAudioPCMU())) == 3
    assert decode(b"\xd5", RealtimeAudioPCMA()).tolist() == g711.decode(b"\xd5", "alaw").tolist()
