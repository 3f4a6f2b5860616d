"""Speech as files: whole, streamable, and never rewritten."""

import builtins
import io
import struct
import sys
from typing import Any

import numpy as np
import pytest
import soundfile

from engines.audio import Pcm
from pipelines.media.reading import MediaError, open_media
from pipelines.media.writing import CONTENT_TYPES, RATE, Encoder

FILES = [form for form in CONTENT_TYPES if form != "pcm"]


def speechlike(seconds: float, rate: int = RATE) -> np.ndarray:
    """A tone that swells four times a second."""
    time = np.arange(int(seconds * rate)) / rate
    swell = 0.5 - 0.5 * np.cos(2 * np.pi * 4 * time)
    return (8_000 * swell * np.sin(2 * np.pi * 440 * time)).astype(np.int16)


def encoded(form: str, samples: np.ndarray, rate: int = RATE, size: int = 4_800) -> list[bytes]:
    encoder = Encoder(form)
    starts = range(0, len(samples), size)
    pieces = [encoder.encode(Pcm(samples[at : at + size], rate)) for at in starts]
    return [*pieces, encoder.finish()]


def decoded(data: bytes) -> np.ndarray:
    with open_media(io.BytesIO(data)) as media:
        return np.concatenate(list(media.blocks)).astype(np.float64)


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("rate", [24_000, 22_050])
def test_what_is_written_is_read(form: str, rate: int) -> None:
    heard = decoded(b"".join(encoded(form, speechlike(2, rate), rate)))
    wanted = speechlike(2, 16_000).astype(np.float64)
    assert len(wanted) <= len(heard) + 1 <= len(wanted) + 1_600  # encoders add up to 0.1 s
    length = 65_536
    spectra = np.fft.rfft(heard, length) * np.conj(np.fft.rfft(wanted[:28_000], length))
    delay = int(np.fft.irfft(spectra)[:3_000].argmax())
    aligned = heard[delay : delay + 28_000]
    assert np.corrcoef(aligned, wanted[: len(aligned)])[0, 1] > 0.99


@pytest.mark.parametrize("form", FILES)
def test_the_first_second_can_be_heard_before_the_rest_is_there(form: str) -> None:
    pieces = encoded(form, speechlike(4))
    begun = b"".join(pieces[:10])  # of 2 s
    assert len(decoded(begun)) > 16_000 * 0.9


def test_raw_samples_have_no_header() -> None:
    samples = speechlike(0.3)
    assert b"".join(encoded("pcm", samples)) == samples.astype("<i2").tobytes()


def test_a_streamed_wav_says_that_its_length_is_not_known() -> None:
    data = b"".join(encoded("wav", speechlike(0.2)))
    assert data[4:8] == data[40:44] == b"\xff\xff\xff\xff"
    assert len(data) == 44 + 2 * 4_800


@pytest.mark.parametrize("form", list(CONTENT_TYPES))
def test_a_file_of_nothing_ends(form: str) -> None:
    assert isinstance(Encoder(form).finish(), bytes)


def test_an_mp3_begins_with_sound_and_not_with_an_empty_table() -> None:
    data = b"".join(encoded("mp3", speechlike(1)))
    assert data[:2] == b"\xff\xf3"
    assert any(data[4:192])


def test_aac_without_what_makes_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MediaError, match=r"AAC needs a package.*pip install") as refused:
        Encoder("aac")
    assert refused.value.code == "unsupported"


@pytest.mark.parametrize("form", ["mp3", "opus", "flac", "wav"])
def test_all_else_needs_nothing_more(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_av(name: str, *args: Any, **options: Any) -> Any:
        assert name != "av"
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_av)
    assert len(b"".join(encoded(form, speechlike(1)))) > 1_000


@pytest.mark.parametrize("form", list(CONTENT_TYPES))
def test_the_same_sound_gives_the_same_bytes_however_it_comes(form: str) -> None:
    def written(size: int) -> bytes:
        encoder = Encoder(form, serial=0xCAFE)
        starts = range(0, len(samples), size)
        pieces = [encoder.encode(Pcm(samples[at : at + size], RATE)) for at in starts]
        return b"".join([*pieces, encoder.finish()])

    samples = speechlike(2.5)
    assert written(4_800) == written(7_001) == written(100_000)


def test_an_opus_stream_has_the_number_that_it_is_given() -> None:
    encoder = Encoder("opus", serial=0xCAFE)
    data = encoder.encode(Pcm(speechlike(1), RATE)) + encoder.finish()
    pages = data.split(b"OggS")[1:]
    assert {page[10:14] for page in pages} == {b"\xfe\xca\x00\x00"}
    assert len(decoded(data)) >= 16_000  # which checks each page's sum


@pytest.mark.parametrize("form", ["wav", "flac"])
def test_a_finished_file_says_how_long_it_is(form: str) -> None:
    encoder = Encoder(form)
    file = io.BytesIO(encoder.encode(Pcm(speechlike(1), 22_050)) + encoder.finish())
    encoder.tell_length(file)
    file.seek(0)
    assert soundfile.info(file).frames == RATE * RATE // 22_050
    if form == "wav":
        size = len(file.getvalue())
        header = struct.unpack_from("<I", file.getvalue(), 4) + struct.unpack_from(
            "<I", file.getvalue(), 40
        )
        assert header == (size - 8, size - 44)


@pytest.mark.parametrize("form", ["mp3", "opus", "aac", "pcm"])
def test_where_there_is_no_place_for_it_nothing_changes(form: str) -> None:
    encoder = Encoder(form)
    file = io.BytesIO(encoder.encode(Pcm(speechlike(1), RATE)) + encoder.finish())
    before = file.getvalue()
    encoder.tell_length(file)
    assert file.getvalue() == before


def test_a_wave_of_four_gibibytes_says_on_that_it_does_not_know() -> None:
    class Huge(io.BytesIO):
        def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
            return 2**32 if whence == io.SEEK_END else super().seek(offset, whence)

    encoder = Encoder("wav")
    file = Huge(encoder.encode(Pcm(speechlike(0.1), RATE)) + encoder.finish())
    before = file.getvalue()
    encoder.tell_length(file)
    assert file.getvalue() == before
