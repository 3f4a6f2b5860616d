import io

from rich.console import Console

from loadtest.capacity import Capacity, find
from loadtest.capacity_page import capacity_page, print_capacity, print_try, sessions_plot
from tests.loadtest.calling import made_report, turn


def attempt(callers: int, _confirming: bool):
    late = 700.0 if callers <= 6 else 900.0
    return made_report(turns=[turn(sentence_ms=late), turn(barge="stopped", stop_ms=200.0)])


def printed(show, *arguments) -> str:
    out = io.StringIO()
    show(Console(file=out, width=100, highlight=False), *arguments)
    return out.getvalue()


def test_each_try_is_told_as_it_ends():
    found = find(4, 8, attempt)
    text = "".join(printed(print_try, made) for made in found.tries)
    assert "trying 4 callers: holds  TTFS p95 700 ms" in text
    assert "does not hold" in text
    assert "ttfs.p95<=800: is 900" in text
    assert "confirming 6 callers: holds" in text


def test_an_interrupted_try_says_nothing_of_the_server():
    [made] = find(4, 8, lambda _callers, _confirming: made_report(interrupted=True)).tries
    assert "trying 4 callers: interrupted" in printed(print_try, made)


def test_a_run_that_says_nothing_tells_why():
    reports = [made_report(troubles=["a hiccup"]), made_report(), made_report()]
    told: list[str] = []
    find(4, 4, lambda _callers, _confirming: reports.pop(0),
         lambda made: told.append(printed(print_try, made)))  # fmt: skip
    assert "trying 4 callers: not valid" in told[0]
    assert "a hiccup" in told[0]
    assert "trying 4 callers: holds" in told[1]


def test_the_verdict_is_told():
    found = find(4, 8, attempt)
    text = printed(print_capacity, found)
    assert "Capacity: 6 callers" in text
    assert "yes, confirmed" in text
    assert "Interrupted" in printed(print_capacity, Capacity(0, "", [], interrupted=True))
    assert "not even one caller" in printed(print_capacity, Capacity(0, "x", []))


def test_the_page_has_all_runs_and_the_limit():
    found = find(4, 8, attempt)
    text = capacity_page(found)
    assert "Capacity: 6 callers" in text
    assert text.count("<tr>") > len(found.tries)
    assert "ttfs.p95&lt;=800" in text
    plot = sessions_plot(found.tries)
    assert [x for x, _ in plot.series[0].points] == sorted(float(t.callers) for t in found.tries)


def test_a_try_that_nobody_answered_is_told_and_not_drawn():
    found = find(
        4, 4, lambda _callers, _confirming: made_report(turns=[turn(outcome="unanswered")])
    )
    assert "never" in capacity_page(found)
    assert sessions_plot(found.tries).series[0].points == []


def test_a_search_that_tried_nothing_has_a_page():
    assert "nothing was measured" in capacity_page(Capacity(0, "", []))
