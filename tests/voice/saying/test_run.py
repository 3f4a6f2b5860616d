"""From chapters to files: whole, in pieces, and the same after any interruption."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from rich.console import Console

from engines.audio import Pcm
from engines.ports import EngineError, Load, SpeechRequest
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.pieces import Narration, size_of
from voice.saying.output import Target
from voice.saying.partial import Partial
from voice.saying.progress import Pace, Shown
from voice.saying.run import FileRun, Slots, Told, to_stdout

BOOK = chapters(
    blocks(
        "# One\n\nA sentence. Another.\n\n***\n\nA third one.\n\n# Two\n\nThe end, nearly."
        "\n\nThe end."
    )
)
RATE = 24_000


class Voice:
    """A tone for each phrase; ``fails_at`` a phrase it fails, or is killed with who listens."""

    def __init__(self, slots: int = 2, mute: str = "", fails_at: str = "") -> None:
        self.slots, self.mute, self.fails_at = slots, mute, fails_at
        self.busy = self.most = 0
        self.said: list[str] = []

    def load(self) -> Load:
        return Load(slots=self.slots)

    @asynccontextmanager
    async def open(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Pcm]]:
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.said.append(request.text)
        try:
            yield self._play(request.text)
        finally:
            self.busy -= 1

    async def _play(self, text: str) -> AsyncIterator[Pcm]:
        await asyncio.sleep(0.001)
        if self.fails_at and self.fails_at in text:
            raise EngineError("tts", "failed", "it broke")
        if not (self.mute and self.mute in text):
            time = np.arange(len(text) * 1_000) / RATE
            yield Pcm.from_floats(0.3 * np.sin(2 * np.pi * (200 + 7 * len(text)) * time), RATE)


def shown(console: Console | None = None) -> Shown:
    return Shown(console or Console(file=io.StringIO()), Pace(size_of(BOOK)))


async def write(
    path: Path, voice: Any, form: str = "wav", *, by_chapter: bool = False, resume: bool = False
) -> Told:
    where = Target(path, form, by_chapter)
    partial = Partial(where.partial, {"text": "same"}, resume=resume)
    try:
        told = await FileRun(Narration(), form, partial, shown()).say(where.outputs(BOOK), voice)
    except BaseException:
        partial.leave()
        raise
    partial.remove()
    return told


async def test_one_file_with_marks_of_its_chapters(tmp_path: Path) -> None:
    told = await write(tmp_path / "a.wav", Voice())
    assert (told.files, told.marks) == (1, str(tmp_path / "a.wav.ffmetadata"))
    assert contents(tmp_path).keys() == {"a.wav", "a.wav.ffmetadata"}
    samples, rate = soundfile.read(tmp_path / "a.wav", dtype="int16")
    marks = (tmp_path / "a.wav.ffmetadata").read_text("utf-8")
    starts = [int(line[6:]) for line in marks.splitlines() if line.startswith("START=")]
    assert starts[0] == 0
    loud = np.flatnonzero(np.abs(samples) > 200)
    after = loud[loud > rate * starts[1] // 1000][0] / rate
    assert after == pytest.approx(starts[1] / 1000 + 0.25, abs=0.05)
    assert f"END={1000 * len(samples) // rate}" in marks


async def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lengths = tmp_path / "a.wav", []

    def fsync(number: int) -> None:
        assert not path.exists()
        lengths.append(os.fstat(number).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    await write(path, Voice())
    assert lengths == [path.stat().st_size]


async def test_a_file_for_each_chapter(tmp_path: Path) -> None:
    told = await write(tmp_path / "book", Voice(), "flac", by_chapter=True)
    assert (told.files, told.marks) == (2, "")
    names = sorted(path.name for path in (tmp_path / "book").iterdir())
    assert names == ["01-one.flac", "02-two.flac"]
    for name in names:
        samples, _ = soundfile.read(tmp_path / "book" / name, dtype="int16")
        assert np.flatnonzero(np.abs(samples) > 200)[0] < 0.03 * RATE  # no pause in front


@pytest.mark.parametrize("form", ["wav", "mp3", "opus", "flac", "aac", "pcm"])
@pytest.mark.parametrize("by_chapter", [False, True])
async def test_what_was_interrupted_anywhere_becomes_the_same_bytes(
    tmp_path: Path, form: str, by_chapter: bool
) -> None:
    name = "book" if by_chapter else f"a.{form}"
    (tmp_path / "calm").mkdir()
    await write(tmp_path / "calm" / name, Voice(), form, by_chapter=by_chapter)
    (tmp_path / "torn").mkdir()
    for fails_at in ("Another", "third", "Two", "nearly"):
        with pytest.raises(EngineError, match="it broke"):
            await write(
                tmp_path / "torn" / name,
                Voice(fails_at=fails_at),
                form,
                by_chapter=by_chapter,
                resume=True,
            )
        assert by_chapter or not (tmp_path / "torn" / name).exists()
    voice = Voice()
    await write(tmp_path / "torn" / name, voice, form, by_chapter=by_chapter, resume=True)
    assert "A sentence." not in voice.said
    assert contents(tmp_path / "torn") == contents(tmp_path / "calm")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_who_stops_it_finds_what_is_certain(tmp_path: Path) -> None:
    await write(tmp_path / "calm.wav", Voice())

    class Stuck(Voice):
        async def _play(self, text: str) -> AsyncIterator[Pcm]:
            if "third" in text:
                reached.set()
                await asyncio.get_running_loop().create_future()
            async for pcm in super()._play(text):
                yield pcm

    reached = asyncio.Event()
    work = asyncio.ensure_future(write(tmp_path / "torn.wav", Stuck(1)))
    await reached.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert work.cancelled()
    await write(tmp_path / "torn.wav", Voice(), resume=True)
    assert (tmp_path / "torn.wav").read_bytes() == (tmp_path / "calm.wav").read_bytes()


async def test_a_disk_that_is_full_leaves_what_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path / "calm.wav", Voice())
    putting = Partial.put

    def full(partial: Partial, pcm: Pcm) -> None:
        putting(partial, pcm.part(0, len(pcm) // 2) if partial.samples > 60_000 else pcm)
        if partial.samples > 60_000:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Partial, "put", full)
    with pytest.raises(OSError, match="No space left"):
        await write(tmp_path / "torn.wav", Voice())
    monkeypatch.undo()
    await write(tmp_path / "torn.wav", Voice(), resume=True)
    assert (tmp_path / "torn.wav").read_bytes() == (tmp_path / "calm.wav").read_bytes()


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (3, 3), (0, 4)])
async def test_a_voices_slots_are_all_that_is_used(tmp_path: Path, slots: int, most: int) -> None:
    voice = Voice(slots)
    await write(tmp_path / "a.wav", voice)
    assert voice.most == most == Slots(voice).count  # type: ignore[arg-type]


async def test_what_has_no_sound_is_told_and_what_is_all_silent_is_no_file(tmp_path: Path) -> None:
    told = await write(tmp_path / "a.wav", Voice(mute="third"))
    assert (told.silent, told.first_silent, told.files) == (1, "A third one.", 1)
    told = await write(tmp_path / "b", Voice(mute="e"), by_chapter=True)
    assert (told.files, told.silent > 3) == (1, True)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["02-two.wav"]


async def test_to_standard_output_as_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Out:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdout", Out)
    told = await to_stdout(BOOK, Narration(), Voice(), "pcm", shown())  # type: ignore[arg-type]
    assert told.files == 1
    assert len(Out.buffer.getvalue()) > 2 * RATE
    told = await to_stdout(BOOK, Narration(), Voice(mute="e"), "pcm", shown())  # type: ignore[arg-type]
    assert told.silent > 3
