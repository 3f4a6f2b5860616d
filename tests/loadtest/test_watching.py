import os

from loadtest.watching import Watch

TOTALS = {"open": 4.0, "talking": 1.0, "speaking": 2.0}


async def looked(monkeypatch, *answers, pid=None):
    answers = list(answers)
    monkeypatch.setattr("loadtest.watching.fetch", lambda *_args: answers.pop(0))
    watch = Watch("http://there", pid)
    samples = [await watch.sample(1.0 + n, TOTALS.__getitem__) for n in range(len(answers))]
    return watch, samples


async def test_a_sample_has_callers_and_gauges(monkeypatch):
    metrics = {
        'antiphon_engine_batch{engine="tts"}': 3.0,
        "python_gc": 1.0,
        'antiphon_engine_wait_seconds_bucket{le="1"}': 9.0,
    }
    _, (first, second) = await looked(monkeypatch, metrics, metrics)
    assert (first.open, first.talking, first.speaking) == (4, 1, 2)
    assert first.gauges == {'antiphon_engine_batch{engine="tts"}': 3.0}
    assert second.cores is None


async def test_what_a_server_said_last_stands_while_it_is_silent(monkeypatch):
    watch, _ = await looked(monkeypatch, {"antiphon_calls": 2.0}, {})
    assert watch.metrics == {"antiphon_calls": 2.0}


async def test_a_process_is_watched(monkeypatch):
    watch, (first, second) = await looked(monkeypatch, {}, {}, pid=os.getpid())
    assert first.cores is None
    assert second.cores >= 0
    assert second.rss_mb > 10
    assert not watch.gone


async def test_a_process_that_ended_is_missed(monkeypatch):
    watch, _ = await looked(monkeypatch, {}, pid=2**22 + 1)
    assert watch.gone
