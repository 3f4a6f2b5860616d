"""Times and rates in words, and a bar."""

import io

from rich.console import Console

from voice.progress import Bar, clock, counted, pace


def test_times_and_rates_as_people_write_them() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 3_599, 3_661)] == [
        *("0:00", "1:00", "59:59"),
        "1:01:01",
    ]
    assert (pace(1 / 0.5), pace(1 / 0.031)) == ("2.0x (RTF 0.50)", "32x (RTF 0.031)")


def test_one_is_not_several() -> None:
    told = [counted(number, "call") for number in (0, 1, 2)]
    assert told == ["0 calls", "1 call", "2 calls"]
    assert counted(2, "process", "processes") == "2 processes"


def test_a_bar_is_there_while_it_is_drawn_where_it_is_wanted() -> None:
    for draws in (True, False):
        out = io.StringIO()
        bar = Bar(Console(file=out, force_terminal=True, width=100), draws=draws)
        with bar.drawn():
            bar.title("One [b]")
            bar.show(0.5, "half of it")
        assert ("One [b]" in out.getvalue() and "half of it" in out.getvalue()) == draws
