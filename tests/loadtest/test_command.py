import argparse
import signal

import pytest

from loadtest.clips import SpeechError
from loadtest.command import (
    BROKEN,
    INTERRUPTED,
    MISUSED,
    add_common,
    command_line,
    make_run,
    number,
    options_of,
    speech_of,
    tell_errors,
    wanted_server,
    whole,
    write_json,
)
from loadtest.house import House
from loadtest.slo import SloError
from tests.loadtest.calling import made_run, speech_folder


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_common(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "nan", "101"])
def test_a_number_of_callers_is_a_whole_one_within_bounds(text):
    with pytest.raises(argparse.ArgumentTypeError, match="give a whole number from 1 to 100"):
        whole(1, 100)(text)


@pytest.mark.parametrize("text", ["-0.1", "1.1", "half", "nan", "inf"])
def test_a_share_is_a_number_from_0_to_1(text):
    with pytest.raises(argparse.ArgumentTypeError, match="give a number from 0 to 1"):
        number(0, 1)(text)


def test_numbers_are_read():
    assert whole(1, 100)("100") == 100
    assert number(0, 1)("0.25") == 0.25


def test_options_become_a_run(tmp_path):
    speech_folder(tmp_path)
    given = parsed(
        "--speech", str(tmp_path), "--hums", str(tmp_path), "--barge-ins", "0.3", "--think", "800",
        "--api-key", "k", "--silence-ms", "200", "--processes", "3",
    )  # fmt: skip
    with speech_of(given) as speech:
        options = options_of(given, House("ws://there", 7, "it"), speech, 50, 9.0)
    assert (options.callers, options.seconds, options.ramp_s, options.pid) == (50, 9.0, 5.0, 7)
    assert options.habits.barge_ins == 0.3
    assert options.habits.think_ms == (400.0, 1_200.0)
    assert (options.api_key, options.silence_ms, options.processes) == ("k", 200, 3)
    assert options.backchannels == str(tmp_path)
    assert options.caller_cores == ()


def test_a_burst_has_no_ramp_and_a_core_of_the_servers_is_not_the_callers(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2})
    given = parsed("--speech", str(speech_folder(tmp_path)), "--arrivals", "burst",
                   "--server-core", "1")  # fmt: skip
    with speech_of(given) as speech:
        options = options_of(given, House("ws://there", 7, "it"), speech, 50, 9.0)
    assert (options.ramp_s, options.caller_cores) == (0.0, (0, 2))


def test_outputs_that_cannot_be_written_are_told_before_anything_runs(tmp_path):
    given = parsed("--speech", str(speech_folder(tmp_path)), "--html", str(tmp_path / "no" / "x"))

    def work() -> int:
        with speech_of(given):
            return 0

    assert tell_errors("load", work) == BROKEN


def test_a_server_is_what_the_options_say():
    wanted = wanted_server(parsed("--scripted", "--set", "a.b=c", "--server-core", "0"), 9)
    assert (wanted.scripted, wanted.settings, wanted.core, wanted.most_calls) == (
        True, ["a.b=c"], 0, 9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status"),
    [(SloError("a limit"), MISUSED), (SpeechError("a folder"), BROKEN),
     (KeyboardInterrupt(), INTERRUPTED)],
)  # fmt: skip
def test_what_a_person_can_put_right_is_a_line(error, status, capsys):
    def work() -> int:
        raise error

    assert tell_errors("load", work) == status
    told = capsys.readouterr().err
    assert told.startswith("voice load: ")
    assert told.count("\n") == 1


def test_what_a_script_runs_in_its_background_is_ended_by_sigterm():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert tell_errors("load", lambda: signal.raise_signal(signal.SIGTERM) or 0) == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_bug_is_not_hidden():
    def work() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tell_errors("load", work)


def test_keys_are_left_out_of_the_command(monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "load", "--api-key", "secret", "--api-key=secret2", "-n"])
    assert command_line() == "voice load --api-key KEY --api-key=KEY -n"


def test_progress_is_printed_where_nothing_can_be_drawn(monkeypatch, capsys):
    async def run(_options, look, _hopeless):
        made = made_run()
        look(made)
        return made

    monkeypatch.setattr("loadtest.command.run", run)
    make_run(made_run().options, "2 callers")
    assert "2 callers" in capsys.readouterr().err


def test_figures_go_to_a_file_or_are_printed(tmp_path, capsys):
    write_json(str(tmp_path / "x.json"), {"a": 1})
    assert (tmp_path / "x.json").read_text() == '{\n "a": 1\n}\n'
    write_json("-", {"a": 1})
    assert capsys.readouterr().out == '{\n "a": 1\n}\n'
