"""``voice load`` as people run it: against a scripted server of its own, and gone wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.loadtest.calling import made_report, speech_folder
from voice.cli import main
from voice.load_cli import _status

VOICE = (sys.executable, "-m", "voice.cli")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "0"], "give a whole number from 1"),
        (["-n", "-4"], "give a whole number from 1"),
        (["-n", "many"], "give a whole number from 1"),
        (["--seconds", "0"], "give a number from 1"),
        (["--barge-ins", "2"], "give a number from 0 to 1"),
        (["--wire", "pigeon"], "invalid choice: 'pigeon'. Known:"),
    ],
)
def test_impossible_numbers_are_misuse(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["load", *words])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--slo", "speed<=1"], 2, "there is no figure speed"),
        (["--slo", "ttfs.p95<800"], 2, "write it as FIGURE<=NUMBER"),
        (["--url", "ftp://there"], 1, "is no address: write it as ws://HOST:PORT/v1/realtime"),
        (["--url", "ws://127.0.0.1:1"], 1, "nothing answers at ws://127.0.0.1:1"),
        (["--url", "ws://127.0.0.1:1", "--scripted"], 1, "--url names one"),
        (["--scripted", "--set", "no.such=1"], 1, "there is no such setting"),
        (["--scripted", "--html", "/nowhere/x.html"], 1, "cannot be written"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(words, status, told, tmp_path, capsys):
    speech = str(speech_folder(tmp_path))
    assert main(["load", "--speech", speech, *words]) == status
    assert told in capsys.readouterr().err


def test_a_folder_without_recordings_is_told_before_a_server_is_started(tmp_path, capsys):
    assert main(["load", "--scripted", "--speech", str(tmp_path)]) == 1
    assert "it should hold recordings and transcripts.json" in capsys.readouterr().err


def test_the_status_tells_what_became_of_it():
    broken = made_report(slo=("ttfa.p95<=1",))
    assert _status(made_report(), ()) == 0
    assert _status(broken, ()) == 0
    assert _status(broken, ["a limit"]) == 1
    assert _status(made_report(troubles=["x"]), ["a limit"]) == 3
    assert _status(made_report(interrupted=True, troubles=["x"]), ()) == 130


@pytest.mark.engine
@pytest.mark.slow
def test_a_short_run_against_a_server_of_its_own(tmp_path):
    out, page = tmp_path / "figures.json", tmp_path / "page.html"
    ran = subprocess.run(
        [*VOICE, "load", "-n", "2", "--seconds", "5", "--ramp", "0", "--scripted", "--think", "0",
         "--barge-ins", "0", "--silence-ms", "200", "--json", str(out), "--html", str(page),
         "--slo", "none", "--slo", "ttfs.p95<=30000", "--gate"],
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    figures = json.loads(out.read_text())
    assert figures["figures"]["counts"]["answered"] >= 1, ran.stdout + ran.stderr
    assert figures["figures"]["stage_ms"]["stage.asr"]["n"] >= 1
    assert figures["figures"]["server"]["cores_mean"] > 0
    assert figures["figures"]["latency_ms"]["ttfa"]["p50"] > 100
    assert "to first audio" in ran.stdout
    assert page.read_text().startswith("<!doctype html>")
    # A machine that others use may make the callers late, which is told and no fault of ours.
    assert ran.returncode == (0 if figures["valid"] else 3)


def until(ready, process) -> None:
    """Wait for a line of the process's progress."""
    for line in process.stderr:
        if ready in line:
            return
    raise AssertionError("it ended before it said so")


@pytest.fixture
def running(tmp_path):
    """A run that would last ten minutes, once its callers are on the line."""
    process = subprocess.Popen(
        [*VOICE, "load", "-n", "2", "--seconds", "600", "--ramp", "0", "--scripted",
         "--json", str(tmp_path / "figures.json")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with process:
        until("2 calls", process)
        yield process
        if process.poll() is None:
            process.kill()


def children(pid: int) -> list[int]:
    told = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in told.stdout.split()]


def serving(pids: list[int]) -> list[int]:
    return [pid for pid in pids if b"serve" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("end", [lambda pid: os.killpg(pid, signal.SIGINT),
                                 lambda pid: os.kill(pid, signal.SIGTERM)])  # fmt: skip
def test_a_run_that_is_ended_reports_what_there_is(running, tmp_path, end):
    family = children(running.pid)
    end(running.pid)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted after" in out
    assert json.loads((tmp_path / "figures.json").read_text())["interrupted"]
    deadline = time.monotonic() + 10
    while any(_command(pid) for pid in family):
        assert time.monotonic() < deadline, "a process was left behind"


@pytest.mark.engine
@pytest.mark.slow
def test_a_server_that_dies_ends_a_run_that_is_not_valid(running, tmp_path):
    [server] = serving(children(running.pid))
    os.kill(server, signal.SIGKILL)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 3
    assert "the server's process ended" in " ".join(out.split())
    assert json.loads((tmp_path / "figures.json").read_text())["valid"] is False
