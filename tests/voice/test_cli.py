"""The ``voice`` command: what it says, and with which status it ends."""

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from engines.ports import EngineError
from voice import cli
from voice.config import Config


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a server would have been started with."""
    configs: list[Config] = []

    async def serve(config: Config, told: Any) -> None:
        configs.append(config)
        told("READY")

    monkeypatch.setattr(cli, "serve", serve)
    for name in [name for name in cli.os.environ if name.startswith("VOICE_")]:
        monkeypatch.delenv(name)
    return configs


def test_serving_with_what_the_command_line_says(
    served: list[Config], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "voice.toml"
    file.write_text("[server]\nport = 1\nmax_calls = 5\n")
    arguments = ["--config", str(file), "--port", "0", "--set", "agent.voice=mia", "--scripted"]
    assert cli.main(["serve", "--host", "::1", *arguments]) == 0
    (config,) = served
    assert (config.server.host, config.server.port, config.server.max_calls) == ("::1", 0, 5)
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
        (KeyboardInterrupt(), 130, ""),
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

    monkeypatch.setattr(cli, "serve", fail)
    assert cli.main(["serve"]) == status
    assert capsys.readouterr().err == said


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


def test_a_demonstration_speaks_recordings_of_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("d.wav", "b.wav", "a.wav", "c.wav", "transcripts.json"):
        (tmp_path / name).touch()
    spoken: list[argparse.Namespace] = []
    monkeypatch.setattr(cli.talk, "run", lambda parsed: spoken.append(parsed) or 0)
    monkeypatch.setattr(cli.ModelStore, "path", lambda store, name: tmp_path)
    assert cli.main(["talk", "--demo"]) == 0
    assert [Path(file).name for file in spoken[0].files] == ["a.wav", "b.wav", "c.wav"]
    assert cli.main(["talk", str(tmp_path / "d.wav")]) == 0
    assert [Path(file).name for file in spoken[1].files] == ["d.wav"]


def test_models_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["models", "list", "--folder", str(tmp_path)]) == 0
    assert "silero-vad" in capsys.readouterr().out
