import math

import pytest

from loadtest.figures import known_names
from loadtest.slo import DEFAULT, Limit, SloError, breaches, check_names, limits


def test_the_usual_limits_are_on_figures_that_there_are():
    usual = limits([])
    assert [str(limit) for limit in usual] == list(DEFAULT)
    check_names(usual, known_names())


def test_a_later_limit_stands_and_others_stay():
    found = {limit.figure: limit for limit in limits(["ttfs.p95 <= 500", "wer<=0.1"])}
    assert found["ttfs.p95"].value == 500
    assert found["wer"] == Limit("wer", 0.1)
    assert "underruns" in found


def test_none_drops_what_was_before_it():
    assert limits(["ttfa.p50<=1", "none", "answered>=5"]) == [Limit("answered", 5, least=True)]


@pytest.mark.parametrize("text", ["", "ttfs", "ttfs.p95<800", "ttfs.p95<=fast", "ttfs.p95<=1.2.3"])
def test_what_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises((SloError, ValueError)):
        limits([text])


def test_a_figure_that_there_is_not_is_told_with_those_that_there_are():
    with pytest.raises(SloError, match=r"no figure latency\. Known: .*ttfs\.p95"):
        check_names(limits(["latency<=1"]), known_names())


def test_limits_are_kept_or_broken():
    wanted = limits(["none", "ttfs.p95<=800", "underruns<=0", "answered>=5"])
    kept = {"ttfs.p95": 800.0, "underruns": 0.0, "answered": 5.0}
    assert breaches(wanted, kept) == []
    broken = breaches(wanted, {"ttfs.p95": 800.1, "underruns": 1.0, "answered": 4.0})
    assert [str(breach) for breach in broken] == [
        "ttfs.p95<=800: is 800.1", "underruns<=0: is 1", "answered>=5: is 4",
    ]  # fmt: skip


def test_what_was_not_measured_is_broken_unless_nobody_tried():
    wanted = limits(["none", "ttfs.p95<=800", "barge_in.p95<=300"])
    [breach] = breaches(wanted, {"barge_in.p95": None}, ["barge_in"])
    assert str(breach) == "ttfs.p95<=800: was not measured"


def test_what_never_came_is_beyond_any_limit():
    [breach] = breaches(limits(["none", "ttfs.p95<=800"]), {"ttfs.p95": math.inf})
    assert str(breach) == "ttfs.p95<=800: never came"
