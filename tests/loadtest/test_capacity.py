import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.capacity import Capacity, Search, Try, check, find, limited_by, toml
from loadtest.figures import Spread
from tests.loadtest.calling import call, made_report, turn


def holding(limit: int, confirms: int | None = None):
    """An attempt that holds up to so many callers, and when confirming up to ``confirms``."""

    def attempt(callers: int, confirming: bool):
        most = limit if not confirming or confirms is None else confirms
        made = made_report(turns=[turn(), turn(sentence_ms=700.0 if callers <= most else 900.0)])
        made.options = msgspec.structs.replace(made.options, callers=callers)
        return made

    return attempt


@given(st.integers(0, 700), st.integers(1, 100), st.integers(1, 600))
def test_the_largest_number_that_holds_is_found(limit, first, most):
    search, tried = Search(first, most), []
    while (callers := search.next) is not None:
        tried.append(callers)
        assert 1 <= callers <= most
        search.note(callers, held=callers <= limit)
    assert len(tried) == len(set(tried)) <= 25
    best = min(limit, most)
    assert search.low <= best
    assert search.low >= best / 1.05 - 1 or search.low == best


def test_what_was_found_is_confirmed_by_a_longer_run():
    told = []
    found = find(4, 512, holding(23), told.append)
    assert found.callers in (22, 23)
    assert told == found.tries
    assert [each.confirming for each in found.tries] == [False] * (len(told) - 1) + [True]
    assert found.confirmed.options.callers == found.callers


def test_what_is_not_confirmed_is_tried_with_fewer():
    found = find(4, 512, holding(23, confirms=20))
    assert found.callers in (19, 20)
    confirming = [each for each in found.tries if each.confirming]
    assert [each.held for each in confirming][-1]
    assert not confirming[0].held


def test_a_server_that_holds_nobody_has_no_capacity():
    found = find(4, 512, holding(0))
    assert (found.callers, found.confirmed) == (0, None)
    assert "ttfs.p95<=800: is 900" in found.limited_by


def test_a_server_that_holds_all_is_limited_by_nothing():
    found = find(4, 8, holding(99))
    assert found.callers == 8
    assert "nothing up to 8 callers" in found.limited_by


def test_a_run_that_says_nothing_is_made_again():
    reports = [made_report(troubles=["a hiccup"]), made_report(), made_report()]
    told: list[Try] = []
    found = find(1, 1, lambda _callers, _confirming: reports.pop(0), told.append)
    assert found.callers == 1
    assert reports == []
    assert [(each.report.valid, each.confirming) for each in told] == [
        (False, False), (True, False), (True, True)
    ]  # fmt: skip
    assert found.tries == told[1:]


def test_an_interruption_ends_the_search():
    found = find(4, 512, lambda _callers, _confirming: made_report(interrupted=True))
    assert (found.callers, found.interrupted, len(found.tries)) == (0, True, 1)


@pytest.mark.parametrize(("limit", "held"), [(9, True), (8, True), (7, False)])
def test_a_gate_is_one_long_run(limit, held):
    found = check(8, holding(limit))
    assert (found.callers == 8) == held
    assert [each.confirming for each in found.tries] == [True]


def stages(report, **p95):
    report.figures.stage_ms = {
        name.replace("_", ".", 1): Spread(9, p95=value) for name, value in p95.items()
    }
    return report


def tried(callers: int, report, *, held: bool) -> Try:
    return Try(callers, held, False, report)


def test_the_stage_that_grew_the_most_limits():
    least = stages(made_report(), stage_asr=80.0, stage_llm=100.0)
    worst = stages(made_report(slo=("ttfa.p95<=1",)), stage_asr=900.0, stage_llm=300.0)
    told = limited_by([tried(1, least, held=True), tried(8, worst, held=False)], 512)
    assert told.startswith("asr: p95 80 → 900 ms")
    assert "ttfa.p95<=1" in told


def test_of_a_single_try_the_slowest_stage_is_told():
    only = stages(made_report(slo=("ttfa.p95<=1",)), stage_asr=80.0, stage_llm=900.0)
    told = limited_by([tried(1, only, held=False)], 512)
    assert told.startswith("llm, the slowest stage: p95 900 ms")


def test_cpu_is_told_where_it_lacks(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    busy = made_report(slo=("ttfa.p95<=1",))
    busy.figures.server["cores_max"] = 1.9
    assert "CPU is what it lacks: it used 1.9 of 2 cores" in limited_by(
        [tried(4, busy, held=False)], 512
    )


def test_refusals_and_late_callers_are_limits_of_their_own():
    refused = made_report(calls=[call(end="refused", status=503, why="server_full: no")])
    told = limited_by([tried(4, refused, held=False)], 512)
    assert told == "admission: 503 server_full: no"
    late = made_report(troubles=["the callers were late"])
    told = limited_by([tried(4, late, held=False)], 512)
    assert told == "the measurement itself: the callers were late"


def test_the_file_is_toml_that_says_where_it_comes_from():
    report = made_report()
    report.command = 'voice capacity --set llm.model="a\nb"'
    made = Capacity(24, "asr: p95 80 → 900 ms", [Try(24, True, True, report)])
    text = toml(made, "admission.max_calls", "caps/here.toml")
    assert tomllib.loads(text) == {"admission": {"max_calls": 24}}
    for told in (
        "machine:",
        "command:",
        "limits: ttfs.p95<=800",
        "limited by: asr",
        "ttfs.p95 700",
        'include = ["caps/here.toml"]',
    ):
        assert told in text
