"""``voice build`` as it is typed, and as it looks."""

import argparse
import io

import pytest
from rich.console import Console

from engines.build.manifest import Fidelity, FileRecord, Manifest, Source, verify_manifest
from engines.build.orpheus import OrpheusBuild
from engines.build.whisper import WhisperBuild
from loadtest import tiny_whisper
from voice import build_cli


def parse(*words):
    parser = argparse.ArgumentParser()
    build_cli.add_arguments(parser)
    parser.set_defaults(run=build_cli.run)  # as the command's parser has it
    return parser.parse_args(words)


def look(*words, terminal=False):
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
    status = build_cli.run(parse(*words), console)
    return status, console.file.getvalue()


@pytest.fixture
def asked(monkeypatch):
    """What would have been built."""
    builds = []

    def built(build, steps):
        builds.append(build)
        steps.begin("hash", "B", 24_700_000)
        steps.advance(24_700_000)
        steps.end()
        steps.begin("generate", "tokens", 840)
        steps.advance(264)
        steps.end()
        files = {"model.safetensors": FileRecord(3_400_000_000, ""), "a": FileRecord(9, "")}
        fidelity = Fidelity(1, 1, 0.0, 0.0, 1.0)
        kind = type(build).__name__.removesuffix("Build").lower()
        return Manifest(kind, "fp8", Source("a", "", {}), {}, files, fidelity)

    monkeypatch.setattr(build_cli, "build_orpheus", built)
    monkeypatch.setattr(build_cli, "build_whisper", built)
    return builds


def test_without_options_the_published_models_are_built(asked, tmp_path):
    look("orpheus", "--out", str(tmp_path / "o"))
    look("whisper", "--out", str(tmp_path / "w"))
    assert asked == [OrpheusBuild(out=tmp_path / "o"), WhisperBuild(out=tmp_path / "w")]


def test_each_option_reaches_the_build(asked, tmp_path):
    look(
        *("orpheus", "--model", "own/orpheus", "--revision", "v2", "--out", str(tmp_path)),
        *("--precision", "bf16", "--calibrate", "lines.txt", "--samples", "5", "--frames", "6"),
        *("--held-out", "7", "--seed", "8", "--device", "cuda:1", "--max-kl", "0.5"),
        *("--min-agreement", "0.9", "--force"),
    )
    [build] = asked
    usual = OrpheusBuild()
    changed = [name for name in build.__slots__ if getattr(build, name) != getattr(usual, name)]
    assert changed == list(build.__slots__)
    assert (build.samples, build.frames, build.held_out, build.seed) == (5, 6, 7, 8)


def test_each_step_leaves_a_line_with_its_rate(asked, tmp_path):
    status, seen = look("orpheus", "--out", str(tmp_path))
    assert status == 0
    first, second, last = seen.splitlines()
    assert first.startswith("hash: 24.7 MB in ")
    assert first.endswith("B/s")
    assert second.startswith("generate: 264 tokens in ")
    assert second.endswith(" tokens/s")
    assert last == (
        f"built {tmp_path}: fp8, 3.4 GB in 2 files, verified; name the folder as [tts] model"
    )


def test_a_terminal_sees_a_bar(asked, tmp_path):
    status, seen = look("whisper", "--out", str(tmp_path), terminal=True)
    assert status == 0
    assert "hash" in seen
    assert "[asr] model" in seen


def test_a_failure_is_one_line_and_a_status(tmp_path):
    words = ("--model", "./nothing", "--out", str(tmp_path / "o"), "--precision", "bf16")
    status, seen = look("orpheus", *words)
    assert status == 1
    assert seen.startswith("there is no folder ./nothing")
    assert seen.count("\n") == 1


def test_a_kind_and_a_folder_are_asked_for(capsys):
    for words in ([], ["orpheus"], ["orpheus", "--out", "a", "--precision", "int4"]):
        with pytest.raises(SystemExit):
            parse(*words)
    assert "--out" in capsys.readouterr().err


@pytest.mark.torch
def test_a_tiny_whisper_is_built_from_the_command_line(tmp_path):
    tiny_whisper.write(tmp_path / "tiny")
    out = tmp_path / "built"
    status, seen = look("whisper", "--model", str(tmp_path / "tiny"), "--out", str(out))
    assert (status, verify_manifest(out).kind) == (0, "whisper")
    assert "same likeliest token" in seen
    status, seen = look("whisper", "--model", str(tmp_path / "tiny"), "--out", str(out))
    assert status == 1
    assert "is there already" in seen


@pytest.mark.parametrize(("kind", "word"), [("orpheus", "HF_TOKEN"), ("whisper", "2 GB")])
def test_help_tells_defaults_and_what_must_be_there(
    capsys: pytest.CaptureFixture[str], kind: str, word: str
) -> None:
    parser = argparse.ArgumentParser()
    build_cli.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([kind, "--help"])
    said = capsys.readouterr().out
    assert "(default: cpu)" in said
    assert "[build]" in said
    assert word in said
