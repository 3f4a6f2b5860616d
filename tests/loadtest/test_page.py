import re
from html.parser import HTMLParser

from loadtest.figures import Sample
from loadtest.page import by_sessions, by_speaking, page, usage
from loadtest.report import Point
from tests.loadtest.calling import call, made_report, turn


class Checked(HTMLParser):
    """Holds that every tag is closed, and collects what is loaded from elsewhere."""

    VOID = ("meta", "br", "line", "rect", "circle", "polyline")

    def __init__(self):
        super().__init__()
        self.open, self.loaded = [], []

    def handle_starttag(self, tag, attrs):
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass


def test_the_page_is_whole_and_needs_nothing_else():
    text = page(made_report())
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert checked.loaded == []
    assert "http" not in re.sub(r"voice serve|ws://\S+", "", text).replace("http-equiv", "")
    assert "<script" not in text
    assert "__" not in text


def test_the_verdict_is_on_it():
    assert "All limits were kept" in page(made_report())
    assert "ttfa.p95&lt;=1: is 600" in page(made_report(slo=("ttfa.p95<=1",)))
    assert "This run is not valid" in page(made_report(turns=[]))


def test_what_a_server_says_is_no_markup():
    text = page(made_report(calls=[call(end="refused", status=503, why="<script>")]))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_a_run_of_nothing_has_a_page():
    assert "nothing was measured" in page(made_report(turns=[], samples=[], calls=[]))
    assert "Latency over time" in page(made_report(turns=[turn(outcome="unanswered")]))


def test_what_was_not_measured_has_no_picture():
    text = page(made_report(turns=[], calls=[]))
    assert "Sessions against p95" not in text
    assert "nothing was measured" not in text


def point(open_calls: int, ttfa: float) -> Point:
    return Point(at_s=1.0, open=open_calls, ttfa=ttfa, ttfs=None, onset=None, answered=True)


def test_sessions_against_p95_needs_enough_turns_a_group():
    plot = by_sessions([point(2, 100.0)] * 4 + [point(9, 300.0)] * 3)
    assert plot.series[0].points == [(2.0, 100.0)]


def test_batches_are_drawn_as_the_server_counts_them():
    before = {}
    rows = 'antiphon_batch_rows_{}{{engine="vad",speaking="{}"}}'
    after = {rows.format("sum", 8): 60.0, rows.format("count", 8): 10.0,
             rows.format("sum", 2): 18.0, rows.format("count", 2): 10.0}  # fmt: skip
    [vad] = by_speaking(made_report(before=before, after=after)).series
    assert (vad.name, vad.points) == ("vad", [(2.0, 1.8), (8.0, 6.0)])


def test_of_a_server_that_counts_none_the_last_batches_are_drawn():
    gauges = {'antiphon_engine_batch{engine="tts"}': 3.0,
              'antiphon_engine_speaking{engine="tts"}': 4.0}  # fmt: skip
    sample = Sample(at_s=1.0, open=8, talking=0, speaking=4, gauges=gauges)
    [tts] = by_speaking(made_report(samples=[sample])).series
    assert (tts.name, tts.points) == ("tts", [(4.0, 3.0)])


def test_what_is_not_known_of_a_server_is_not_drawn():
    assert usage([Sample(at_s=1.0, open=1, talking=0, speaking=0)]).series == []
