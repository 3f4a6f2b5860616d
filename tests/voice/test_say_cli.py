"""``voice say`` as people run it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from voice.cli import main

VOICE = [sys.executable, "-m", "voice.cli"]
SCRIPTED = ["--set", "tts.engine=scripted"]
BOOK = "# One\n\nA sentence. Another, of more words.\n\n# Two\n\nThe end.\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)  # the tests go on at their own
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["voice", "say", "book.md", "-o", "book.wav"])
    (tmp_path / "book.md").write_text(BOOK, "utf-8")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["say", *arguments, *SCRIPTED])
    return status, capsys.readouterr().err


def test_a_file_is_written_and_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = said(capsys, "book.md", "-o", "book.wav")
    assert status == 0
    first, second = err.splitlines()
    assert first.startswith("book.wav: 0:0")
    assert "of speech in" in first
    assert "(RTF 0." in first
    assert second.startswith("book.wav.ffmetadata: where its chapters begin")
    assert soundfile.info("book.wav").frames > 24_000
    assert sorted(os.listdir()) == ["book.md", "book.wav", "book.wav.ffmetadata"]


def test_chapters_are_files_of_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = said(capsys, "book.md", "-o", "out/book", "--chapters", "--format", "opus")
    assert status == 0
    assert err.startswith("2 files in out/book: 0:0")
    assert sorted(os.listdir("out/book")) == ["01-one.opus", "02-two.opus"]


def test_the_file_is_made_anew_where_it_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    Path("book.wav").write_bytes(b"old")
    assert said(capsys, "Good morning.", "-o", "book.wav")[0] == 0
    assert soundfile.info("book.wav").frames > 0


@pytest.mark.parametrize("where", [["-o", "book.wav"], ["-o", "book", "--chapters"]])
def test_what_is_whole_is_not_said_again(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "book.md", *where)[0] == 0
    made = {path: path.stat().st_mtime_ns for path in Path().rglob("*.*")}
    status, err = said(capsys, "book.md", *where, "--resume")
    assert (status, err.partition(":")[2]) == (
        0,
        " is whole already; without --resume it is made anew\n",
    )
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*.*")} == made


@pytest.mark.parametrize(
    ("arguments", "status", "told_of"),
    [
        (["", "-o", "a.mp3"], 1, "the text: is empty"),
        (["***", "-o", "a.mp3"], 1, "there is nothing to be said"),
        (["nothing.md", "-o", "a.mp3"], 2, "nothing.md: there is no such file"),
        (["Hello.", "-o", "a.doc"], 2, "a.doc: its name does not tell a format"),
        (["book.md", "-o", "./book.md", "--format", "mp3"], 2, "book.md: is the text itself"),
        (["Hello.", "-o", "no/a.mp3"], 1, "no/a.mp3: there is no folder no"),
        (["Hello.", "-o", "a.mp3", "--chapters"], 2, "with --chapters, -o is a folder"),
        (["Hello.", "--resume"], 2, "--resume needs a file"),
        (["Hello.", "-o", "a.mp3", "--set", "tts.fail_code=failed"], 1, "scripted tts: "),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], status: int, told_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, err = said(capsys, *arguments)
    assert (found, err.count("\n")) == (status, 1)
    assert told_of in err
    assert err.startswith("voice")
    assert os.listdir() == ["book.md"]


def test_streams_that_are_closed_take_nothing_away() -> None:
    command = [*VOICE, "say", "book.md", "-o", "book.pcm", *SCRIPTED]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(closed, check=False, timeout=60).returncode == 0
    assert Path("book.pcm").stat().st_size > 24_000


def test_settings_are_those_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.toml").write_text("[narration]\nparagraph_ms = 100\nheading_ms = 100\n")
    assert said(capsys, "One.\n\nTwo.", "-o", "a.wav", "--config", "a.toml")[0] == 0
    assert said(capsys, "One.\n\nTwo.", "-o", "b.wav")[0] == 0
    difference = soundfile.info("b.wav").frames - soundfile.info("a.wav").frames
    assert difference == 24_000 * 700 // 1000
    assert said(capsys, "Hello.", "-o", "c.wav", "--set", "narration.pause=1")[0] == 1


@pytest.mark.parametrize("speed", ["0.1", "5", "fast"])
def test_a_speed_that_nobody_speaks_at(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["say", "Hello.", "-o", "a.mp3", "--speed", speed])
    assert ended.value.code == 2
    assert "must be a number from 0.25 to 4" in capsys.readouterr().err


def test_another_text_is_not_gone_on_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = ["book.md", "-o", "book.wav", "--set", "tts.fail_code=failed"]
    status, err = said(
        capsys, *failing, "--set", "tts.fail_after=8", "--set", "tts.item_delay_ms=5"
    )
    assert status == 1
    assert "What there is, is kept in book.wav.part; this goes on with it: voice say" in err
    Path("book.md").write_text(BOOK + "More.", "utf-8")
    status, err = said(capsys, "book.md", "-o", "book.wav", "--resume")
    assert (status, "begun with another text and another engine: " in err) == (1, True)
    assert said(capsys, "book.md", "-o", "book.wav")[0] == 0
    assert "book.wav.part" not in os.listdir()


def test_a_pipe_in_and_out() -> None:
    command = [*VOICE, "say", "-", "--format", "wav", *SCRIPTED]
    done = subprocess.run(command, input=BOOK.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout[:4]) == (0, b"RIFF")
    assert done.stderr.startswith(b"standard output: 0:0")


def test_a_pipe_that_is_closed() -> None:
    command = [*VOICE, "say", "word " * 20_000, "--format", "wav", *SCRIPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(4) == b"RIFF"
        running.stdout.close()
        err = running.stderr.read()
        assert running.wait() == 1
    assert err.splitlines()[-1] == b"voice say: what reads the sound has ended"


@pytest.mark.engine
def test_the_real_voice_interrupted_and_resumed_gives_the_same_bytes(tmp_path: Path) -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + "This goes on for a while. " * 15 for n in range(1, 5))
    Path("book.md").write_text(text, "utf-8")
    calm = [*VOICE, "say", "book.md", "-o", "calm.wav"]
    assert subprocess.run(calm, capture_output=True, check=False).returncode == 0
    torn = [*VOICE, "say", "book.md", "-o", "torn.wav", "--resume"]
    with subprocess.Popen(torn, stderr=subprocess.PIPE) as running:
        state = Path("torn.wav.part/state.json")
        while not (state.exists() and b'"pieces":0' not in state.read_bytes()):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        err = running.stderr.read()
        assert running.wait() == 130
    assert err.startswith(b"stopped. What there is, is kept in torn.wav.part; this goes on")
    assert not Path("torn.wav").exists()
    assert subprocess.run(torn, capture_output=True, check=False).returncode == 0
    assert Path("torn.wav").read_bytes() == Path("calm.wav").read_bytes()


@pytest.mark.engine
def test_the_real_voice_says_that_it_has_no_sound_for_another_script() -> None:
    command = [*VOICE, "say", "你好，世界。", "-o", "a.mp3"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"voice say: the voice (hibari) has no sound for any of it")
    assert os.listdir() == ["book.md"]
