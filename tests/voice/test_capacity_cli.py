"""``voice capacity``: what it writes, and what its exit status says."""

import errno
import json
import tomllib
from pathlib import Path

import pytest

import voice.capacity_cli
from loadtest.capacity import Capacity, Try
from tests.loadtest.calling import made_report, speech_folder, turn
from voice.capacity_cli import _status
from voice.cli import main
from voice.config import load


@pytest.fixture
def holding(monkeypatch, tmp_path):
    """Runs that hold up to six callers, without a server."""
    asked = []

    def attempt(parsed, _speech, callers, *, confirming):
        asked.append((callers, parsed.confirm if confirming else parsed.seconds))
        sentence_ms = 700.0 if callers <= 6 else 900.0
        return made_report(tuple(parsed.slo), turns=[turn(sentence_ms=sentence_ms)])

    monkeypatch.setattr(voice.capacity_cli, "_attempt", attempt)
    monkeypatch.chdir(tmp_path)
    speech_folder(tmp_path)
    return asked


def capacity(*words: str) -> int:
    return main(["capacity", "--speech", ".", *words])


def test_what_was_found_is_a_configuration(holding, tmp_path, capsys):
    assert capacity("--html", "page.html", "--json", "all.json", "--confirm", "99") == 0
    told = tomllib.loads((tmp_path / "capacity.toml").read_text())
    (tmp_path / "house.toml").write_text('include = ["capacity.toml"]\n')
    assert load(tmp_path / "house.toml").admission.max_calls == 6
    assert [*told.values()] == [{"max_calls": 6}]
    assert holding[-1] == (6, 99.0)
    assert json.loads((tmp_path / "all.json").read_text())["callers"] == 6
    assert "Capacity: 6 callers" in (tmp_path / "page.html").read_text()
    assert 'include = ["capacity.toml"]' in capsys.readouterr().out


def test_the_file_tells_its_own_name(holding, tmp_path):
    assert capacity("--out", "cap.toml") == 0
    assert 'include = ["cap.toml"]' in (tmp_path / "cap.toml").read_text()


def test_help_tells_how_long_it_takes(capsys):
    with pytest.raises(SystemExit):
        main(["capacity", "--help"])
    assert "takes 5 to 10 minutes" in " ".join(capsys.readouterr().out.split())


def test_a_server_that_holds_nobody_writes_nothing(holding, tmp_path):
    assert capacity("--slo", "ttfs.p95<=1") == 1
    assert not (tmp_path / "capacity.toml").exists()


@pytest.mark.parametrize(("callers", "status"), [("6", 0), ("7", 1)])
def test_a_gate_runs_once_and_writes_nothing(holding, tmp_path, callers, status):
    assert capacity("--gate", callers) == status
    assert len(holding) == 1
    assert not (tmp_path / "capacity.toml").exists()


def test_a_file_that_cannot_be_written_is_told_before_the_search(holding, capsys):
    assert capacity("--out", "nowhere/capacity.toml") == 1
    assert "cannot be written" in capsys.readouterr().err
    assert holding == []


def test_what_was_found_is_written_where_the_page_cannot_be(holding, tmp_path, capsys, monkeypatch):
    write_text = Path.write_text

    def full_for_pages(path, *told):
        if path.suffix == ".html":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, *told)

    monkeypatch.setattr(Path, "write_text", full_for_pages)
    assert capacity("--html", "page.html") == 1
    told = "page.html cannot be written: No space left on device."
    assert told in capsys.readouterr().err
    assert (tmp_path / "capacity.toml").exists()


@pytest.mark.parametrize("words", [["--gate", "0"], ["--first", "-1"], ["--seconds", "0"]])
def test_impossible_searches_are_misuse(words):
    with pytest.raises(SystemExit) as ended:
        main(["capacity", *words])
    assert ended.value.code == 2


def test_the_status_tells_callers_that_were_too_slow_from_a_server_that_was():
    late = Try(1, False, False, made_report(troubles=["late"]))
    slow = Try(1, False, False, made_report(slo=("ttfa.p95<=1",)))
    assert _status(Capacity(0, "", [late])) == 3
    assert _status(Capacity(0, "", [slow])) == 1
    assert _status(Capacity(0, "", [], interrupted=True)) == 130
    assert _status(Capacity(3, "", [slow])) == 0
