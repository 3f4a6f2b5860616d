"""Any file with sound in it as 16 kHz mono, a few seconds at a time.

WAV is read by libsndfile, all else (MP3, MP4, WebM, ...) by FFmpeg, where PyAV is installed; where
it is not, libsndfile reads FLAC, Ogg and MP3, too. What a file is, is told by its content; its name
is not looked at. Files come from strangers: FFmpeg may open nothing but the file itself, and only
demuxers of plain containers are let near it, since a playlist could name any file of this machine.
"""

from __future__ import annotations

import importlib
import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import numpy as np
import soundfile
import soxr

from engines.audio import Pcm, Samples
from engines.extras import how_to_install
from engines.ports import FloatArray

RATE: Final = 16_000
SLOWEST_HZ: Final = 2_000
FASTEST_HZ: Final = 768_000

_BLOCK_S: Final = 4
_BLOCK_VALUES: Final = 1 << 20
"""Samples of all channels that are held at a time: 4 MB."""

_WAVES: Final = (b"RIFF", b"RF64", b"FORM", b"riff")
_SNDFILE: Final = ("WAV", "WAVEX", "RF64", "W64", "FLAC", "OGG", "MP3", "AIFF", "AU", "CAF")
_DEMUXERS: Final = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta"
    ",w64,wav,wv"
)
_INDEXED: Final = ("mov", "matroska", "avi", "asf", "flv", "flac")
"""Containers that say truly how long they are."""

_TIMED: Final = ("mov", "matroska", "asf", "flv", "mpegts", "mpeg")
"""Containers whose packets have times of their own, and not the sum of those before them."""

_LEAST_GAP_S: Final = 0.25
_MOST_GAP_S: Final = 3_600.0
"""Longer ones, as any that end behind the file, are a clock that was set anew, or damage."""

_BROKEN: Final = (
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    ValueError,
)
"""What PyAV raises of damaged files, beside FFmpeg's own errors."""

_MOST_BAD: Final = 0.05
"""The part of the packets that may be unreadable: a scratch, and not the wrong file."""

_STREAMED: Final = 0x7FFF_0000
"""A RIFF header from here on says that its length was not known yet."""

_SLACK_BYTES: Final = 4_096


class MediaError(Exception):
    """A file cannot be heard. ``code`` is ``empty``, ``unreadable``, ``no_sound``, ``truncated``,
    ``too_long``, ``bad_rate`` or ``unsupported``; the text says what is wrong with it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Media:
    """A file that is open. ``declared_s``: how long it says it is, None where it does not;
    ``seems_s``: the same where it does, else a guess by its bit rate, where there is one.
    ``blocks``: mono int16 (n,) at 16 kHz, at most some seconds each, read as they are asked for.
    Iterating raises MediaError."""

    container: str
    rate: int
    channels: int
    declared_s: float | None
    seems_s: float | None
    blocks: Iterator[Samples]


@contextmanager
def open_media(file: BinaryIO, most_s: float = float("inf")) -> Iterator[Media]:
    """The sound in ``file``, which can be sought in and stays open. All of it blocks: use it in one
    thread at a time. Raises MediaError, ``too_long`` for what is, or says it is, above ``most_s``,
    and OSError, as iterating does, where the disk gives less than there is.
    """
    size = file.seek(0, io.SEEK_END)
    if not size:
        raise MediaError("empty", "The file is empty: it has no bytes.")
    file.seek(0)
    head = file.read(12)
    file.seek(0)
    noting = _Noting(file)
    with noting.told(), _opened(noting) as media:
        _check_whole(head, size)
        _check_length(media.declared_s, most_s)
        blocks = _bounded(media.blocks, most_s, noting)
        yield replace(media, blocks=blocks)


class _Noting:
    """A file, for libraries that take an error of the disk for the end of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._error: OSError | None = None
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int = -1) -> bytes:
        try:
            return self._file.read(count)
        except OSError as error:
            self._error = error
            return b""

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raises the error once what is within is over, and not what came of it."""
        try:
            yield
        except MediaError:
            if self._error is None:
                raise
        if self._error is not None:
            raise self._error


@contextmanager
def _opened(file: Any) -> Iterator[Media]:
    av = _ffmpeg()
    if av is not None and file.read(4) not in _WAVES:
        with _opened_by_ffmpeg(av, file) as media:
            yield media
        return
    file.seek(0)
    try:
        sound = soundfile.SoundFile(file)
    except (soundfile.LibsndfileError, TypeError) as error:
        if "SF_INFO" in str(error):  # a header without a rate or without channels
            told = "The file's header says that it has no samples a second, or no channels."
            raise MediaError("bad_rate", told) from error
        if av is None:
            told = "The file is no WAV, FLAC, Ogg or MP3, or damaged; to read others, what does"
            how = f"{told} is not installed: {how_to_install('files')}"
            raise MediaError("unsupported", how) from error
        with _opened_by_ffmpeg(av, file) as media:
            yield media
        return
    with sound:
        if sound.format not in _SNDFILE:
            raise _unsupported(sound.format)
        _check_rate(sound.samplerate)
        declared_s = sound.frames / sound.samplerate
        blocks = _read(sound)
        yield Media(sound.format, sound.samplerate, sound.channels, declared_s, declared_s, blocks)


def _read(sound: Any) -> Iterator[Samples]:
    resampling = _Resampling(sound.samplerate)
    frames = max(1, min(_BLOCK_S * sound.samplerate, _BLOCK_VALUES // sound.channels))
    try:
        while len(block := sound.read(frames, dtype="float32", always_2d=True)):
            yield from resampling.feed(block.mean(axis=1))
    except soundfile.LibsndfileError as error:
        raise MediaError("unreadable", f"The file is damaged: {_reason(error)}") from error
    yield from resampling.finish()


class _Resampling:
    """To 16 kHz, keeping its state between blocks."""

    def __init__(self, rate: int) -> None:
        self._stream = None if rate == RATE else soxr.ResampleStream(rate, RATE, 1, quality="HQ")

    def feed(self, block: FloatArray) -> Iterator[Samples]:
        """The next block (n,) of floats."""
        block = np.nan_to_num(block, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        if self._stream is not None:
            block = self._stream.resample_chunk(block)
        if len(block):
            yield Pcm.from_floats(block, RATE).samples

    def finish(self) -> Iterator[Samples]:
        """What the filter has held back."""
        if self._stream is not None:
            rest = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
            if len(rest):
                yield Pcm.from_floats(rest, RATE).samples


def _ffmpeg() -> Any:
    """PyAV, None where it is not installed."""
    try:
        return importlib.import_module("av")
    except ImportError:
        return None


@contextmanager
def _opened_by_ffmpeg(av: Any, file: Any) -> Iterator[Media]:
    file.seek(0)
    options = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}
    try:
        container = av.open(file, "r", options=options, metadata_errors="ignore")
    except (av.FFmpegError, *_BROKEN) as error:
        told = "The file is of no format that is known here, or its beginning is damaged"
        raise MediaError("unreadable", f"{told}: {_reason(error)}") from error
    with container:
        name = container.format.name.partition(",")[0]
        if not container.streams.audio:
            told = "there is video in it and no audio" if container.streams.video else "it is empty"
            raise MediaError("no_sound", f"The file has no sound: {told}.")
        stream = container.streams.audio[0]
        if stream.codec_context is None:
            told = "The file's sound is coded in no known way, or its header is damaged."
            raise MediaError("unreadable", told)
        _check_rate(stream.rate or 0)
        seems_s = container.duration / 1e6 if container.duration else None
        declared_s = seems_s if name in _INDEXED else None
        blocks = _Decoding(av, container, stream, declared_s).blocks()
        yield Media(name, stream.rate, stream.channels, declared_s, seems_s, blocks)


class _Decoding:
    """All of a sound track that can be decoded; a few packets may be bad. Where its times leave a
    gap, or begin late, there is silence, so that what is said stands where a film shows it."""

    def __init__(self, av: Any, container: Any, stream: Any, declared_s: float | None) -> None:
        self._av = av
        self._container = container
        self._stream = stream
        self._declared_s = declared_s
        self._mix = _Mix(av)
        self._given = self._packets = self._bad = 0
        self._begins_s = (container.start_time or 0) / 1e6
        self._most_s = (container.duration or math.inf) / 1e6
        self._ends_s = 0.0

    def blocks(self) -> Iterator[Samples]:
        gathered, count = list[Samples](), 0
        for sound in self._sounds():
            gathered.append(sound)
            count += len(sound)
            if count >= _BLOCK_S * RATE:
                yield np.concatenate(gathered)
                gathered, count = [], 0
        has_s = max(self._given / RATE, self._ends_s)
        _check_decoded(has_s, self._packets, self._bad, self._declared_s)
        yield np.concatenate([np.zeros(0, np.int16), *gathered])

    def _sounds(self) -> Iterator[Samples]:
        container = self._container
        try:
            # Pictures, too, since a film says how long it is as a whole.
            for packet in container.demux([self._stream, *container.streams.video]):
                self._ends_s = max(self._ends_s, _end_s(packet) - self._begins_s)
                if packet.stream_index == self._stream.index:
                    for sound in self._sounds_of(packet):
                        self._given += len(sound)
                        yield sound
            yield from self._mix.finish()
        except (self._av.FFmpegError, *_BROKEN) as error:
            raise MediaError("unreadable", f"The file is damaged: {_reason(error)}") from error

    def _sounds_of(self, packet: Any) -> Iterator[Samples]:
        self._packets += 1
        try:
            for frame in packet.decode():
                yield from self._gap_before(frame)
                yield from self._mix.feed(frame)
        except self._av.FFmpegError:
            self._bad += 1

    def _gap_before(self, frame: Any) -> Iterator[Samples]:
        if frame.time is None or self._container.format.name.partition(",")[0] not in _TIMED:
            return
        at_s = frame.time - self._begins_s
        gap_s = at_s - self._given / RATE
        if _LEAST_GAP_S < gap_s < _MOST_GAP_S and at_s < self._most_s:
            for _ in range(int(gap_s)):
                yield np.zeros(RATE, np.int16)
            yield np.zeros(int(gap_s % 1 * RATE), np.int16)


def _end_s(packet: Any) -> float:
    """Of one that has no times, the beginning."""
    if packet.pts is None or packet.time_base is None:
        return 0.0
    return float((packet.pts + (packet.duration or 0)) * packet.time_base)


class _Mix:
    """Decoded frames to 16 kHz mono. What they are like may change within a file."""

    def __init__(self, av: Any) -> None:
        self._av = av
        self._kind: tuple[str, str, int] | None = None
        self._resampler: Any = None

    def feed(self, frame: Any) -> list[Samples]:
        """The next frame. Raises MediaError where nobody can hear its rate."""
        kind, rest = (frame.format.name, frame.layout.name, frame.sample_rate), list[Samples]()
        if kind != self._kind:
            _check_rate(frame.sample_rate)
            rest = self.finish()
            self._kind = kind
            self._resampler = self._av.AudioResampler(format="s16", layout="mono", rate=RATE)
        return rest + self._resampled(frame)

    def finish(self) -> list[Samples]:
        """What was held back."""
        return self._resampled(None) if self._resampler is not None else []

    def _resampled(self, frame: Any) -> list[Samples]:
        return [each.to_ndarray().reshape(-1) for each in self._resampler.resample(frame)]


def _check_decoded(has_s: float, packets: int, bad: int, declared_s: float | None) -> None:
    if bad > max(1, _MOST_BAD * packets):
        told = f"The file is damaged: {bad} of its {packets} packets of sound cannot be decoded."
        raise MediaError("unreadable", told)
    if declared_s is not None and has_s < declared_s - 1 and has_s < 0.95 * declared_s:
        raise _truncated(f"it says that it has {declared_s:.1f} s, and {has_s:.1f} s are there")


def _check_whole(head: bytes, size: int) -> None:
    """Of a WAV file: is all there that its header promises?"""
    if head[:4] != b"RIFF" or len(head) < 12:
        return
    promised = struct.unpack("<I", head[4:8])[0] + 8
    if size + _SLACK_BYTES < promised < _STREAMED:
        raise _truncated(f"its header says that it has {promised} bytes, and {size} are there")


def _check_rate(rate: int) -> None:
    if not SLOWEST_HZ <= rate <= FASTEST_HZ:
        told = f"The file says that it has {rate} samples a second; {SLOWEST_HZ} to {FASTEST_HZ}"
        raise MediaError("bad_rate", f"{told} can be heard.")


def _check_length(seconds: float | None, most_s: float) -> None:
    if seconds is not None and seconds > most_s:
        told = f"The file has {seconds:.0f} s of sound, and {most_s:.0f} s are the most: cut it."
        raise MediaError("too_long", told)


def _bounded(blocks: Iterator[Samples], most_s: float, noting: _Noting) -> Iterator[Samples]:
    samples = 0
    with noting.told():
        for block in blocks:
            samples += len(block)
            _check_length(samples / RATE, most_s)
            if len(block):
                yield block
    if not samples:
        raise MediaError("no_sound", "The file has no sound: not a single sample is in it.")


def _truncated(how: str) -> MediaError:
    return MediaError("truncated", f"The file ends too early: {how}.")


def _unsupported(name: str) -> MediaError:
    return MediaError("unsupported", f"The file is {name}, which is not read here: make it a WAV.")


def _reason(error: Exception) -> str:
    """What a library says, without where the file is said to lie."""
    text = getattr(error, "strerror", None) or getattr(error, "error_string", None) or str(error)
    return f"{text.rstrip('.')}."
