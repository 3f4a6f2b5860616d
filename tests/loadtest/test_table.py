import io
import re

from rich.console import Console

from loadtest.table import LATENCIES, Live, facts, print_report, told
from tests.loadtest.calling import call, made_report, made_run, turn


def printed(report, width: int = 100) -> str:
    out = io.StringIO()
    print_report(Console(file=out, width=width, highlight=False), report)
    return out.getvalue()


def test_every_figure_has_its_row_and_the_verdict_is_last():
    text = printed(made_report())
    assert re.search(r"to first audio +2 +600 +600 +600 +600 +600", text)
    assert "barge-in, sound to silence" in text
    assert "100.0" not in text.splitlines()[-1]
    assert text.splitlines()[-1].startswith("Kept: ttfs.p95<=800")


def test_what_never_came_is_called_never():
    text = printed(made_report(turns=[turn(outcome="unanswered")]))
    assert re.search(r"to first audio +1 +never", text)
    assert told(None, 0) == "–"
    assert told(12.34, 1) == "12.3"
    assert told(123.4, 1) == "123"


def test_an_invalid_run_says_so_and_claims_nothing():
    text = printed(made_report(troubles=["the server's process ended"]))
    assert "This run is not valid" in text
    assert "the server's process ended" in text
    assert "Kept" not in text


def test_broken_limits_are_named():
    assert "ttfa.p95<=1: is 600" in printed(made_report(slo=("ttfa.p95<=1",)))


def test_names_that_look_like_markup_are_printed_as_they_are():
    refused = call(end="refused", status=503, why="[bold]full[/bold]")
    assert "[bold]full[/bold]" in printed(made_report(calls=[refused]))


def test_scripted_words_are_not_judged():
    made = made_report()
    made.scripted = True
    assert dict(facts(made))["words"].startswith("not measured")
    made.scripted = False
    assert dict(facts(made))["words"] == "0.0 % wrong (WER), 0 of 4 lost"
    assert dict(facts(made_report(turns=[])))["words"] == "none were said"


def test_a_voice_that_tells_nothing_of_itself_has_no_row():
    made = made_report()
    made.figures.tts = {"realtime_factor": 0.0, "tokens_a_second": 93.5}
    rows = dict(facts(made))
    assert rows["tts tokens a second"] == "93.5"
    assert "tts realtime factor" not in rows


def test_every_latency_has_words():
    from loadtest.figures import LATENCIES as NAMES

    assert set(LATENCIES) == set(NAMES)


def shown(live: Live) -> str:
    out = io.StringIO()
    Console(file=out, width=120, highlight=False).print(live)
    return out.getvalue()


def test_progress_is_shown_from_the_first_moment_on():
    live = Live("2 callers")
    assert "made ready" in shown(live)
    live.run = made_run(calls=[call(end="lost")])
    text = shown(live)
    assert "10 of 10 s" in text
    live.run.progress[0].at_s += 1  # the last words of callers come late
    assert "10 of 10 s" in shown(live)
    assert "2 turns, first audio p50 600 p95 600 ms" in text
    assert "1 calls lost" in text
    assert "server 0.70 cores" in text
