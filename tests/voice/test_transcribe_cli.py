"""``voice transcribe`` as people run it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.voice.transcribing.test_batch import speech
from voice.cli import main

ROOT = Path(__file__).parents[2]
ENGINES = ("--asr", "tests.fakes.levels", "--set", "vad.engine=tests.fakes.loudness")


@pytest.fixture(autouse=True)
def _ones_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)  # the tests go on at their own
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("VOICE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return speech(tmp_path / "talk.wav", 40, 50)


def transcribe(*words: Any) -> int:
    return main(["transcribe", *ENGINES, *map(str, words)])


def test_one_file_is_printed_as_text(talk: Path, capfd: Any) -> None:
    assert transcribe(talk) == 0
    out, err = capfd.readouterr()
    assert out == "w40\nw50\n"
    assert err.startswith(f"{talk}: 0:04 of sound in ")
    assert err.endswith(", 2 words\n")
    assert err.count("\n") == 1
    assert not (talk.parent / "cache/antiphon/unfinished").exists()


def test_one_file_is_printed_in_another_format(talk: Path, capfd: Any) -> None:
    assert transcribe(talk, "--format", "json", "--words", "--language", "de", "--quiet") == 0
    out, err = capfd.readouterr()
    told = json.loads(out)
    assert (told["text"], told["languages"]) == ("w40 w50", [{"code": "de"}])
    assert [word["word"] for word in told["words"]] == ["w40", "w50"]
    assert err == ""


def test_a_folder_is_one_job(tmp_path: Path, talk: Path, capfd: Any) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    speech(tmp_path / "in/deep/a.flac", 60)
    speech(tmp_path / "in/a.wav", 70)
    (tmp_path / "in/readme").write_text("words")
    out = tmp_path / "out"
    formats = ("--format", "srt", "--format", "verbose_json", "--format", "text")
    assert transcribe(tmp_path / "in", talk, "--output", out, *formats) == 0
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "a.srt",
        "a.txt",
        "a.verbose.json",
        "deep/a.srt",
        "deep/a.txt",
        "deep/a.verbose.json",
        "talk.srt",
        "talk.txt",
        "talk.verbose.json",
    ]
    assert (out / "deep/a.txt").read_text() == "w60\n"
    told = capfd.readouterr().err
    assert "passed over: 1 file without sound in it\n" in told
    assert "3 of 3 files whole: 0:08 of sound in " in told
    assert not (out / ".unfinished").exists()


def test_doubts_are_told_with_their_utterance_and_counted(talk: Path, capfd: Any) -> None:
    assert transcribe(talk, "--format", "verbose_json", "--set", "asr.doubts=w50") == 0
    out, err = capfd.readouterr()
    first, second = json.loads(out)["segments"]
    assert ("suspicion" in first, second["suspicion"]) == (False, "loop")
    assert err.endswith("2 words; doubted or heard again: loop 1\n")


HALVES = ("--set", "diarization.engine=tests.fakes.halves")


def test_speakers_are_told_apart_beside(talk: Path, capfd: Any) -> None:
    assert transcribe(talk, "--diarize", *HALVES) == 0
    assert capfd.readouterr().out == "Speaker 1: w40\nSpeaker 2: w50\n"
    assert transcribe(talk, "--format", "diarized_json", "--speakers", "2", *HALVES) == 0
    segments = json.loads(capfd.readouterr().out)["segments"]
    assert [(each["speaker"], each["text"]) for each in segments] == [("A", "w40"), ("B", "w50")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*HALVES, "--set", "diarization.fails=it does"), "talk.wav: halves: it does\n"),
        (("--set", "asr.fails_on=w50", *HALVES), "levels: fails as it was told to\n"),
        (("--set", "diarization.engine=none"), "voice: diarization: there is none"),
    ],
)
def test_speakers_that_cannot_be_told_apart(words: Any, told: str, talk: Path, capfd: Any) -> None:
    assert transcribe(talk, "--diarize", *words) == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["talk.wav", "--speakers", "0"], "'0': give a whole number from 1 to 100"),
        ([], "the following arguments are required: FILE|FOLDER"),
        (["talk.wav", "talk.wav"], "several files go: --output DIR"),
        (["."], "several files go: --output DIR"),
        (["talk.wav", "--format", "srt", "--format", "vtt"], "several formats go: --output DIR"),
        (["talk.wav", "--format", "pdf"], "invalid choice: 'pdf'"),
    ],
)
def test_misuse(words: list[str], told: str, talk: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(talk.parent)
    with pytest.raises(SystemExit) as ended:
        main(["transcribe", *words])
    assert ended.value.code == 2
    assert told in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--asr", "nothing"], "voice: asr.engine: there is no nothing. Known: "),
        (["--set", "asr.no=1"], "voice: asr.no: there is no such setting"),
        (["--output", "/dev/null"], "voice: /dev/null: is a file: --output wants a folder\n"),
        (["--output", "/proc/x"], "voice: /proc/x: No such file or directory\n"),
    ],
)
def test_what_cannot_be_begun_is_one_line(
    words: list[str], told: str, talk: Path, capfd: Any
) -> None:
    assert transcribe(talk, *words) == 1
    err = capfd.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_recogniser_that_is_named_has_no_options_of_another(
    talk: Path, tmp_path: Path, capfd: Any
) -> None:
    config = tmp_path / "voice.toml"
    config.write_text('[asr]\nengine = "scripted"\ntext = "hello"\n')
    assert main(["transcribe", str(talk), "--config", str(config), *ENGINES[2:]]) == 0
    assert capfd.readouterr().out == "hello\nhello\n"
    assert transcribe(talk, "--config", config) == 0
    assert capfd.readouterr().out == "w40\nw50\n"


def test_text_that_nobody_reads_is_no_traceback(talk: Path) -> None:
    command = [sys.executable, "-m", "voice.cli", "transcribe", *ENGINES, str(talk)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        "voice transcribe: the text cannot be printed: Broken pipe"
    ]


# --- stopped and gone on with ---------------------------------------------------------------


@pytest.mark.parametrize("key", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_goes_on_later_and_nothing_is_lost_or_twice(
    key: signal.Signals, tmp_path: Path
) -> None:
    files = [speech(tmp_path / f"{n}.wav", *range(n, n + 20)) for n in (40, 70, 100)]
    out, heard = tmp_path / "out", tmp_path / "heard"
    command = [sys.executable, "-m", "voice.cli", "transcribe", *map(str, files)]
    command += ["--output", str(out), *ENGINES, "--set", f"asr.heard={heard}"]
    command += ["--set", "asr.hangs_on=w80", "--set", f"asr.hangs={files[0]}.hangs"]
    hangs = Path(f"{files[0]}.hangs")
    hangs.touch()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "hangs\n"
        running.send_signal(key)
        _, err = running.communicate()
    assert running.returncode == 130
    assert "What was heard of the rest is kept. This goes on with it:\n" in err
    assert err.splitlines()[-1].startswith("  voice transcribe --resume ")
    assert not (out / "70.txt").exists()
    assert heard.read_text()
    hangs.unlink()
    done = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 of 3 files whole" in done.stderr
    for number in (40, 70, 100):
        said = [f"w{level}" for level in range(number, number + 20)]
        assert (out / f"{number}.txt").read_text().split() == said
    asked = heard.read_text().split()
    assert set(asked) == {f"w{level}" for n in (40, 70, 100) for level in range(n, n + 20)}
    assert len(asked) <= 60 + 16  # those that were under way when it was stopped
    assert not (out / ".unfinished").exists()


def test_one_file_that_is_printed_is_gone_on_with_as_well(
    talk: Path, tmp_path: Path, capfd: Any
) -> None:
    heard = tmp_path / "heard"
    speech(talk, *range(40, 80))
    options = ("--set", f"asr.heard={heard}", "--quiet")
    fails = ("--set", "asr.fails_on=w79")
    assert transcribe(talk, *options, *fails) == 1
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"voice transcribe: {talk}: levels: fails as it was told to\n")
    assert transcribe(talk, *options, *fails, "--resume") == 1
    assert heard.read_text().split() == [f"w{level}" for level in range(40, 79)]
    assert transcribe(talk, *options, "--resume") == 1
    assert "begun with another setting of the recogniser. Without" in capfd.readouterr().err
    assert transcribe(talk, *options) == 0
    assert len(capfd.readouterr().out.split()) == 40


def test_help_tells_what_the_options_are(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["transcribe", "--help"])
    told = capsys.readouterr().out
    for word in ("--resume", "--words", "--asr ENGINE", "exit status: 0 every file is whole"):
        assert word in told
