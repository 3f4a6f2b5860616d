"""The ``voice`` command: what it says, and with which status it ends."""

import asyncio
import hashlib
import io
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from clients import talk
from engines.catalogue import CATALOGUE, Model, ModelFile
from engines.models import ModelStore
from engines.ports import EngineError
from engines.scripted import LlmOptions, ScriptedLlm
from voice import cli
from voice.config import Config


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a server would have been started with."""
    configs: list[Config] = []

    async def serve(config: Config, told: Any) -> None:
        configs.append(config)
        told("READY")

    monkeypatch.setattr("voice.server.serve", serve)
    for name in [name for name in cli.os.environ if name.startswith("VOICE_")]:
        monkeypatch.delenv(name)
    return configs


def test_serving_with_what_the_command_line_says(
    served: list[Config], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "voice.toml"
    file.write_text("[server]\nport = 1\n[admission]\nmax_calls = 5\n")
    arguments = ["--config", str(file), "--port", "0", "--set", "agent.voice=mia", "--scripted"]
    assert cli.main(["serve", "--host", "::1", *arguments]) == 0
    (config,) = served
    assert (config.server.host, config.server.port, config.admission.max_calls) == ("::1", 0, 5)
    assert config.agent.voice == "mia"
    assert [config.asr.engine, config.llm.engine, config.tts.engine] == ["scripted"] * 3
    assert config.vad.engine == "silero"
    assert capsys.readouterr().out == "READY\n"


def test_the_environment_is_read(served: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_SERVER_PORT", "7777")
    assert cli.main(["serve"]) == 0
    assert served[0].server.port == 7_777


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "server.prot=1"],
        ["--port", "99999"],
        ["--set", "server.log_level=loud"],
        ["--config", "/nowhere.toml"],
    ],
)
def test_a_wrong_configuration_is_one_line_and_no_traceback(
    served: list[Config], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert cli.main(["serve", *arguments]) == 1
    said = capsys.readouterr().err
    assert said.startswith("voice: ")
    assert said.count("\n") == 1
    assert served == []


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (EngineError("whisper", "unavailable", "no model"), 1, "voice: whisper: no model\n"),
        (OSError("no such port"), 1, "voice: no such port\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
    ],
)
def test_what_ends_a_server_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    said: str,
) -> None:
    async def fail(config: Config, told: Any) -> None:
        raise error

    monkeypatch.setattr("voice.server.serve", fail)
    assert cli.main(["serve"]) == status
    assert capsys.readouterr().err == said


def test_a_command_that_is_misspelt_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["srve"], "invalid choice: 'srve'. Did you mean serve?"),
        (["talk", "--dmo"], "voice talk: error: there is no --dmo. Did you mean --demo?"),
        (["models", "pul"], "invalid choice: 'pul'. Did you mean pull?"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 2
        assert said in capsys.readouterr().err


def test_the_version_and_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"antiphon {version('antiphon')}\n"
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
    for command in ("serve", "talk", "models"):
        with pytest.raises(SystemExit) as caught:
            cli.main([command, "--help"])
        assert caught.value.code == 0


def recording(seconds: float) -> bytes:
    """A loud WAV file, and then silence for as long."""
    file, loud = io.BytesIO(), np.full(int(seconds * 24_000), 8_000, np.int16)
    soundfile.write(file, np.concatenate([loud, np.zeros_like(loud)]), 24_000, format="WAV")
    return file.getvalue()


@pytest.fixture
def clips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the environment says that models are kept: a store with four recordings."""
    data = recording(0.3)
    digest = hashlib.sha256(data).hexdigest()
    names = ("d.wav", "b.wav", "a.wav", "c.wav", "transcripts.json")
    files = tuple(ModelFile(name, len(data), digest, (data,)) for name in names)
    monkeypatch.setitem(CATALOGUE, cli.SPEECH, Model(cli.SPEECH, "a test", "MIT", files))
    monkeypatch.setenv("VOICE_MODELS_DIR", str(tmp_path))
    return tmp_path


async def test_a_demonstration_speaks_recordings_of_the_store_to_a_server(
    clips: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ModelStore(clips).pull([cli.SPEECH])
    server = await serve(llm=ScriptedLlm(LlmOptions(script=("Yes.",))))
    words = ["talk", "--demo", "--url", server.url, "--silence-ms", "200", "--json"]
    status = await asyncio.to_thread(cli.main, words)
    turns = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [turn["file"] for turn in turns] == ["a.wav", "b.wav", "c.wav"]
    assert [turn["problems"] for turn in turns] == [[], [], []]
    assert status == 0


def test_a_demonstration_without_recordings_says_how_to_fetch_them_there(
    clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["talk", "--demo"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"voice: speech is not in {clips}: ")
    assert f"`voice models pull speech --folder {clips}`" in said


def test_a_demonstration_and_recordings_of_ones_own_are_refused_together(
    clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["talk", "--demo", "mine.wav"]) == talk.MISUSED
    assert "not both" in capsys.readouterr().err


def test_models_are_kept_where_the_environment_says_or_the_command(
    clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", "list"]) == 0
    said = capsys.readouterr().out
    assert "silero-vad" in said
    assert f"kept in {clips}" in said
    assert cli.main(["models", "list", "--folder", str(clips / "elsewhere")]) == 0
    assert f"kept in {clips / 'elsewhere'}" in capsys.readouterr().out


def test_help_loads_nothing_that_is_slow() -> None:
    """So that it comes at once, and a key that ends the program finds ``main`` running."""
    slow = {"numpy", "asyncio", "rich", "engines", "clients", "voice.config", "voice.server"}
    script = (
        "import contextlib, sys; from voice import cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['--help'])\n"
        "print(*sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert {"argparse", "voice.cli"} <= (loaded := set(said.decode().split()))
    assert slow & loaded == set()


def test_an_engine_of_ones_own_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is one in a package there, by the command as it is installed."""
    for name in ("parrot.py", "mine/parrot.py", "json.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError('found')")
    command = Path(sys.executable).parent / "voice"
    for engine in ("parrot", "mine.parrot"):
        words = [command, "doctor", "--set", f"tts.engine={engine}", "--json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        problems = [problem["text"] for problem in json.loads(done.stdout)["problems"]]
        assert any("RuntimeError('found')" in text for text in problems)


def test_a_bug_is_no_line_but_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(config: Config, told: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("voice.server.serve", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["serve"])
