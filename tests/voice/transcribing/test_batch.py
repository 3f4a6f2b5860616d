"""Many files as one batch."""

import asyncio
import os
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import LoudnessVad
from tests.fakes.levels import Levels, Options
from voice.transcribing.batch import Batch, InOrder
from voice.transcribing.one_file import Asked, Outcome, Task
from voice.transcribing.progress import Run, Silent
from voice.transcribing.sources import Source
from voice.wire.audio_api import TranscriptionForm

ASKED = Asked([TranscriptionForm("", response_format="text")], {})


def speech(path: Path, *levels: int) -> Path:
    """A second of each level, and a second of nothing after each."""
    parts = [np.repeat(np.int16([100 * level, 0]), 16_000) for level in levels]
    soundfile.write(path, np.concatenate(parts), 16_000)
    return path


class Outcomes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.found: dict[str, Outcome] = {}

    async def of(self, asr: Any, *paths: Path) -> dict[str, Outcome]:
        sources = [Source(path, path.name, PurePath(path.name)) for path in paths]
        tasks = [
            Task(each, [self.folder / f"{each.shown}.txt"], self.folder / f"{each.shown}.kept")
            for each in sources
        ]
        names = [(each.shown, each.seems_s) for each in sources]
        run = Run(names, asyncio.get_running_loop().time, Silent())

        def ended(number: int, outcome: Outcome) -> None:
            self.names.append(paths[number].name)
            self.found[paths[number].name] = outcome

        await Batch(LoudnessVad(), asr, ASKED, run, ended).run(tasks)
        assert all(course.ended for course in run.courses)
        return self.found


async def test_each_file_has_its_own_words(tmp_path: Path) -> None:
    paths = [speech(tmp_path / f"{n}.wav", *range(40 + n, 60 + n, 4)) for n in range(9)]
    outcomes = await Outcomes(tmp_path).of(Levels(Options()), *paths)
    for number, path in enumerate(paths):
        said = [f"w{level}" for level in range(40 + number, 60 + number, 4)]
        assert (tmp_path / f"{path.name}.txt").read_text().split() == said
        assert (outcomes[path.name].failure, outcomes[path.name].words) == ("", 5)


async def test_what_goes_wrong_with_one_leaves_the_others(tmp_path: Path) -> None:
    class Buggy(Levels):
        def _note(self, text: str) -> None:
            if text == "w77":
                raise ZeroDivisionError("oh")

    good, gone = speech(tmp_path / "good.wav", 40), tmp_path / "gone.wav"
    failing, buggy = speech(tmp_path / "fails.wav", 40, 66), speech(tmp_path / "bug.wav", 77)
    odd = tmp_path / "folder.wav"
    odd.mkdir()
    asr = Buggy(Options(fails_on="w66"))
    outcomes = await Outcomes(tmp_path).of(asr, gone, failing, buggy, odd, good)
    assert {name: outcome.failure for name, outcome in outcomes.items()} == {
        "gone.wav": "there is no such file",
        "fails.wav": "levels: fails as it was told to",
        "bug.wav": "this is a bug of ours: ZeroDivisionError('oh')",
        "folder.wav": "it is no plain file",
        "good.wav": "",
    }
    assert [name for name in os.listdir(tmp_path) if name.endswith("txt")] == ["good.wav.txt"]
    assert (tmp_path / "fails.wav.kept").exists()


@pytest.mark.virtual_clock
async def test_chunks_of_earlier_files_go_first() -> None:
    room, order = InOrder(1), list[str]()

    async def work(name: str, number: int) -> None:
        async with room.of(number).hold():
            order.append(name)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as tasks:
        for name, number in (("first", 5), ("late", 3), ("later", 3), ("early", 1), ("same", 5)):
            tasks.create_task(work(name, number))
    assert order == ["first", "early", "late", "later", "same"]


@pytest.mark.virtual_clock
async def test_who_leaves_takes_no_room_along() -> None:
    room = InOrder(1)
    await room.take(0)
    waiting = [asyncio.ensure_future(room.take(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    room.give()
    waiting[1].cancel()  # in the same moment
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    room.give()
    await room.take(4)
