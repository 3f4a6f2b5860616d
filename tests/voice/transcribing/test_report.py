"""What people are told of a run."""

import io
import sys
from collections import Counter
from pathlib import Path, PurePath
from typing import Any, cast

import pytest
from rich.console import Console

from voice.transcribing.one_file import Outcome, Task
from voice.transcribing.report import FAILED, WHOLE, Deaf, Report
from voice.transcribing.sources import Found, Source


class Told:
    """A report of these files, and what it says."""

    def __init__(self, folder: Path, *names: str, **options: Any) -> None:
        self.out = io.StringIO()
        console = Console(file=self.out, width=40)
        self.report = Report(console, **{"quiet": False, "resume": False} | options)
        self.tasks = [
            Task(Source(Path(name), name, PurePath(name)), [folder / name], folder / "kept" / name)
            for name in names
        ]
        self.kept_in = folder / "kept"

    def begin(self, **found: Any) -> None:
        self.report.begin(Found(**found), self.tasks, self.kept_in)
        self.report.hear()

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def keep(told: Told, name: str) -> None:
    told.kept_in.mkdir(exist_ok=True)
    (told.kept_in / name).write_text("x")


def test_one_file_has_one_line(tmp_path: Path) -> None:
    told = Told(tmp_path, "[b].mp3")
    told.begin()
    doubts = Counter(loop=2, noise=1)
    told.report.ended(0, Outcome("", False, 3_600, 3_600, 120, 9_012, doubts))
    assert told.report.finish() == WHOLE
    assert told.lines == [
        "[b].mp3: 1:00:00 of sound in 2:00, 30x (RTF 0.033), 9012 words;"
        " doubted or heard again: loop 2, noise 1"
    ]


def test_what_an_earlier_run_has_heard_is_told_apart(tmp_path: Path) -> None:
    told = Told(tmp_path, "a", "b", resume=True)
    told.begin()
    told.report.ended(0, Outcome("", False, 3_600, 1_200, 100, 1, note="a note"))
    told.report.ended(1, Outcome("", True, 60))
    told.report.finish()
    assert told.lines[:3] == [
        "a: 1:00:00 of sound, 40:00 of it by an earlier run, in 1:40, 12x (RTF 0.083), 1 word",
        "a: a note",
        "b: 1:00 of sound, whole before",
    ]
    assert told.lines[3].startswith("2 of 2 files whole: 1:01:00 of sound, 41:00 of it by")


def test_failures_are_told_at_once_and_listed_at_the_end(tmp_path: Path) -> None:
    told = Told(tmp_path, "a", "b")
    keep(told, "a")
    told.begin(failures={"c": "it is empty"}, passed_over=2)
    told.report.ended(1, Outcome("it is damaged"))
    told.report.ended(0, Outcome("", False, 4, 4, 2, 3))
    assert told.report.finish() == FAILED
    assert told.lines[:5] == [
        "voice transcribe: c: it is empty",
        "passed over: 2 files without sound in it",
        "begun anew: 1 file of an earlier run that was not finished;"
        " --resume would have gone on with it",
        "voice transcribe: b: it is damaged",
        "a: 0:04 of sound in 2.0 s, 2.0x (RTF 0.50), 3 words",
    ]
    assert told.lines[5].startswith("1 of 3 files whole: 0:04 of sound in 0.0 s, ")
    assert told.lines[6:] == ["2 failed:", "  c: it is empty", "  b: it is damaged"]
    assert (tmp_path / "kept" / "a").exists()


def test_quiet_tells_of_failures_alone(tmp_path: Path) -> None:
    told = Told(tmp_path, "a", "b", quiet=True)
    told.begin(passed_over=2)
    told.report.ended(0, Outcome("", False, 4, 4, 2, 3))
    told.report.ended(1, Outcome("bad"))
    assert told.report.finish() == FAILED
    assert told.lines == ["voice transcribe: b: bad", "1 failed:", "  b: bad"]


def test_nothing_is_kept_once_all_is_whole(tmp_path: Path) -> None:
    told = Told(tmp_path, "a")
    keep(told, "a")
    told.begin()
    told.report.ended(0, Outcome("", False, 4, 4, 2, 3))
    assert told.report.finish() == WHOLE
    assert not told.kept_in.exists()


def test_what_has_no_file_is_printed(tmp_path: Path, capfdbinary: Any) -> None:
    told = Told(tmp_path, "a")
    told.begin()
    told.report.ended(0, Outcome("", False, 4, 4, 2, 3, given=[b"w\xc3\xb6rter\n"]))
    assert told.report.finish() == WHOLE
    assert capfdbinary.readouterr().out == b"w\xc3\xb6rter\n"


def test_who_stops_is_told_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["voice", "transcribe", "a b", "c", "--resume"])
    told = Told(tmp_path, "a b", "c")
    told.begin()
    told.report.stopped()
    keep(told, "c")
    told.report.ended(0, Outcome("", False, 4, 4, 2, 3))
    told.report.stopped()
    assert told.lines == [
        "stopped: nothing had been heard yet",
        "a b: 0:04 of sound in 2.0 s, 2.0x (RTF 0.50), 3 words",
        "stopped: 1 of 2 files whole.",
        "What was heard of the rest is kept. This goes on with it:",
        "  voice transcribe --resume 'a b' c",
    ]


def test_a_log_that_takes_no_more_is_no_reason_to_stop() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        def write(self, text: str) -> int:
            raise OSError(28, f"No space left on device for {text}")

    console = Console(file=cast("Any", Deaf(Full())))
    console.print("a line")
    assert not console.is_terminal


def test_what_takes_a_while_is_told_where_a_person_looks_on(tmp_path: Path) -> None:
    told = Told(tmp_path)
    with told.report.while_("loading"):
        pass
    assert told.lines == []
    out = io.StringIO()
    report = Report(Console(file=out, force_terminal=True), quiet=False, resume=False)
    with report.while_("loading"):
        pass
    assert "loading …" in out.getvalue()
