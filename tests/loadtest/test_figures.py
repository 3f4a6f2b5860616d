import pytest

from loadtest.figures import (
    COUNTS,
    LATENCIES,
    Sample,
    batches,
    counts,
    gpu_load,
    latencies,
    sender,
    server_load,
    short,
    spread,
    stages,
)
from loadtest.machine import GpuState
from loadtest.scrape import Histogram
from loadtest.ticker import Lateness
from tests.loadtest.calling import call, turn


def test_quantiles_are_values_that_were_measured():
    made = spread(range(1, 101))
    assert (made.n, made.p50, made.p90, made.p95, made.p99, made.max) == (100, 51, 91, 96, 100, 100)
    assert spread([]).p50 is None


def test_what_never_came_is_longer_than_anything():
    made = spread([1.0] * 94 + [None] * 6)
    assert (made.p50, made.p90, made.p95, made.max) == (1.0, 1.0, None, None)


def test_latencies_of_turns_and_calls():
    turns = [
        turn(gaps_ms=[40.0, 41.0]),
        turn(first_audio_ms=700.0, sentence_ms=None, barge="stopped", stop_ms=200.0),
        turn(outcome="unanswered", first_audio_ms=None, commit_ms=None),
        turn(outcome="early", first_audio_ms=None),
        turn(outcome="hung_up"),
        turn(barge="missed"),
        turn(barge="moot"),
    ]
    calls = [call(), call(end="refused", status=503, answer_ms=12.0), call(end="failed", status=0)]
    found = latencies(turns, calls)
    assert set(found) == set(LATENCIES)
    assert (found["ttfa"].n, found["ttfa"].max) == (5, None)
    assert found["ttfs"].n == 4
    assert (found["barge_in"].n, found["barge_in"].p50, found["barge_in"].max) == (2, None, None)
    assert found["gap"].max == 41.0
    assert (found["reply"].p50, found["reply"].max) == (20.0, 220.0)
    assert (found["connect"].n, found["refusal"].max) == (1, 12.0)


def test_counts_have_their_names_and_are_right():
    turns = [
        turn(underruns=2, underrun_ms=90.0, cuts=1),
        turn(heard="forward", backchannel=True, false_stops=1),
        turn(outcome="unanswered", heard=""),
        turn(outcome="unfinished", heard=""),
        turn(outcome="hung_up", heard=""),
        turn(barge="missed"),
    ]
    calls = [call(), call(end="lost", errors=["x"]), call(end="refused"), call(phantoms=2)]
    found = counts(turns, calls)
    assert set(found) | {"resumed"} == set(COUNTS)  # that one the server tells
    assert found["turns"] == 4
    assert (found["underruns"], found["underrun_ms"], found["cuts"]) == (2, 90.0, 1)
    assert (found["barge_ins"], found["missed_barge_ins"], found["false_barge_ins"]) == (1, 1, 1)
    assert (found["words"], found["words_lost"]) == (8, 3)
    assert found["wer"] == pytest.approx(3 / 8)
    assert (found["lost"], found["refused"], found["phantoms"], found["errors"]) == (1, 1, 2, 1)


HISTOGRAM = Histogram((0.1, float("inf")), (4.0, 4.0))


def test_histograms_get_short_names_and_milliseconds():
    found = {'antiphon_stage_seconds{stage="asr"}': HISTOGRAM, "antiphon_batch_rows": HISTOGRAM}
    assert stages(found)["stage.asr"].p50 == pytest.approx(50.0)
    assert batches(found)["batch_rows"].max == pytest.approx(0.1)
    assert set(stages(found)) == {"stage.asr"}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("antiphon_loop_lag", "loop_lag"),
        ('antiphon_stage{stage="asr"}', "stage.asr"),
        ('x{a="1",b="2"}', "x.1.2"),
    ],
)
def test_names_as_people_read_them(key, name):
    assert short(key) == name


def test_callers_account_for_themselves():
    late = Lateness({0: 99, 150: 1})
    made = sender(late, cpu_s=0.64, session_s=640.0)
    assert (made.late_p50_ms, made.late_max_ms) == (0.1, 15.1)
    assert made.cpu_ms_per_session_second == 1.0
    assert sender(Lateness(), 1.0, 0.0).cpu_ms_per_session_second == 0.0


def sample(**changes):
    return Sample(**({"at_s": 1.0, "open": 4, "talking": 2, "speaking": 2} | changes))


def test_what_a_server_uses():
    samples = [sample(), sample(cores=0.4, rss_mb=80.0), sample(cores=0.8, rss_mb=90.0)]
    assert server_load(samples) == {
        "cores_mean": 0.6,
        "cores_max": 0.8,
        "cpu_ms_per_session_second": 150.0,
        "rss_mb_first": 80.0,
        "rss_mb_max": 90.0,
    }
    assert set(server_load([]).values()) == {None}


def test_what_gpus_do():
    gpus = [GpuState("a", 100, 200, 0.5), GpuState("b", 50, 200)]
    assert gpu_load([sample(gpus=gpus)]) == {
        "busy_p50": 0.5, "busy_max": 0.5, "memory_mib_max": 150,
    }  # fmt: skip
    assert set(gpu_load([sample()]).values()) == {None}
