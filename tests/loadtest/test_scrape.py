import http.server
import threading

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from loadtest.scrape import added, fetch, histograms, label, parse


@pytest.fixture
def registry():
    return CollectorRegistry()


def scraped(registry):
    return parse(generate_latest(registry).decode())


def test_what_prometheus_writes_is_read(registry):
    Gauge("calls", "c", registry=registry).set(3)
    Counter("turns", "t", ["outcome"], registry=registry).labels("heard").inc(2)
    found = scraped(registry)
    assert found["calls"] == 3.0
    assert found['turns_total{outcome="heard"}'] == 2.0


def test_a_run_is_what_came_in_between(registry):
    stage = Histogram("stage_seconds", "s", ["stage"], buckets=(0.1, 0.2, 0.4), registry=registry)
    stage.labels("asr").observe(5.0)
    before = scraped(registry)
    for value in (0.15, 0.15, 0.15, 0.3):
        stage.labels("asr").observe(value)
    stage.labels("llm")
    [(name, histogram)] = histograms(before, scraped(registry)).items()
    assert name == 'stage_seconds{stage="asr"}'
    assert histogram.count == 4
    assert histogram.quantile(0.75) == pytest.approx(0.2)
    assert histogram.quantile(0.375) == pytest.approx(0.15)
    assert histogram.quantile(1.0) == pytest.approx(0.4)


def test_beyond_the_last_bound_nothing_is_known(registry):
    plain = Histogram("lag_seconds", "s", buckets=(0.1,), registry=registry)
    plain.observe(7.0)
    [histogram] = histograms({}, scraped(registry)).values()
    assert histogram.quantile(0.5) == pytest.approx(0.1)


def test_counters_gain(registry):
    turns = Counter("turns", "t", ["outcome"], registry=registry)
    turns.labels("heard").inc(2)
    before = scraped(registry)
    turns.labels("heard").inc(3)
    turns.labels("empty").inc()
    gained = added(before, scraped(registry), "turns_total")
    assert gained == {'{outcome="heard"}': 3.0, '{outcome="empty"}': 1.0}
    assert added({}, {}, "turns_total") == {}


def test_labels_are_read():
    assert label('x{stage="asr",engine="a b"}', "engine") == "a b"
    assert label("x", "engine") == ""


def test_a_server_that_says_nothing_has_no_metrics():
    assert fetch("http://127.0.0.1:1") == {}
    assert fetch("nonsense") == {}


def test_metrics_are_fetched_with_the_key():
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"# HELP calls c\ncalls 4.0\n")

        def log_message(self, *_args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        found = fetch(f"http://127.0.0.1:{server.server_port}", "secret")
        thread.join()
    assert found == {"calls": 4.0}
    assert asked == [("/metrics", "Bearer secret")]
