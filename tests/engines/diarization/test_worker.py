"""The process: what it answers, and when it ends."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engines.diarization import worker
from engines.diarization.assembly import Recipe
from engines.diarization.pyannote import COMMAND
from engines.diarization.worker import Done, Failed, Job, Setup, answer_to, prepare

RECIPE = Recipe("", "/no/such/file", "/nor/this", "cpu", 0, 0.1, 1, 1, True, 0.5, 0.26)


def refuse(error: Exception):
    def assemble(recipe):
        raise error

    return assemble


class Annotation:
    """As much of pyannote's as is looked at."""

    class Segment:
        start, end = 0.25, 1.5

    def itertracks(self, yield_label):
        assert yield_label
        yield self.Segment, "_", "SPEAKER_00"


def test_a_missing_package_is_named_with_how_it_is_got(monkeypatch):
    monkeypatch.setattr(worker, "assemble", refuse(ModuleNotFoundError("No module named 'x'")))
    pipeline, answer = prepare(RECIPE)
    assert pipeline is None
    assert isinstance(answer, Failed)
    assert answer.code == "unavailable"
    assert "No module named 'x'" in answer.message
    assert "pip install" in answer.message


def test_a_torchaudio_that_does_not_fit_is_told_with_its_cure(monkeypatch):
    broken = OSError("Could not load this library: lib/torchaudio/lib/_torchaudio.so")
    monkeypatch.setattr(worker, "assemble", refuse(broken))
    _, answer = prepare(RECIPE)
    assert isinstance(answer, Failed)
    assert "remove lib/*.so" in answer.message


def test_a_model_that_is_no_model_is_told(monkeypatch):
    monkeypatch.setattr(worker, "assemble", refuse(KeyError("model_state")))
    _, answer = prepare(RECIPE)
    assert answer == Failed("unavailable", "the models cannot be loaded: 'model_state'")


def test_a_gated_pipeline_is_told_with_what_to_accept(monkeypatch):
    monkeypatch.setattr(worker, "assemble", refuse(RuntimeError("403\nClient Error")))
    recipe = Recipe("pyannote/x", "", "", "cpu", 0, 0.1, 1, 1, True, 0.5, 0.26)
    _, answer = prepare(recipe)
    assert isinstance(answer, Failed)
    assert "pyannote/x cannot be had from the hub: accept its conditions" in answer.message
    assert "403 Client Error" in answer.message


def test_turns_are_in_ms(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "apply", lambda *_: (Annotation(), Annotation()))
    file = tmp_path / "sound.pcm"
    file.write_bytes(np.ones(16_000, np.int16).tobytes())
    turns = [("SPEAKER_00", 250, 1500)]
    assert answer_to(None, Job(str(file), 1, None)) == Done(turns, turns)


@pytest.mark.parametrize("samples", [0, 1, 1_000])
def test_nothing_is_asked_of_the_models_where_there_is_next_to_nothing(tmp_path, samples):
    file = tmp_path / "sound.pcm"
    file.write_bytes(bytes(2 * samples))
    assert answer_to(None, Job(str(file), 1, None)) == Done()


def test_a_job_that_fails_is_told_and_no_more(tmp_path):
    answer = answer_to(None, Job(str(tmp_path / "gone.pcm"), 1, None))
    assert isinstance(answer, Failed)
    assert answer.code == "failed"
    assert "gone.pcm" in answer.message


def start() -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", worker.MODULE]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)


def test_the_process_ends_with_its_stdin():
    with start() as process:
        assert process.communicate(timeout=60) == (b"", None)
    assert process.returncode == 0


def test_no_module_of_the_folder_that_it_is_started_in_is_run(tmp_path):
    (tmp_path / "queue.py").write_text("raise SystemExit(3)")
    ended = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, cwd=tmp_path, timeout=60, check=False)
    assert ended.returncode == 0


def test_the_process_ends_with_its_parent_though_it_stands_still():
    child = (
        "import os, signal; from engines.diarization.worker import die_with_the_parent as die;"
        " die(); print(os.getpid(), flush=True); signal.pause()"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    root, command = Path(__file__).parents[3], [sys.executable, "-c", parent]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=root, start_new_session=True
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        ended = os.pidfd_open(number)
        os.kill(number, signal.SIGSTOP)
        process.kill()
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)


@pytest.mark.torch
@pytest.mark.engine
def test_the_process_answers_a_setup_and_ends_where_it_is_no_use():
    with start() as process:
        setup = msgspec.json.encode(Setup(RECIPE, 1)) + b"\n"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(setup)
        process.stdin.flush()
        answer = msgspec.json.decode(process.stdout.readline(), type=worker.Answer)
        assert isinstance(answer, Failed)
        assert answer.code == "unavailable"
        assert "/no/such/file" in answer.message
        assert process.wait(60) == 0
