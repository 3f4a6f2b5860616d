"""How far a run is, as people see it."""

import io
from itertools import count

import pytest
from rich.console import Console

from voice.progress import clock, pace
from voice.transcribing.progress import (
    Bars,
    Course,
    Lines,
    Run,
    Silent,
    lasting,
    shown,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Looks:
    def __init__(self) -> None:
        self.runs: list[Run] = []

    def look(self, run: Run) -> None:
        self.runs.append(run)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0:00"), (59.6, "1:00"), (62, "1:02"), (3_723, "1:02:03"), (-1, "0:00")],
)
def test_times(seconds: float, told: str) -> None:
    assert clock(seconds) == told


def test_paces_and_how_long_it_took() -> None:
    assert (pace(32.4), pace(2.5), pace(0.5)) == (
        "32x (RTF 0.031)",
        "2.5x (RTF 0.40)",
        "0.5x (RTF 2.00)",
    )
    assert (lasting(4.23), lasting(59.5), lasting(123)) == ("4.2 s", "1:00", "2:03")


def test_a_course_in_words() -> None:
    assert Course(3_600).words(100) == "0:00 of 1:00:00 (0 %)"
    assert Course(3_600, 720, 0, 80).words(100) == (
        "12:00 of 1:00:00 (20 %), 36x (RTF 0.028), 1:20 left"
    )
    assert Course(None, 720, 0, 80).words(100) == "12:00, 36x (RTF 0.028)"


def test_what_an_earlier_run_heard_makes_no_rate() -> None:
    assert Course(3_600, 720, 710, 80).rate(100) == 0.5
    assert Course(3_600, 720, 720, 80).rate(100) is None
    assert Course(3_600, 720, 0, 100).rate(100) is None


def test_a_run_knows_how_far_each_file_is_and_all_of_them() -> None:
    now, looks = Clock(), Looks()
    run = Run([("a", 100.0), ("b", 50.0)], now, looks)
    assert list(run.open) == []
    run.reach(0, 30, False)
    now.now = 110
    run.reach(0, 50, True)
    run.reach(0, 40, True)
    assert [(name, course.at_s, course.rate(110)) for name, course in run.open] == [("a", 50, 2)]
    assert run.whole.words(110) == "0:50 of 2:30 (33 %), 2.0x (RTF 0.50), 0:50 left"
    run.reach(1, 60, False)
    assert run.courses[1].seems_s == 60
    run.end(0, 102)
    run.end(1)
    assert list(run.open) == []
    assert (run.whole.at_s, run.whole.seems_s) == (162, 162)
    assert len(looks.runs) == 6


def test_where_one_length_is_not_known_that_of_all_is_not() -> None:
    run = Run([("a", 100.0), ("b", None)], Clock(), Looks())
    assert run.whole.seems_s is None
    run.end(1, 5)
    assert run.whole.seems_s == 105


def told(*, terminal: bool, files: int) -> str:
    now, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    names = [(f"folder/{'long' * 20}[b]{number}.mp3", 60.0) for number in range(files)]
    with shown(console, quiet=False) as show:
        run = Run(names, now, show)
        for step in count():
            now.now += 2
            run.reach(0, 10.0 * step, step > 0)
            if step == 4:
                break
        run.end(0, 60)
        now.now += 6
        run.reach(files - 1, 5, True)
    return out.getvalue()


def test_lines_come_now_and_then_and_not_at_every_step() -> None:
    lines = told(terminal=False, files=2).splitlines()
    name = f"folder/{'long' * 20}[b]0.mp3"
    assert lines == [
        f"{name}: 0:30 of 1:00 (50 %), 5.0x (RTF 0.20), 0:06 left",
        "0 of 2 files: 0:30 of 2:00 (25 %), 5.0x (RTF 0.20), 0:18 left",
        "1 of 2 files: 1:05 of 2:00 (54 %), 4.6x (RTF 0.22), 0:12 left",
    ]


def test_bars_are_drawn_for_each_file_and_for_all() -> None:
    drawn = told(terminal=True, files=2)
    assert "longlong[b]0.mp3" in drawn
    assert "1 of 2 files" in drawn
    assert "1:05 of 2:00 (54 %), 4.6x (RTF 0.22), 0:12 left" in drawn
    assert "0 of 1 files" not in told(terminal=True, files=1)


def test_quiet_is_quiet() -> None:
    out = io.StringIO()
    with shown(Console(file=out, force_terminal=True), quiet=True) as show:
        Run([("a", 1.0)], Clock(), show).reach(0, 1, True)
    assert isinstance(show, Silent)
    assert out.getvalue() == ""
    assert not isinstance(show, Lines | Bars)
