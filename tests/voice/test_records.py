"""What is kept of calls, as configured and asked for, and for how long."""

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from pipelines.conversation.events import WindowHeard
from pipelines.conversation.settings import TurnSettings
from voice import records
from voice.config import JournalConfig
from voice.disk import Disk
from voice.journal import read
from voice.records import Records

TURNS = TurnSettings(interrupt_ms=150)
DAY_S = 86_400


async def call(kept: Records, name: str = "sess_1", *, record: bool = False) -> None:
    """A call of one window."""
    with kept.keep(name, 24_000, TURNS, record=record) as call:
        for observer in call.observers:
            observer.stepped(WindowHeard(0.5), [], 1)
        if call.recorder is not None:
            call.recorder.heard(np.zeros(512, np.int16), asyncio.get_running_loop().time() * 1000)


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("config", "record", "expected"),
    [
        (JournalConfig(), False, []),
        (JournalConfig(), True, []),
        (JournalConfig(dir="j"), False, [".jsonl"]),
        (JournalConfig(dir="j", recordings="r"), False, [".jsonl"]),
        (JournalConfig(dir="j", recordings="r"), True, [".jsonl", ".wav"]),
        (JournalConfig(recordings="r", record="all"), False, [".wav"]),
    ],
)
async def test_what_is_kept(
    config: JournalConfig,
    record: bool,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Records(config)
    assert kept.can_record is (config.recordings is not None)
    await call(kept, record=record)
    kept.close()
    files = files_in(tmp_path)
    assert [path.suffix for path in files] == expected
    assert len({path.stem for path in files}) <= 1
    assert all("sess_1" in path.stem for path in files)


async def test_a_journal_begins_with_what_the_call_began_with(tmp_path: Path) -> None:
    kept = Records(JournalConfig(dir=str(tmp_path)))
    await call(kept)
    kept.close()
    [path] = files_in(tmp_path)
    journal = read(path)
    assert (journal.header.call, journal.header.rate) == ("sess_1", 24_000)
    assert journal.header.settings == TURNS
    assert journal.closed


async def test_a_call_that_ends_by_a_bug_is_kept_all_the_same(tmp_path: Path) -> None:
    kept = Records(JournalConfig(dir=str(tmp_path)))
    with pytest.raises(RuntimeError), kept.keep("sess_1", 24_000, TURNS, record=False):
        raise RuntimeError("a bug")
    kept.close()
    [path] = files_in(tmp_path)
    assert read(path).closed


async def test_what_is_too_old_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    names = ["20260101T000000-old.jsonl", "20260101T000000-old.wav", "letter.jsonl", "notes.txt"]
    for name in [*names, "20260101T000000-new.wav"]:
        path = tmp_path / name
        path.write_text("")
        if "new" not in name:
            old = path.stat().st_mtime - 8 * DAY_S
            os.utime(path, (old, old))
    kept = Records(JournalConfig(dir=str(tmp_path), keep_days=7))
    await call(kept)
    kept.close()
    left = {path.name for path in files_in(tmp_path) if "sess_1" not in path.name}
    assert left == {"letter.jsonl", "notes.txt", "20260101T000000-new.wav"}


async def test_old_files_are_looked_for_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(records, "_delete", lambda folder, _oldest: looked.append(folder))
    kept = Records(JournalConfig(dir=str(tmp_path / "j"), keep_days=1))
    await call(kept, "sess_1")
    await call(kept, "sess_2")
    kept.close()
    assert looked == [tmp_path / "j"]


async def test_a_file_that_cannot_be_deleted_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "20260101T000000-folder.wav"
    folder.mkdir()
    os.utime(folder, (0, 0))
    kept = Records(JournalConfig(recordings=str(tmp_path), keep_days=1))
    await call(kept)
    kept.close()
    assert "20260101T000000-folder.wav: cannot be deleted" in caplog.text
    assert folder.is_dir()


def test_a_folder_may_be_named_after_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Records(JournalConfig(dir="~/calls"))._journals == tmp_path / "calls"
    assert isinstance(Records(JournalConfig())._disk, Disk)
