"""One file heard and written, or gone on with."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest
import soundfile

from engines.ports import EngineError
from tests.conftest import LoudnessVad
from tests.fakes.levels import Levels, Options
from tests.voice.transcribing.test_batch import speech
from voice.transcribing.one_file import Asked, Means, Outcome, Task, hear_file
from voice.transcribing.sources import Source, SourceError
from voice.transcribing.unfinished import UnfinishedError
from voice.wire.audio_api import TranscriptionForm


class Anywhere:
    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        yield


class Heard:
    """Files heard in a folder, and what the recogniser was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reached: list[tuple[float, bool]] = []

    @property
    def asked(self) -> list[str]:
        notes = self.folder / "heard"
        return notes.read_text().split() if notes.exists() else []

    async def hear(self, path: Path, *, forms: Any = ("text",), **options: Any) -> Outcome:
        asked = {key: options.pop(key) for key in ("resume", "settings") if key in options}
        asr = options.pop("asr", None) or Levels(
            Options(heard=str(self.folder / "heard"), **options)
        )
        task = Task(
            Source(path, path.name, PurePath(path.name)),
            [self.folder / f"out.{form}" for form in forms],
            self.folder / "kept",
        )
        given = [TranscriptionForm("", response_format=form) for form in forms or ("text",)]
        means = Means(LoudnessVad(), asr, Anywhere(), lambda *told: self.reached.append(told))
        return await hear_file(task, Asked(given, **{"settings": {}} | asked), means)


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    return Heard(tmp_path)


async def test_a_file_is_written_in_all_its_formats(heard: Heard, tmp_path: Path) -> None:
    path = speech(tmp_path / "a.wav", 40, 50, 60)
    outcome = await heard.hear(path, forms=("text", "srt"), doubts="w50")
    assert (tmp_path / "out.text").read_text() == "w40\nw50\nw60\n"
    assert (tmp_path / "out.srt").read_text().count("-->") == 3
    assert (outcome.lasts_s, outcome.fresh_s, outcome.words) == (6, 6, 3)
    assert (outcome.doubts, outcome.given, outcome.note) == ({"loop": 1}, [], "")
    places = [at_s for at_s, _ in heard.reached]
    assert places == sorted(places)
    assert heard.reached[0] == (0, False)
    assert 4 <= places[-1] <= 6


async def test_without_a_file_for_it_the_text_is_given(heard: Heard, tmp_path: Path) -> None:
    outcome = await heard.hear(speech(tmp_path / "a.wav", 40), forms=())
    assert outcome.given == [b"w40\n"]


async def test_a_run_that_failed_is_gone_on_with(heard: Heard, tmp_path: Path) -> None:
    path = speech(tmp_path / "a.wav", *range(40, 60))
    with pytest.raises(EngineError):
        await heard.hear(path, fails_on="w53")
    assert not (tmp_path / "out.text").exists()
    before = len(heard.asked)
    assert before >= 13
    outcome = await heard.hear(path, resume=True)
    said = [f"w{level}" for level in range(40, 60)]
    assert (tmp_path / "out.text").read_text().split() == said
    assert sorted(heard.asked) == said
    assert 0 < outcome.fresh_s < outcome.lasts_s == 40
    again = await heard.hear(path, resume=True)
    assert (again.before, again.lasts_s) == (True, 40)


async def test_other_formats_of_a_file_that_is_whole_are_not_heard_again(
    heard: Heard, tmp_path: Path
) -> None:
    path = speech(tmp_path / "a.wav", 40, 50)
    await heard.hear(path)
    outcome = await heard.hear(path, forms=("text", "vtt"), resume=True)
    assert (outcome.before, outcome.fresh_s) == (False, 0)
    assert len(heard.asked) == 2
    assert (tmp_path / "out.vtt").exists()


async def test_without_resume_all_is_heard_again(heard: Heard, tmp_path: Path) -> None:
    path = speech(tmp_path / "a.wav", 40)
    await heard.hear(path)
    await heard.hear(path)
    assert heard.asked == ["w40", "w40"]


async def test_another_file_is_not_gone_on_with(heard: Heard, tmp_path: Path) -> None:
    await heard.hear(speech(tmp_path / "a.wav", 40))
    with pytest.raises(UnfinishedError, match="the file has changed since"):
        await heard.hear(speech(tmp_path / "b.wav", 41), resume=True)
    with pytest.raises(UnfinishedError, match="another language, none, and now it is de"):
        await heard.hear(tmp_path / "a.wav", resume=True, settings={"language": "de"})


class Meddling(Levels):
    """Does something to the file while it is heard."""

    def __init__(self, meddle: Any) -> None:
        super().__init__(Options())
        self.meddle = meddle

    def _note(self, text: str) -> None:
        self.meddle()


async def test_a_file_that_grows_meanwhile_is_not_whole(heard: Heard, tmp_path: Path) -> None:
    path = speech(tmp_path / "a.wav", 40, 50)
    size = path.stat().st_size

    def grow() -> None:
        with path.open("ab") as file:
            file.write(bytes(1_000))

    told = rf"it had {size} bytes and has \d+\): try again"
    with pytest.raises(SourceError, match=told):
        await heard.hear(path, asr=Meddling(grow))
    assert os.listdir(tmp_path) == ["a.wav"]


async def test_a_file_that_is_deleted_meanwhile_is_heard_whole(
    heard: Heard, tmp_path: Path
) -> None:
    path = speech(tmp_path / "a.wav", 40, 50)
    await heard.hear(path, asr=Meddling(lambda: path.unlink(missing_ok=True)))
    assert (tmp_path / "out.text").read_text() == "w40\nw50\n"


async def test_a_file_in_whose_place_another_is_by_then_is_not_whole(
    heard: Heard, tmp_path: Path
) -> None:
    path, other = speech(tmp_path / "a.wav", 40, 50), speech(tmp_path / "b.wav", 60)

    def replace() -> None:
        if other.exists():
            other.replace(path)

    with pytest.raises(SourceError, match="another file has taken its place"):
        await heard.hear(path, asr=Meddling(replace))
    assert os.listdir(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("name", ["x" * 256, "folder"])
async def test_what_can_never_be_written_is_not_heard_first(
    name: str, heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "out.folder").mkdir()
    with pytest.raises(OSError, match=name):
        await heard.hear(speech(tmp_path / "a.wav", 40), forms=[name])
    assert heard.asked == []


async def test_silence_was_not_heard_by_an_earlier_run(heard: Heard, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(48_000, np.int16), 16_000)
    outcome = await heard.hear(path)
    assert (outcome.lasts_s, outcome.fresh_s) == (3.0, 3.0)


async def test_who_is_cancelled_leaves_what_was_heard(heard: Heard, tmp_path: Path) -> None:
    path = speech(tmp_path / "a.wav", *range(40, 60))
    hanging = asyncio.Event()

    class Hangs(Levels):
        def _note(self, text: str) -> None:
            super()._note(text)
            if text == "w50":
                hanging.set()

    asr = Hangs(Options(heard=str(tmp_path / "heard"), hangs_on="w51"))
    running = asyncio.ensure_future(heard.hear(path, asr=asr))
    await hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not (tmp_path / "out.text").exists()
    await heard.hear(path, resume=True)
    assert (tmp_path / "out.text").read_text().split() == [f"w{n}" for n in range(40, 60)]
    assert len(heard.asked) <= 21  # one may have been heard whose transcript was not taken yet


async def test_where_nothing_can_be_kept_it_is_told_and_the_file_is_whole(
    heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    outcome = await heard.hear(speech(tmp_path / "a.wav", 40))
    assert outcome.note == f"could not have been gone on with: {tmp_path}/kept: Is a directory"
    assert (tmp_path / "out.text").exists()
