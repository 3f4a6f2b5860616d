"""``voice engine``: one engine, for several servers."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.ports import SpeechRequest
from voice.app import open_house, warm_up
from voice.cli import main
from voice.config import load


async def test_two_servers_share_the_engine_of_a_third_process(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/tts"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "voice.cli", "engine", "tts", endpoint, "--set", "tts.engine=scripted"),
        *("--place", "cpu"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    while not (line := (await process.stdout.readline()).decode()).startswith("READY"):
        assert line
    # Its options, and the packages that it needs, are the business of whoever keeps it.
    settings = [f"placement.tts={endpoint}", "tts.engine=not_here", "tts.whatever=1"]
    config = load(settings=settings, scripted=True)
    async with open_house(config) as one, open_house(config) as other:
        for house in (one, other):
            await warm_up(house, lambda _: None)
            tts: Any = house.engines.tts
            assert [status.pid for status in tts.engine.processes] == [process.pid]
            async with tts.open(SpeechRequest("One two three.")) as audio:
                assert sum([len(pcm) async for pcm in audio]) == 6_000
    assert process.returncode is None
    process.terminate()
    assert await process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ipc://tts"], "ipc://tts: write the whole path of a socket"),
        (["ipc:///no/such/folder"], "cannot listen at ipc:///no/such/folder: No such file"),
        (["ipc:///a", "--set", "tts.speed=2"], "scripted: it has no option speed"),
        (["ipc:///a", "--set", "tts.engine=nothing"], "there is no module engines.tts.nothing"),
        (["ipc:///a", "--place", "cuda:0"], "tts on cuda:0: 'cuda:0' is no place"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["engine", "tts", "--set", "tts.engine=scripted", *arguments]) == 1
    _, errors = capfd.readouterr()
    assert errors.startswith("voice: ")
    assert said in errors
    assert "Traceback" not in errors


def test_the_environment_of_its_place_is_there_before_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "looking").mkdir()
    (tmp_path / "looking" / "engine.py").write_text(
        "import os\nraise RuntimeError('sees ' + repr(os.environ['CUDA_VISIBLE_DEVICES']))\n"
    )
    for place, seen in (([], "'7'"), (["--place", "cpu"], "''")):
        words = ["engine", "tts", "ipc:///a", "--set", "tts.engine=looking.engine", *place]
        assert main(words) == 1
        assert f"sees {seen}" in capfd.readouterr().err
        assert os.environ["CUDA_VISIBLE_DEVICES"] == seen.strip("'")
