"""A call as it sounded, in a WAV file of two channels: the caller on the left, the agent on the
right, 16-bit at 16 kHz, which is what the call itself hears.

Both lie on the call's clock. The agent's audio lies where the playout ledger says that its
listener heard it, and what the listener never heard is not there. The caller's audio lies where
it was spoken, as far as its arrival tells: networks delay, stall, and make up for it.

What is younger than ``SETTLE_MS`` may still change (a barge-in throws audio away, a stall
ends): it waits in memory. All else is on the disk, under a header that is right at any time.
"""

from __future__ import annotations

import asyncio
import wave
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soxr

from engines.audio import Pcm, Samples
from pipelines.speaking.loudness import fade_out
from voice.disk import Disk, DiskFile, create

RATE: Final = 16_000
SUFFIX: Final = ".wav"

SETTLE_MS: Final = 2_000.0
"""A line may stall for so long and catch up, and the caller's audio still lies right."""

WRITE_S: Final = 0.5

MOST_AHEAD_MS: Final = 30_000.0
"""A client that sends faster than time passes is recorded no further ahead of the clock."""

_WINDOW_MS: Final = 32.0
_JITTER_MS: Final = 60.0
"""Windows that follow each other so closely are one piece of sound."""

_PER_MS: Final = RATE // 1000


@dataclass(slots=True)
class _Window:
    samples: Samples
    ends_at: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Audio that is heard from ``at_ms`` on, counted from the recording's beginning."""

    pcm: Pcm
    at_ms: float


@dataclass(frozen=True, slots=True)
class Settled:
    """All that was not known before of the recording up to ``until_ms``."""

    caller: list[Piece]
    agent: list[Piece]
    until_ms: float


class Tracks:
    """Where each sound of a call lies. A plain object: times in ms, of one clock, never falling,
    come in; what is settled comes out."""

    def __init__(self, began_ms: float) -> None:
        self._began_ms = began_ms
        self._windows: deque[_Window] = deque()
        self._caller_ends_at: float | None = None
        self._pieces: deque[Piece] = deque()

    def heard(self, window: Samples, now: float) -> None:
        """The caller's next window (512,) has come.

        Windows are spoken one each 32 ms, so none was spoken later than the next one, less that,
        has come: whatever arrives in a burst after a stall moves what came before to its place.
        """
        if self._ahead_ms(now) > MOST_AHEAD_MS:
            return
        self._windows.append(_Window(window, now))
        latest = now
        for earlier in reversed(self._windows):
            if earlier.ends_at < latest:
                break
            earlier.ends_at = latest
            latest -= _WINDOW_MS

    def sounded(self, pcm: Pcm, at_ms: float) -> None:
        """The listener will hear this from ``at_ms`` on."""
        self._pieces.append(Piece(pcm, at_ms - self._began_ms))

    def flushed(self, now_ms: float) -> None:
        """The listener has thrown away what was not heard by now. The cut fades: whoever listens
        to the recording wants no click."""
        now_ms -= self._began_ms
        while self._pieces and self._pieces[-1].at_ms >= now_ms:
            self._pieces.pop()
        if self._pieces:
            last = self._pieces[-1]
            heard = round((now_ms - last.at_ms) * last.pcm.rate / 1000)
            if heard < len(last.pcm):
                self._pieces[-1] = Piece(fade_out(last.pcm.part(0, heard)), last.at_ms)

    def settle(self, now: float) -> Settled:
        """What has happened longer than ``SETTLE_MS`` ago."""
        until = now - SETTLE_MS
        return Settled(
            self._spoken_before(until), self._heard_before(until), until - self._began_ms
        )

    def finish(self, now: float) -> Settled:
        """All the rest: nobody hears anything any more."""
        self.flushed(now)
        caller, agent = self._spoken_before(now), self._heard_before(now)
        until = max(now, self._caller_ends_at or now)
        return Settled(caller, agent, until - self._began_ms)

    @property
    def pending(self) -> bool:
        """Something is not settled yet."""
        return bool(self._windows or self._pieces)

    def _ahead_ms(self, now: float) -> float:
        ends_at = self._caller_ends_at or self._began_ms
        return ends_at + len(self._windows) * _WINDOW_MS - now

    def _spoken_before(self, until: float) -> list[Piece]:
        pieces = []
        while self._windows and self._windows[0].ends_at < until + _WINDOW_MS:
            window = self._windows.popleft()
            start = self._place(window.ends_at - _WINDOW_MS)
            self._caller_ends_at = start + _WINDOW_MS
            pieces.append(Piece(Pcm(window.samples, RATE), start - self._began_ms))
        return pieces

    def _place(self, at: float) -> float:
        """Where a window lies that was spoken at about this time: on a whole sample, and behind
        what was said before."""
        before = self._caller_ends_at
        if before is not None and at - before <= _JITTER_MS:
            return before
        since = max(0.0, at - self._began_ms)
        return self._began_ms + round(since * _PER_MS) / _PER_MS

    def _heard_before(self, until: float) -> list[Piece]:
        """A resampler holds the last milliseconds back until it is given more, so a little more
        is taken; a reply's pieces are short (``reply.MOST_AUDIO_MS``), and all of it was heard."""
        until += SETTLE_MS / 2 - self._began_ms
        pieces = []
        while self._pieces and self._pieces[0].at_ms < until:
            pieces.append(self._pieces.popleft())
        return pieces


# --- the file -------------------------------------------------------------------------------


class _Channel:
    """Samples that lie somewhere, taken in order."""

    def __init__(self) -> None:
        self._ahead: deque[tuple[int, Samples]] = deque()

    def lay(self, position: int, samples: Samples) -> None:
        """Nothing may be laid before what was laid last."""
        self._ahead.append((position, samples))

    def take(self, start: int, count: int) -> Samples:
        """The next ``count`` samples, from ``start`` on; silence where nothing lies."""
        taken, end = np.zeros(count, np.int16), start + count
        while self._ahead and self._ahead[0][0] < end:
            position, samples = self._ahead.popleft()
            samples = samples[max(0, start - position) :]
            position = max(start, position)
            fits = samples[: end - position]
            taken[position - start : position - start + len(fits)] = fits
            if len(samples) > len(fits):
                self._ahead.appendleft((end, samples[len(fits) :]))
        return taken


class _Voice:
    """The agent's audio, whatever its rate, at that of the recording."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel
        self._stream: soxr.ResampleStream | None = None
        self._rate = self._position = 0
        self.ends_ms = 0.0

    def add(self, piece: Piece) -> None:
        """The next piece: one run with the last, if it follows at once."""
        pcm = piece.pcm
        if abs(piece.at_ms - self.ends_ms) > 1.0 or pcm.rate != self._rate:
            self.finish()
        if self._stream is None:
            self._stream = soxr.ResampleStream(pcm.rate, RATE, 1, dtype="int16", quality="MQ")
            self._rate, self._position = pcm.rate, round(piece.at_ms * _PER_MS)
        self.ends_ms = piece.at_ms + pcm.duration_ms
        self._lay(self._stream.resample_chunk(pcm.samples))

    def finish(self) -> None:
        """The run is over: lay what the filter holds back."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._lay(stream.resample_chunk(np.zeros(0, np.int16), last=True))

    def _lay(self, samples: Samples) -> None:
        self._channel.lay(self._position, samples)
        self._position += len(samples)


class _Wav:
    """The file; ``wave`` corrects its header behind all that is written."""

    def __init__(self, path: Path) -> None:
        self._file = create(path)
        self._wav = wave.open(self._file, "wb")  # noqa: SIM115 - closed by close
        self._wav.setnchannels(2)
        self._wav.setsampwidth(2)
        self._wav.setframerate(RATE)
        self._caller, agent = _Channel(), _Channel()
        self._agent, self._voice = agent, _Voice(agent)
        self._position = 0

    def write(self, batch: Settled) -> None:
        for piece in batch.caller:
            self._caller.lay(round(piece.at_ms * _PER_MS), piece.pcm.samples)
        for piece in batch.agent:
            self._voice.add(piece)
        if self._voice.ends_ms <= batch.until_ms:
            self._voice.finish()
        until = round(batch.until_ms * _PER_MS)
        while self._position < until:
            self._write_frames(min(RATE, until - self._position))
        self._file.flush()

    def _write_frames(self, count: int) -> None:
        channels = (self._caller, self._agent)
        frames = np.stack([side.take(self._position, count) for side in channels], axis=1)
        self._wav.writeframes(frames.astype("<i2", copy=False).tobytes())
        self._position += count

    def close(self) -> None:
        try:
            self._wav.close()
        finally:
            self._file.close()


class Recording:
    """Records one call; a Recorder. To be closed at the call's end."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = DiskFile(disk, path, _Wav)
        self._tracks = Tracks(self._now())
        self._timer: asyncio.TimerHandle | None = None

    def heard(self, window: Samples, now: float) -> None:
        if not self._file.ended:
            self._tracks.heard(window, now)
            self._wake()

    def sounded(self, pcm: Pcm, at_ms: float) -> None:
        if not self._file.ended:
            self._tracks.sounded(pcm, at_ms)
            self._wake()

    def flushed(self, now_ms: float) -> None:
        self._tracks.flushed(now_ms)

    def close(self) -> None:
        """The call is over."""
        if self._timer is not None:
            self._timer.cancel()
        self._file.put(self._tracks.finish(self._now()))
        self._file.close()

    def _now(self) -> float:
        return self._loop.time() * 1000.0

    def _wake(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._write)

    def _write(self) -> None:
        self._timer = None
        self._file.put(self._tracks.settle(self._now()))
        if self._tracks.pending:
            self._wake()
