import msgspec
import pytest

from loadtest.load import Options
from loadtest.records import Progress
from loadtest.report import broken_for_good, report
from loadtest.slo import limits
from tests.loadtest.calling import call, made_report, made_run, turn


def test_a_good_run_is_valid_and_keeps_its_limits():
    made = made_report()
    assert made.valid
    assert made.kept
    assert made.figures.counts["answered"] == 2
    assert made.figures.latency_ms["ttfa"].max == 600.0
    assert [point.open for point in made.points] == [2, 2]


def test_callers_that_were_late_make_a_run_invalid():
    late = Progress(
        at_s=10.0, open=2, talking=0, speaking=0, cpu_s=0.01, session_s=20.0, late={150: 10}
    )
    made = made_report(progress={0: late})
    assert not made.valid
    assert not made.kept
    assert "late: 15.1 ms at p99" in made.invalid_because[0]


def test_callers_that_cost_much_are_noted():
    dear = Progress(at_s=10.0, open=2, talking=0, speaking=0, cpu_s=0.05, session_s=20.0)
    made = made_report(progress={0: dear})
    assert made.valid
    assert any("2.5 ms of CPU a session-second, more than 1" in note for note in made.notes)


def test_a_run_without_a_turn_says_why():
    refused = call(end="refused", status=503, why="server_full: no")
    made = made_report(turns=[], calls=[refused])
    assert made.invalid_because == ["no turn was completed: 503 server_full: no"]
    assert made.refusals == {"503 server_full: no": 1}


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([], "nobody got through"),
        ([call(frames=0)], "the server took the calls, and never answered session.update"),
        ([call(frames=50)], "the run was too short"),
        ([call(end="failed", status=0, why="no answer")], "no answer"),
    ],
)
def test_why_nobody_spoke_is_told(calls, why):
    made = made_report(turns=[], calls=calls, progress={})
    assert made.invalid_because == [f"no turn was completed: {why}"]


def test_turns_of_the_ramp_do_not_count():
    run = made_run(turns=[turn(at_s=1.0, first_audio_ms=9_000.0), turn(at_s=6.0)])
    run.options = msgspec.structs.replace(run.options, ramp_s=5.0)
    made = report(run, [], command="", server="")
    assert made.figures.latency_ms["ttfa"].max == 500.0
    assert len(made.points) == 2


def test_broken_limits_are_told():
    made = made_report(slo=("ttfa.p95<=550", "barge_in.p95<=100"))
    assert [str(breach) for breach in made.breaches] == [
        "barge_in.p95<=100: is 200", "ttfa.p95<=550: is 600",
    ]  # fmt: skip
    assert not made.kept


def test_replies_that_never_came_break_their_limit():
    made = made_report(turns=[turn(), *[turn(outcome="unanswered")] * 3])
    assert [str(breach) for breach in made.breaches] == ["ttfs.p95<=800: never came"]
    assert msgspec.json.decode(msgspec.json.encode(made))["breaches"][0]["value"] is None


def test_a_limit_on_what_nobody_did_is_not_broken():
    made = made_report(turns=[turn()])
    assert made.breaches == []
    assert any("nobody broke into a reply" in note for note in made.notes)


def test_trouble_and_interruption_are_told():
    made = made_report(troubles=["the server's process ended"], interrupted=True)
    assert made.invalid_because == ["the server's process ended"]
    assert made.interrupted
    assert any(note.startswith("interrupted after 10 s") for note in made.notes)


def test_what_is_counted_may_break_a_limit_before_the_end():
    wanted = limits(["none", "underruns<=1", "lost<=0", "ttfs.p95<=1"])
    run = made_run(turns=[turn(underruns=1)])
    assert broken_for_good(wanted, run) == ""
    run.turns.append(turn(underruns=1))
    assert broken_for_good(wanted, run) == "underruns<=1 is broken"
    run = made_run(turns=[], calls=[call(end="lost")])
    run.given_up = broken_for_good(wanted, run)
    assert run.given_up == "lost<=0 is broken"
    made = report(run, wanted, command="", server="")
    assert any(note.startswith("given up after") for note in made.notes)


def test_keys_are_not_told():
    run = made_run()
    run.options = msgspec.structs.replace(run.options, api_key="secret")
    made = report(run, limits([]), command="", server="")
    assert b"secret" not in msgspec.json.encode(made)


def test_what_the_voice_tells_of_itself_is_kept():
    run = made_run()
    key, gauge = "antiphon_tts_tokens_total", "antiphon_tts_realtime_factor"
    run.before, run.after = {key: 100.0}, {key: 600.0}
    for sample, value in zip(run.samples, (0.5, 0.7), strict=True):
        sample.gauges.update({key: 0.0, gauge: value})
    made = report(run, [], command="", server="")
    assert made.figures.tts == {"tokens_a_second": 100.0, "realtime_factor": 0.7}


def test_a_report_survives_json():
    made = made_report()
    text = msgspec.json.encode(made)
    assert msgspec.json.decode(text)["options"]["callers"] == 2
    assert msgspec.json.decode(msgspec.json.encode(made.options), type=Options) == made.options


@pytest.mark.parametrize("scripted", [True, False])
def test_word_errors_of_a_scripted_recogniser_are_noted(scripted):
    made = report(made_run(), [], command="", server="", scripted=scripted)
    assert any("scripted" in note for note in made.notes) == scripted


def test_replies_that_the_server_took_up_again_are_counted():
    key = 'antiphon_interruptions_total{meant="%s"}'
    before = {key % "false": 1.0, key % "true": 1.0}
    made = made_report(before=before, after={key % "false": 3.0, key % "true": 9.0})
    assert made.figures.counts["resumed"] == 2
