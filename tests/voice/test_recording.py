"""Recordings: who sounded when, in which channel, and what nobody heard is not there."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from engines.audio import Pcm
from engines.ports import SpeechRequest
from engines.scripted import ScriptedAsr, ScriptedLlm
from engines.vad.ears import Ears
from pipelines.conversation.call import Call, open_call
from pipelines.conversation.events import (
    Command,
    Event,
    Output,
    PauseReply,
    ReplyAudio,
)
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.reply import Stages
from tests.voice.conftest import wait_written
from voice.disk import Disk
from voice.recording import (
    MOST_AHEAD_MS,
    RATE,
    SETTLE_MS,
    WRITE_S,
    Recording,
    Settled,
    Tracks,
)

WINDOW = np.full(512, 1_000, np.int16)


# --- where sounds lie ------------------------------------------------------------------------


def places(settled: Settled) -> list[float]:
    return [piece.at_ms for piece in settled.caller]


def test_the_callers_windows_lie_where_they_were_spoken() -> None:
    tracks = Tracks(1_000.0)
    for index in range(5):
        tracks.heard(WINDOW, 1_100.0 + 32 * index)
    settled = tracks.settle(1_100.0 + 2 * 32 - 10 + SETTLE_MS)
    assert places(settled) == [68.0, 100.0, 132.0]  # the last lies across the border
    assert settled.until_ms == 154.0
    assert tracks.pending
    assert places(tracks.finish(1_300.0)) == [164.0, 196.0]
    assert not tracks.pending


def test_windows_that_come_late_and_at_once_lie_where_they_were_spoken() -> None:
    tracks = Tracks(0.0)
    tracks.heard(WINDOW, 32.0)
    for _ in range(50):  # a line that stalled for 1.6 s
        tracks.heard(WINDOW, 1_632.0)
    for index in range(3):
        tracks.heard(WINDOW, 1_664.0 + 32 * index)
    assert places(tracks.finish(2_000.0)) == [32.0 * index for index in range(54)]


def test_jitter_makes_no_holes() -> None:
    tracks = Tracks(0.0)
    late = itertools.cycle([0, 17, 40, 5, 30])
    for index in range(100):
        tracks.heard(WINDOW, 32.0 * (index + 1) + next(late))
    assert places(tracks.finish(4_000.0)) == [32.0 * index for index in range(100)]


def test_a_caller_who_sent_nothing_was_silent_meanwhile() -> None:
    tracks = Tracks(0.0)
    tracks.heard(WINDOW, 32.0)
    tracks.heard(WINDOW, 64.0)
    tracks.heard(WINDOW, 564.0)
    assert places(tracks.finish(600.0)) == [0.0, 32.0, 532.0]


def test_a_caller_who_speaks_faster_than_time_passes_is_recorded_whole_up_to_a_bound() -> None:
    tracks = Tracks(0.0)
    for _ in range(10_000):
        tracks.heard(WINDOW, 10.0)
    settled = tracks.finish(20.0)
    assert places(settled)[:3] == [0.0, 32.0, 64.0]
    ahead = len(settled.caller) * 32 - 10
    assert MOST_AHEAD_MS <= ahead <= MOST_AHEAD_MS + 64
    assert settled.until_ms == len(settled.caller) * 32


def test_only_what_is_not_settled_is_kept_in_memory() -> None:
    tracks, most = Tracks(0.0), 0
    for index in range(5_000):
        now = 32.0 * (index + 1)
        tracks.heard(WINDOW, now)
        tracks.sounded(Pcm(WINDOW, RATE), now)
        if index % 16 == 0:
            tracks.settle(now)
        most = max(most, len(tracks._windows) + len(tracks._pieces))
    assert most < 2 * (SETTLE_MS + 1_000) / 32


def test_what_the_listener_threw_away_was_never_heard() -> None:
    tracks = Tracks(0.0)
    for index in range(5):
        tracks.sounded(Pcm(np.ones(4_800, np.int16), 24_000), 100.0 + 200 * index)
    tracks.flushed(450.0)
    tracks.sounded(Pcm(np.ones(4_800, np.int16), 24_000), 700.0)
    pieces = tracks.finish(5_000.0).agent
    assert [(piece.at_ms, piece.pcm.duration_ms) for piece in pieces] == [
        (100.0, 200.0),
        (300.0, 150.0),
        (700.0, 200.0),
    ]


def test_a_cut_fades_and_what_was_not_cut_does_not() -> None:
    tracks, loud = Tracks(0.0), Pcm(np.full(4_800, 10_000, np.int16), 24_000)
    tracks.sounded(loud, 0.0)
    tracks.sounded(loud, 200.0)
    tracks.flushed(300.0)
    tracks.flushed(310.0)
    tracks.sounded(loud, 500.0)
    tracks.flushed(700.0)
    whole, cut, last = (piece.pcm.samples for piece in tracks.finish(5_000.0).agent)
    assert (whole == 10_000).all()
    assert (last == 10_000).all()
    assert (cut[:-120] == 10_000).all()
    assert (np.diff(cut[-120:].astype(int)) < 0).all()
    assert cut[-1] < 10


def test_a_flush_leaves_alone_what_was_heard_long_ago() -> None:
    tracks = Tracks(0.0)
    tracks.flushed(10.0)
    tracks.sounded(Pcm(np.ones(4_800, np.int16), 24_000), 100.0)
    tracks.flushed(5_000.0)
    [piece] = tracks.finish(6_000.0).agent
    assert piece.pcm.duration_ms == 200.0


# --- a whole call -----------------------------------------------------------------------------

TONE_HZ = 1_000


class ToneTts:
    """Speaks a second of a tone for each phrase, in pieces that do not end with its waves."""

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    @asynccontextmanager
    async def open(self, _request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        async def speak() -> AsyncIterator[Pcm]:
            wave = 8_000 * np.sin(2 * np.pi * TONE_HZ * np.arange(24_000) / 24_000)
            for start in range(0, 24_000, 3_333):
                yield Pcm(wave[start : start + 3_333].astype(np.int16), 24_000)

        yield speak()


class Notes:
    """When the replies went out and fell silent."""

    def __init__(self) -> None:
        self.out: list[tuple[float, float]] = []
        self.paused: list[float] = []

    def stepped(self, event: Event, commands: list[Command], now: int) -> None:
        self.paused += [float(now) for command in commands if isinstance(command, PauseReply)]

    def said(self, output: Output, now: float) -> None:
        if isinstance(output, ReplyAudio):
            self.out.append((now, output.pcm.duration_ms))

    def staged(self, stages: Stages) -> None: ...


class Silent:
    """A door that tells nobody."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def send(call: Call, level: int, milliseconds: int) -> None:
    for _ in range(milliseconds // 20):
        await asyncio.sleep(0.02)
        call.hear(np.full(320, level, np.int16))


@asynccontextmanager
async def recorded(vad: Any, disk: Disk, path: Path, notes: Notes) -> AsyncIterator[Call]:
    recording, numbers = Recording(disk, path), itertools.count()
    async with open_call(
        Engines(Ears(vad), ScriptedAsr(), ScriptedLlm(), ToneTts()),
        CallSettings(),
        Silent(),
        rate=RATE,
        new_id=lambda: str(next(numbers)),
        observers=(notes,),  # type: ignore[arg-type]
        recorder=recording,
    ) as call:
        yield call
    recording.close()
    wait_written(disk)


def stretches(channel: np.ndarray[Any, np.dtype[np.int16]]) -> list[tuple[float, float]]:
    """From when to when there is sound, in ms; what is silent for less than 20 ms goes on."""
    loud = np.flatnonzero(np.abs(channel.astype(int)) > 200)
    if not len(loud):
        return []
    breaks = np.flatnonzero(np.diff(loud) > RATE // 50)
    starts, ends = loud[np.r_[0, breaks + 1]], loud[np.r_[breaks, len(loud) - 1]]
    return [(start / 16, end / 16) for start, end in zip(starts, ends, strict=True)]


@pytest.mark.virtual_clock
async def test_both_sides_lie_where_they_were_heard(vad: Any, disk: Disk, tmp_path: Path) -> None:
    path, notes = tmp_path / "call.wav", Notes()
    began = asyncio.get_running_loop().time() * 1000
    async with recorded(vad, disk, path, notes) as call:
        await send(call, 0, 700)
        await send(call, 8_000, 600)
        await send(call, 0, 2_000)  # the reply plays
        await send(call, 8_000, 700)  # and is interrupted
        await send(call, 0, 8_000)
    frames, rate = soundfile.read(path, dtype="int16")
    assert (frames.shape[1], rate) == (2, RATE)
    assert len(frames) / RATE == pytest.approx(12.0, abs=0.05)

    assert stretches(frames[:, 0]) == [
        pytest.approx((700, 1_300), abs=0.2),
        pytest.approx((3_300, 4_000), abs=0.2),
    ]
    before, after = stretches(frames[:, 1])
    assert before[0] == pytest.approx(notes.out[0][0] - began, abs=1)
    assert before[1] == pytest.approx(notes.paused[0] - began, abs=1)
    again = next(at for at, _ in notes.out if at > notes.paused[0])
    heard = sum(ms for at, ms in notes.out if at >= again)
    assert after[0] == pytest.approx(again - began, abs=1)
    assert after[1] == pytest.approx(min(again - began + heard, 12_000), abs=5)

    tone = frames[int(after[0] * 16) : int(after[0] * 16) + RATE, 1].astype(float)
    spectrum = np.abs(np.fft.rfft(tone * np.hanning(RATE)))
    assert int(spectrum.argmax()) == TONE_HZ
    assert spectrum[TONE_HZ - 3 : TONE_HZ + 4].sum() > 0.9 * spectrum.sum()


@pytest.mark.virtual_clock
async def test_a_server_that_dies_leaves_a_file_that_can_be_played(
    vad: Any, disk: Disk, tmp_path: Path
) -> None:
    path = tmp_path / "call.wav"
    async with recorded(vad, disk, path, Notes()) as call:
        await send(call, 8_000, 5_000)
        wait_written(disk)
        died = soundfile.info(path)
    assert died.frames / RATE == pytest.approx(5.0 - SETTLE_MS / 1000, abs=WRITE_S + 0.1)


@pytest.mark.virtual_clock
async def test_a_pause_of_both_is_a_pause_of_the_recording(disk: Disk, tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    recording = Recording(disk, tmp_path / "call.wav")
    await asyncio.sleep(100.0)
    recording.sounded(Pcm(np.full(RATE, 500, np.int16), RATE), loop.time() * 1000)
    await asyncio.sleep(20.0)
    recording.close()
    wait_written(disk)
    frames, _ = soundfile.read(tmp_path / "call.wav", dtype="int16")
    assert len(frames) == 120 * RATE
    assert stretches(frames[:, 1]) == [pytest.approx((100_000, 101_000), abs=1)]


@pytest.mark.virtual_clock
async def test_a_recording_that_cannot_be_written_keeps_nothing(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file")
    recording = Recording(disk, tmp_path / "taken" / "call.wav")
    recording.heard(WINDOW, 32.0)
    await asyncio.sleep(WRITE_S + 0.01)
    wait_written(disk)
    recording.heard(WINDOW, 64.0)
    recording.sounded(Pcm(WINDOW, RATE), 64.0)
    assert len(recording._tracks._windows) <= 1
    assert not recording._tracks._pieces
    recording.close()
    assert len(caplog.records) == 1


@pytest.mark.virtual_clock
async def test_sound_that_goes_on_has_no_hole_in_it_whenever_it_is_written(
    disk: Disk, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    recording = Recording(disk, tmp_path / "call.wav")
    await asyncio.sleep(0.0123)
    for _ in range(400):
        await asyncio.sleep(0.032)
        recording.heard(WINDOW, loop.time() * 1000)
        recording.sounded(Pcm(np.full(768, 500, np.int16), 24_000), loop.time() * 1000)
    recording.close()
    wait_written(disk)
    frames, _ = soundfile.read(tmp_path / "call.wav", dtype="int16")
    assert [len(stretches(side)) for side in frames.T] == [1, 1]
    assert np.count_nonzero(frames[:, 0]) == 400 * 512
