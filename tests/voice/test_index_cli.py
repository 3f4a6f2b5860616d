"""``voice index``: what a person sees of it, and the exit status."""

import asyncio
import io
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.memory.store import Index
from voice import index_cli
from voice.index_cli import Shown, add_arguments, run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "house"
    made.mkdir()
    (made / "meals.md").write_text("# Meals\nBreakfast is from seven to ten.\n")
    (made / "letter.docx").write_text("x")
    return made


def ask(*words: str) -> tuple[int, str]:
    """The exit status, and what was told."""
    parser = ArgumentParser()
    add_arguments(parser)
    parsed: Namespace = parser.parse_args([*words, "--set", "embedding.engine=scripted"])
    out = io.StringIO()
    return run(parsed, Console(file=out, width=200)), out.getvalue()


def test_a_folder_is_indexed_and_told_of(folder: Path) -> None:
    status, told = ask(str(folder))
    assert status == 0
    assert "left out, not read here: 1 .docx" in told
    assert "house.index: 1 document (1 added, 0 changed, 0 unchanged, 0 removed)," in told
    assert " 1 passage, 1 of them embedded in" in told
    assert Index(Path("house.index")).counts == (1, 1)


def test_what_could_not_be_read_is_listed_and_fails(folder: Path) -> None:
    (folder / "[odd].txt").write_bytes(b"\xff\xfe\xfd")
    status, told = ask(str(folder), "-o", "other.db", "--quiet")
    assert status == 1
    assert told.startswith("[odd].txt: is no text in utf-16")
    assert told.count("\n") == 1
    assert Index(Path("other.db")).counts == (1, 1)


def test_a_folder_without_documents_is_told_in_a_line(tmp_path: Path) -> None:
    status, told = ask(str(tmp_path))
    assert status == 1
    assert told.startswith(f"voice: {tmp_path}: has no documents")


def test_why_all_is_read_again_is_told(folder: Path) -> None:
    ask(str(folder))
    status, told = ask(str(folder), "--set", "embedding.dimensions=32")
    assert status == 0
    assert "made anew: its vectors are those of the model scripted-64" in told


def test_a_stop_says_what_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(work: Any) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", stop)
    status, told = ask(str(folder))
    assert status == 130
    assert "the index is as it was" in told


def test_the_pace_is_told_as_far_as_it_is_known() -> None:
    shown = Shown(Console(file=io.StringIO()), draws=False, tells=True)
    shown.begin(4, 1_000)
    assert shown.words(shown._began) == "0 %, 0 passages"
    shown.advance(200, 50)
    assert shown.words(shown._began + 10) == "20 %, 50 passages, 5 a second, 0:40 left"
    shown.advance(800, 10)
    assert shown.words(shown._began + 20) == "100 %, 60 passages, 3 a second"
    shown.begin(0, 0)
    assert Shown(Console(), draws=False, tells=False).words(0.0).startswith("100 %")


def test_a_line_is_told_now_and_then_where_nothing_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, now = io.StringIO(), 0.0
    monkeypatch.setattr(index_cli.time, "monotonic", lambda: now)
    shown = Shown(Console(file=out), draws=False, tells=True)
    with shown.bar.drawn():
        shown.begin(2, 100)
        for _ in range(5):
            now += 4.0
            shown.advance(10, 1)
    assert out.getvalue() == "30 %, 3 passages, 0 a second, 0:28 left\n"


def test_a_bar_is_drawn_on_a_terminal() -> None:
    out = io.StringIO()
    shown = Shown(Console(file=out, force_terminal=True, width=100), draws=True, tells=True)
    with shown.bar.drawn():
        shown.begin(1, 100)
        shown.advance(100, 7)
    assert "1 document" in out.getvalue()
    assert "7 passages" in out.getvalue()
