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
