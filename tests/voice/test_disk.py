"""Files of calls: written behind them, in order, and given up where they cannot be."""

import errno
import logging
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from voice.disk import MOST_WAITING, Disk, DiskFile, create

FULL = OSError(errno.ENOSPC, "No space left on device")


class Sink:
    """Notes what is written, and raises what it is given for it."""

    def __init__(self, *written: Any) -> None:
        self.written: list[Any] = []
        self.closed = 0
        self.threads: set[str] = set()

    def write(self, batch: Any) -> None:
        self.threads.add(threading.current_thread().name)
        if isinstance(batch, Exception):
            raise batch
        if isinstance(batch, threading.Event):
            assert batch.wait(10)
        self.written.append(batch)

    def close(self) -> None:
        self.closed += 1


def open_on(disk: Disk, sink: Sink, name: str = "call.jsonl") -> DiskFile[Any]:
    return DiskFile(disk, Path(name), lambda _path: sink)


def test_batches_are_written_in_their_order_in_a_thread_of_the_disks(disk: Disk) -> None:
    sink = Sink()
    file = open_on(disk, sink)
    for batch in range(20):
        file.put(batch)
    file.close()
    disk.close()
    assert sink.written == list(range(20))
    assert sink.closed == 1
    assert all(name.startswith("disk") for name in sink.threads)


def test_nothing_is_written_behind_the_end(disk: Disk) -> None:
    sink = Sink()
    file = open_on(disk, sink)
    file.put(1)
    file.close()
    file.put(2)
    file.close()
    disk.close()
    assert (sink.written, sink.closed, file.ended) == ([1], 1, True)


def test_a_call_of_which_nothing_was_kept_leaves_no_file(disk: Disk) -> None:
    made: list[Path] = []
    file: DiskFile[int] = DiskFile(disk, Path("never"), lambda path: made.append(path))  # type: ignore[func-returns-value,arg-type,return-value]
    file.close()
    disk.close()
    assert made == []


def test_a_full_disk_is_told_once_and_ends_the_file(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    sinks = [Sink(), Sink()]
    files = [open_on(disk, sink, f"{index}.jsonl") for index, sink in enumerate(sinks)]
    for file in files:
        file.put("before")
    for file in files:
        file.put(FULL)
        file.put("after")
    disk.close()
    assert [sink.written for sink in sinks] == [["before"], ["before"]]
    assert [sink.closed for sink in sinks] == [1, 1]
    assert all(file.ended for file in files)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "0.jsonl: cannot be written: No space left on device; the call goes on without"
    )


def test_the_next_failure_is_told_once_something_could_be_written(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    for batches in ([FULL], ["better"], [FULL]):
        file = open_on(disk, Sink())
        for batch in batches:
            file.put(batch)
    disk.close()
    assert len(caplog.records) == 2


def test_a_folder_that_cannot_be_made_is_told(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file")

    def make(path: Path) -> Sink:
        return Sink(create(path))

    file = DiskFile(disk, tmp_path / "taken" / "call.jsonl", make)
    file.put("words")
    disk.close()
    assert file.ended
    assert "call.jsonl: cannot be written:" in caplog.text


def test_a_bug_is_told_with_its_place(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    file = open_on(disk, Sink())
    file.put(KeyError("a bug"))
    disk.close()
    assert file.ended
    assert "its writing ended by a bug" in caplog.text
    assert "Traceback" in caplog.text


def test_a_file_that_cannot_be_closed_is_told(
    disk: Disk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Sink):
        def close(self) -> None:
            raise FULL

    file = open_on(disk, Stuck())
    file.put(1)
    file.close()
    disk.close()
    assert "No space left" in caplog.text


def test_a_disk_that_is_too_slow_ends_the_file_and_no_memory_fills(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    sink, goes_on = Sink(), threading.Event()
    file = open_on(disk, sink)
    file.put(goes_on)
    for batch in range(1, MOST_WAITING):
        file.put(batch)
    assert not file.ended
    file.put("too much")
    assert file.ended
    goes_on.set()
    disk.close()
    assert sink.written == [goes_on, *range(1, MOST_WAITING)]
    assert "the disk is too slow" in caplog.text


def test_files_are_the_servers_own(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "call.jsonl"
    with create(path) as file:
        file.write(b"words")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        create(path)
