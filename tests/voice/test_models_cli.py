"""``voice models`` as it is typed."""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from engines.catalogue import CATALOGUE, Archive, Member, Model, ModelFile
from engines.models import ModelStore
from voice import models_cli

DATA = b"weights"


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two models: one of a file that needs no network, one of an archive in a local folder."""
    digest = hashlib.sha256(DATA).hexdigest()
    archive = Archive("gone", "1.0", "gone-1.0-py3-none-any.whl", 3 << 20, "0" * 64)
    known = {
        "here": Model("here", "a test", "MIT", (ModelFile("a.bin", 7, digest, (DATA,)),)),
        "gone": Model(
            "gone", "[a] test", "MIT", (ModelFile("b.bin", 7, digest, (Member(archive, "b"),)),)
        ),
    }
    monkeypatch.setattr(models_cli, "ModelStore", functools.partial(ModelStore, catalogue=known))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def voice_models(*words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    models_cli.add_arguments(parser)
    out = io.StringIO()
    console = Console(file=out, width=120)
    status = models_cli.run(parser.parse_args(list(words)), console)
    return status, out.getvalue()


def test_pull_then_list_then_verify(tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path))
    status, said = voice_models("pull", "here", *folder)
    assert status == 0
    assert "here: fetched and verified" in said
    status, said = voice_models("list", *folder)
    assert status == 0
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert "ready" in rows["here"]
    assert "missing" in rows["gone"]
    assert str(tmp_path) in said
    assert voice_models("verify", "here", *folder) == (0, "here: ready\n")


def test_verify_finds_what_was_altered_and_says_what_to_do(tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path))
    voice_models("pull", "here", *folder)
    (tmp_path / "here" / "a.bin").write_bytes(b"weighty")
    status, said = voice_models("verify", *folder)
    assert status == 1
    assert "here: damaged" in said
    assert f"{tmp_path / 'here' / 'a.bin'} has the sha256" in said
    assert "gone: missing" in said
    assert f"`voice models pull here --folder {tmp_path}`" in said


def test_what_is_to_be_fetched_is_told_before_it_is(tmp_path: Path) -> None:
    _, said = voice_models("pull", "--folder", str(tmp_path))
    assert "2 models to fetch, 3 MiB in all" in said


@pytest.mark.parametrize("action", ["pull", "list", "verify"])
def test_each_action_says_what_it_does(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        voice_models(action, "--help")
    assert models_cli._ACTIONS[action] in capsys.readouterr().out


def test_names_are_whole_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    parser = argparse.ArgumentParser()
    models_cli.add_arguments(parser)
    models_cli._list(ModelStore(), Console(file=out, width=80))
    assert all(name in out.getvalue() for name in CATALOGUE)


def test_a_pull_that_fails_is_one_line_and_status_1(tmp_path: Path) -> None:
    status, said = voice_models("pull", "gone", "--folder", str(tmp_path))
    assert status == 1
    [size, line] = [line for line in said.splitlines() if line.strip()]
    assert size == "1 model to fetch, 3 MiB in all"
    assert "offers no gone-1.0-py3-none-any.whl" in line
    assert "pip config list" in line


def test_an_unknown_name_is_told_the_known_ones(tmp_path: Path) -> None:
    status, said = voice_models("verify", "nobody", "--folder", str(tmp_path))
    assert status == 1
    assert "Known: gone, here" in said
    status, said = voice_models("pull", "her", "--folder", str(tmp_path))
    assert status == 1
    assert "Did you mean here?" in said


def test_bars_take_up_a_transfer_where_it_stood() -> None:
    bars = models_cli._Bars(Console(file=io.StringIO()))
    bars.begin("a.whl", 100, 40)
    bars.advance(10)
    bars.begin("b.whl", 10, 0)
    bars.begin("a.whl", 100, 0)
    bars.advance(5)
    [first, second] = bars.progress.tasks
    assert (first.description, first.completed, first.total) == ("a.whl", 5, 100)
    assert (second.description, second.completed) == ("b.whl", 0)
    bars.say("a.whl and b.whl: fetched")
    assert bars.progress.tasks == []


@pytest.mark.parametrize("terminal", [False, True])
def test_a_pull_leaves_a_line_for_each_model_and_nothing_else(
    tmp_path: Path, terminal: bool
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=terminal)
    parser = argparse.ArgumentParser()
    models_cli.add_arguments(parser, tmp_path)
    for said in ("here: fetched and verified", "here: in place"):
        assert models_cli.run(parser.parse_args(["pull", "here"]), console) == 0
        assert shown(out.getvalue()) == [said]
        out.seek(0)
        out.truncate()


def shown(written: str) -> list[str]:
    """What a terminal shows in the end, for the few controls that bars use."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[?\d;]*[A-Za-z]|[\n\r])", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part in ("\r", "\x1b[2K") or not part.startswith("\x1b"):
            lines[row] = lines[row] + part if part[:1] not in ("\r", "\x1b") else ""
    return lines[:-1] if lines[-1] == "" else lines
