"""Speech as the bytes of a file, piece by piece as it is made.

All formats have 24 kHz and one channel. Nothing that has been given out is written again, so
headers say of the length that it is not known, as the formats provide for; where the bytes lie in
a file, ``tell_length`` puts it in. MP3, Opus and FLAC are
made by libsndfile, AAC by FFmpeg, where PyAV is installed.
"""

from __future__ import annotations

import importlib
import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
import soundfile
import soxr

from engines.audio import Pcm, Samples
from engines.extras import how_to_install
from pipelines.media.reading import MediaError

RATE: Final = 24_000

CONTENT_TYPES: Final[Mapping[str, str]] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""By format. An Opus file is an Ogg file (RFC 7845, section 9)."""

_UNKNOWN: Final = 0xFFFF_FFFF
_WAV_RIFF, _WAV_DATA, _FLAC_SAMPLES = 4, 40, 21
"""Where headers say how long a file is: bytes in WAV; samples, in 36 bits, in FLAC (RFC 9639)."""
_PAGE_HEADER: Final = 27
_PIECE: Final = RATE // 5
_MP3_FRAME: Final = 192
"""Bytes of a frame at 64 kbit/s: 72 times as many bits as samples (MPEG-2, layer III)."""


class _Writer(Protocol):
    def write(self, samples: Samples) -> bytes: ...

    def close(self) -> bytes: ...


class Encoder:
    """One file. ``name`` is one of CONTENT_TYPES. Blocks for about a hundredth of the time that the
    audio lasts. Raises MediaError (``unsupported``) where what it needs is not installed.

    The same sound gives the same bytes, but for Opus: there each stream has a number, drawn by
    lot unless ``serial`` (32 bits) says which."""

    def __init__(self, name: str, serial: int | None = None) -> None:
        self._name = name
        self._writer = _WRITERS[name]() if serial is None or name != "opus" else _Numbered(serial)
        self._samples = 0
        self._stream: soxr.ResampleStream | None = None

    def encode(self, pcm: Pcm) -> bytes:
        """The next piece; empty while an encoder gathers."""
        if pcm.rate == RATE:
            return self._write(pcm.samples)
        if self._stream is None:
            self._stream = soxr.ResampleStream(pcm.rate, RATE, 1, dtype="int16", quality="HQ")
        return self._write(self._stream.resample_chunk(pcm.samples))

    def finish(self) -> bytes:
        """The end of the file."""
        rest = b""
        if self._stream is not None:
            rest = self._write(self._stream.resample_chunk(np.zeros(0, np.int16), last=True))
        return rest + self._writer.close()

    def tell_length(self, file: BinaryIO) -> None:
        """In a finished file, open for reading and writing: say in its header how long it is. WAV
        and FLAC have a place for it; a WAV of 4 GiB says on that it does not know."""
        size = file.seek(0, io.SEEK_END)
        if self._name == "wav" and size < _UNKNOWN:
            _put_at(file, _WAV_RIFF, struct.pack("<I", size - _WAV_RIFF - 4))
            _put_at(file, _WAV_DATA, struct.pack("<I", size - _WAV_DATA - 4))
        if self._name == "flac":
            file.seek(_FLAC_SAMPLES)
            whole = int.from_bytes(file.read(5), "big") >> 36 << 36 | self._samples
            _put_at(file, _FLAC_SAMPLES, whole.to_bytes(5, "big"))

    def _write(self, samples: Samples) -> bytes:
        self._samples += len(samples)
        pieces = range(0, len(samples), _PIECE)  # libsndfile keeps a whole write on the stack
        return b"".join(self._writer.write(samples[at : at + _PIECE]) for at in pieces)


def _put_at(file: BinaryIO, place: int, data: bytes) -> None:
    file.seek(place)
    file.write(data)


class _Raw:
    """Samples behind a header, which may be nothing."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def write(self, samples: Samples) -> bytes:
        header, self._header = self._header, b""
        return header + Pcm(samples, RATE).to_bytes()

    def close(self) -> bytes:
        return self._header


class _Sink(io.RawIOBase):
    """A file whose bytes are taken away as they are written; what goes back behind that is lost."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._taken = self._place = 0

    def take(self) -> bytes:
        taken, self._kept = bytes(self._kept), bytearray()
        self._taken += len(taken)
        return taken

    def write(self, data: Any) -> int:
        begin, length = self._place - self._taken, len(data)
        fresh = bytes(data)[max(0, -begin) :]
        at = max(0, begin)
        self._kept[at : at + len(fresh)] = fresh
        self._place += length
        return length

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.end}[whence]
        self._place = origin + offset
        return self._place

    def tell(self) -> int:
        return self._place

    @property
    def end(self) -> int:
        return self._taken + len(self._kept)

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        return 0  # libsndfile wants it to be there


class _Sndfile:
    def __init__(self, form: str, subtype: str, **options: Any) -> None:
        self._sink = _Sink()
        self._file = soundfile.SoundFile(
            self._sink, "w", RATE, 1, subtype=subtype, format=form, **options
        )

    def write(self, samples: Samples) -> bytes:
        self._file.write(samples)
        return self._sink.take()

    def close(self) -> bytes:
        self._file.close()
        return self._sink.take()


class _Numbered:
    """Opus in an Ogg stream of a given number, which is in every page, and so in its checksum."""

    def __init__(self, serial: int) -> None:
        self._inner = _Sndfile("OGG", "OPUS")
        self._serial = struct.pack("<I", serial)
        self._rest = b""

    def write(self, samples: Samples) -> bytes:
        return self._pages(self._inner.write(samples))

    def close(self) -> bytes:
        return self._pages(self._inner.close())

    def _pages(self, data: bytes) -> bytes:
        """Whole pages (RFC 3533, section 6); what is left waits for more."""
        data, pages = self._rest + data, []
        while len(data) >= _PAGE_HEADER:
            lengths = data[_PAGE_HEADER : _PAGE_HEADER + data[_PAGE_HEADER - 1]]
            size = _PAGE_HEADER + len(lengths) + sum(lengths)
            page = data[:14] + self._serial + data[18:22] + bytes(4) + data[26:size]
            pages.append(page[:22] + struct.pack("<I", _ogg_checksum(page)) + page[26:])
            data = data[size:]
        self._rest = data
        return b"".join(pages)


def _ogg_checksum(page: bytes) -> int:
    checksum = 0
    for byte in page:
        checksum = (checksum << 8 & 0xFFFF_FFFF) ^ _OGG_TABLE[checksum >> 24 ^ byte]
    return checksum


def _ogg_table() -> tuple[int, ...]:
    """CRC-32 of a byte in front: polynomial 04C11DB7, the highest bit first."""
    table = []
    for byte in range(256):
        rest = byte << 24
        for _ in range(8):
            rest = (rest << 1) ^ (0x1_04C1_1DB7 if rest & 0x8000_0000 else 0)
        table.append(rest)
    return tuple(table)


class _Mp3(_Sndfile):
    """At a constant bit rate: a variable one needs a table that can only be written at the end."""

    def __init__(self) -> None:
        super().__init__("MP3", "MPEG_LAYER_III", bitrate_mode="CONSTANT", compression_level=0.6)
        self._table = _MP3_FRAME  # the first frame is room for that table

    def write(self, samples: Samples) -> bytes:
        return self._without_table(super().write(samples))

    def close(self) -> bytes:
        return self._without_table(super().close())

    def _without_table(self, data: bytes) -> bytes:
        kept = data[self._table :]
        self._table -= len(data) - len(kept)
        return kept


class _Aac:
    """AAC in ADTS frames, which can be joined in anywhere."""

    def __init__(self) -> None:
        try:
            self._av: Any = importlib.import_module("av")
        except ImportError as error:
            told = f"AAC needs a package that is not installed: {how_to_install('files')}"
            raise MediaError("unsupported", told) from error
        self._sink = _Sink()
        self._container = self._av.open(self._sink, "w", format="adts")
        self._stream = self._container.add_stream("aac", rate=RATE, layout="mono")
        self._stream.bit_rate = 64_000

    def write(self, samples: Samples) -> bytes:
        floats = Pcm(samples, RATE).floats().reshape(1, -1)
        frame = self._av.AudioFrame.from_ndarray(floats, format="fltp", layout="mono")
        frame.rate = RATE
        self._container.mux(self._stream.encode(frame))
        return self._sink.take()

    def close(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()


def _wav() -> _Raw:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    return _Raw(
        struct.pack("<4sI4s", b"RIFF", _UNKNOWN, b"WAVE")
        + form
        + struct.pack("<4sI", b"data", _UNKNOWN)
    )


_OGG_TABLE: Final = _ogg_table()

_WRITERS: Final[Mapping[str, Callable[[], _Writer]]] = {
    "mp3": _Mp3,
    "opus": lambda: _Sndfile("OGG", "OPUS"),
    "aac": _Aac,
    "flac": lambda: _Sndfile("FLAC", "PCM_16"),
    "wav": _wav,
    "pcm": _Raw,
}
