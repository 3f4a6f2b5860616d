"""Files that tests read: made here, byte by byte or by FFmpeg."""

import io
import struct
from typing import Any

import av
import numpy as np

SECOND = (6_000 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)).astype(np.int16)


def wav(
    samples: Any = SECOND, rate: int = 16_000, channels: int = 1, size: int | None = None
) -> bytes:
    data = np.asarray(samples, "<i2").tobytes()
    size = len(data) if size is None else size
    riff = min(36 + size, 0xFFFF_FFFF)
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    head = b"RIFF" + struct.pack("<I", riff) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return head + b"data" + struct.pack("<I", size) + data


def contained(form: str, codec: str, seconds: float = 3.0, **options: str) -> bytes:
    """A file made by FFmpeg."""
    file = io.BytesIO()
    with av.open(file, "w", format=form, options=options) as container:
        stream: Any = container.add_stream(codec, rate=48_000, layout="stereo")
        time = np.arange(int(seconds * 48_000)) / 48_000
        tone = (0.2 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(np.stack([tone, tone]), "fltp", "stereo")
        frame.rate = 48_000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return file.getvalue()


def video_only() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for _ in range(5):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def film(form: str, codec: str, seconds: float, sounds: list[tuple[float, float]]) -> bytes:
    """A film of so many seconds, with a tone from one time to another, and no packets between."""
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        video: Any = container.add_stream("mpeg4", rate=10)
        video.width = video.height = 32
        video.pix_fmt = "yuv420p"
        sound: Any = container.add_stream(codec, rate=48_000, layout="mono")
        packets = []
        for start_s, end_s in sounds:
            for number in range(int(start_s * 50), int(end_s * 50)):
                time = np.arange(number * 960, (number + 1) * 960)
                tone = (6_000 * np.sin(2 * np.pi * 440 * time / 48_000)).astype(np.int16)
                frame = av.AudioFrame.from_ndarray(tone[None], "s16", "mono")
                frame.rate, frame.pts = 48_000, number * 960
                packets += sound.encode(frame)
        for number in range(int(seconds * 10)):
            picture = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")
            picture.pts = number
            packets += video.encode(picture)
        packets += [*sound.encode(None), *video.encode(None)]
        for packet in sorted(packets, key=lambda each: each.dts * each.time_base):
            container.mux(packet)
    return file.getvalue()
