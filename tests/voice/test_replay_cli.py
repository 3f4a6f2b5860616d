"""``voice replay``: what it prints, what it writes, and when it fails."""

import argparse
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.voice.recorded import recorded, write
from voice.cli import main
from voice.journal import Step
from voice.replay_cli import add_arguments, run


def replay(*arguments: str, width: int = 100) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    out = io.StringIO()
    status = run(parser.parse_args(arguments), Console(file=out, width=width, highlight=False))
    return status, out.getvalue()


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(write(tmp_path / "call.jsonl", recorded()))


@pytest.fixture
def changed(tmp_path: Path) -> str:
    """A journal whose commands no machine would give."""
    call = recorded()
    for index, entry in enumerate(call.entries):
        if isinstance(entry, Step) and entry.commands:
            call.entries[index] = replace(entry, commands=())
    return str(write(tmp_path / "changed.jsonl", call))


def test_a_call_is_told_line_by_line(journal: str) -> None:
    status, told = replay(journal)
    assert status == 0
    assert told.startswith("Call sess_story\n2026-05-04 12:30:00 UTC, the caller at 24000 Hz")
    for line in [
        "  0:00.672  speech                   0.96 s, -20 dB, speech probability 1.00",
        "  0:00.704  → open turn              turn 1, at 340 ms",
        "  0:02.272  reply text               reply 1, “It is a long story,”",
        "  0:05.024  transcript failed        take 3, reason out of memory",
        "  0:07.296  call closed",
    ]:
        assert line in [printed.rstrip() for printed in told.splitlines()]
    assert told.rstrip().endswith("the turn machine decides as it did.")


def test_long_lines_keep_to_their_column(journal: str) -> None:
    _, told = replay(journal, width=60)
    for line in told.splitlines()[4:-1]:
        assert len(line) <= 60
        assert line[:37].strip() == "" or line[:10].strip()[0].isdigit()


def test_a_call_that_is_decided_otherwise_fails_the_check(changed: str) -> None:
    status, told = replay(changed, "--check")
    assert status == 1
    assert "differ. The first of them:" in told
    assert told.count("\nstep ") == 5
    assert "at 0:00.704: window heard" in told
    assert "  then  nothing\n  now   open turn turn 1, at 340 ms; confirm turn turn 1" in told


def test_without_a_check_a_difference_is_told_and_fails_nothing(changed: str) -> None:
    status, told = replay(changed)
    assert status == 0
    assert "today instead" in told
    assert "differ. The first of them:" in told


def test_a_check_says_no_more_than_it_must(journal: str) -> None:
    status, told = replay(journal, "--check")
    assert status == 0
    assert told.count("\n") == 1


def test_a_page_is_written(journal: str, tmp_path: Path) -> None:
    out = tmp_path / "call.html"
    status, told = replay(journal, "--html", str(out))
    assert status == 0
    assert f"{out}: open it in a browser" in told
    assert "sess_story" in out.read_text("utf-8")


def test_a_journal_that_broke_off_is_told(journal: str) -> None:
    path = Path(journal)
    path.write_bytes(path.read_bytes()[:-4])
    status, told = replay(journal, "--check")
    assert status == 0
    assert "The last line is cut off, and was left out." in told
    assert "The journal ends before the call did" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"RIFF....WAVE", "is not a journal"),
        (b'{"journal":"antiphon","version":99}\n', "version 99"),
    ],
)
def test_what_is_no_journal_is_told_in_a_line(
    content: bytes | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "call.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert main(["replay", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("voice: ")
    assert told in error
    assert error.count("\n") == 1


def test_the_command_is_there(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", journal, "--check"]) == 0
    assert "decides as it did" in capsys.readouterr().out


def test_a_journal_that_is_not_there_is_told_with_where_they_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nope = tmp_path / "nope"
    assert main(["replay", str(nope)]) == 1
    assert capsys.readouterr().err == (
        f"voice: {nope}: cannot be read: No such file or directory."
        " Give a file of the folder journal.dir\n"
    )
