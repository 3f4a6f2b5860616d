"""How far it is, in words and as a bar."""

import io

from rich.console import Console

from voice.saying.progress import Pace, Shown


class Watch:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_pace_is_of_what_this_run_has_done() -> None:
    watch = Watch()
    pace = Pace(1_000, before=200, clock=watch)
    assert (pace.share, pace.factor, pace.left_s) == (0.2, None, None)
    assert str(pace) == " 20 %, 0:00 of speech"
    watch.now += 10
    pace.done, pace.sound_ms = 600, 200_000.0
    assert (pace.share, pace.factor, pace.left_s) == (0.6, 0.05, 10.0)
    assert str(pace) == " 60 %, 3:20 of speech, 20x (RTF 0.050), 0:10 left"


def test_lines_now_and_then_where_there_is_no_terminal() -> None:
    watch, out = Watch(), io.StringIO()
    shown = Shown(Console(file=out, width=20), Pace(100, clock=watch), watch)
    with shown.bar.drawn():
        shown.begin("One [b]")
        for done in range(0, 100, 10):
            watch.now += 4
            shown.advance(done, 1_000)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("One [b]:  20 %, 0:03 of speech")


def test_a_bar_on_a_terminal_which_goes() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    shown = Shown(console, Pace(100))
    with shown.bar.drawn():
        shown.begin("One [b]")
        shown.advance(50, 1_000)
        shown.tell("a line that stays")
    assert "One [b]" in out.getvalue()
    assert "50 %" in out.getvalue()
    assert "a line that stays\n" in out.getvalue()
