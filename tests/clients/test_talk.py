"""``voice talk`` from its arguments to its exit status, against a small server in a thread."""

import argparse
import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from clients import talk

RATE = 24_000


@pytest.fixture
def threaded_server(serving_small: Any) -> Iterator[Any]:
    """The small server on a loop of its own, since ``run`` brings its own loop too."""
    small, serving = serving_small
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(small):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    yield small
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.wav"
    tone = np.concatenate([np.full(RATE // 5, 0.2), np.zeros(RATE // 10)])
    soundfile.write(path, tone, RATE)
    return path


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    talk.add_arguments(parser)
    return talk.run(parser.parse_args([str(word) for word in words]))


def test_each_turn_is_a_line_of_json(
    threaded_server: Any, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(clip, clip, "--url", threaded_server.url, "--json", "--silence-ms", 200)
    turns = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [turn["transcript"] for turn in turns] == ["words 1", "words 2"]
    assert [turn["reply"] for turn in turns] == ["Hello, caller 1.", "Hello, caller 2."]
    assert all(turn["file"] == "clip.wav" and turn["audio_seconds"] == 0.12 for turn in turns)
    assert all(turn["delays_ms"]["first_audio"] > 0 for turn in turns)
    detection = threaded_server.session["audio"]["input"]["turn_detection"]
    assert detection == {"type": "server_vad", "silence_duration_ms": 200}


def test_a_person_sees_words_and_times(
    threaded_server: Any, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(clip, "--url", threaded_server.url, "--voice", "nova", "--instructions", "Be kind")
    shown = capsys.readouterr().out
    assert status == 0
    for part in (
        "clip.wav",
        "words 1",
        "Hello, caller 1.",
        "first audio",
        "0.12 s",
        "no gap",
        "* The last",
    ):
        assert part in shown
    assert threaded_server.session["instructions"] == "Be kind"
    assert threaded_server.session["audio"]["output"]["voice"] == "nova"


def test_what_was_heard_is_written(threaded_server: Any, clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "heard.wav"
    assert run(clip, "--url", threaded_server.url, "--out", out, "--json") == 0
    samples, rate = soundfile.read(out, dtype="int16")
    assert rate == RATE
    assert samples.ndim == 1
    assert np.count_nonzero(samples == 1000) == pytest.approx(0.12 * RATE, abs=2)


def test_what_was_heard_before_the_call_broke_is_written(
    threaded_server: Any, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threaded_server.hang_up_on_turn = 2
    out = tmp_path / "heard.wav"
    url = threaded_server.url
    assert run(clip, clip, "--url", url, "--out", out, "--json") == talk.FAILED
    assert "too loud" in capsys.readouterr().err
    samples, _ = soundfile.read(out, dtype="int16")
    assert np.count_nonzero(samples == 1000) == pytest.approx(0.12 * RATE, abs=2)


def test_both_sides_are_written_side_by_side(
    threaded_server: Any, clip: Path, tmp_path: Path
) -> None:
    out = tmp_path / "call.wav"
    assert run(clip, "--url", threaded_server.url, "--out", out, "--stereo", "--json") == 0
    samples, _ = soundfile.read(out, dtype="int16")
    caller, agent = samples.T
    assert np.flatnonzero(caller)[-1] < np.flatnonzero(agent)[0]


def test_a_reply_that_failed_fails_the_command(
    threaded_server: Any, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threaded_server.fail_reply = threaded_server.fail_transcript = True
    assert run(clip, "--url", threaded_server.url) == talk.FAILED
    shown = capsys.readouterr().out
    assert "no reply: Broke." in shown
    assert "not transcribed: Mumbled." in shown
    assert "(nothing understood)" in shown


def test_a_refused_key_is_one_line(
    threaded_server: Any, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threaded_server.key = "secret"
    assert run(clip, "--url", threaded_server.url, "--api-key", "wrong") == talk.FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert "refused the API key" in line
    assert "wrong" not in line


def test_a_server_that_is_down_is_one_line(
    unused_tcp_port: int, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(clip, "--url", f"ws://127.0.0.1:{unused_tcp_port}/v1/realtime")
    [line] = capsys.readouterr().err.splitlines()
    assert status == talk.FAILED
    assert "voice serve" in line


def test_a_bad_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "missing.wav") == talk.MISUSED
    [line] = capsys.readouterr().err.splitlines()
    assert "no such file" in line


def test_nothing_to_say_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == talk.MISUSED
    assert "--demo" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_told_before_the_call(
    threaded_server: Any, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "missing" / "heard.wav"
    assert run(clip, "--url", threaded_server.url, "--out", out, "--json") == talk.MISUSED
    assert "there is no such folder" in capsys.readouterr().err
    assert threaded_server.paths == []


@pytest.mark.parametrize(
    ("words", "told"),
    [(["x.wav", "--stereo"], "--out WAV"), (["x.wav", "--demo"], "not both")],
)
def test_options_that_do_not_go_together_are_misuse(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == talk.MISUSED
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan", "soon"])
def test_a_time_that_is_none_is_misuse(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("x.wav", "--timeout", seconds)
    assert caught.value.code == talk.MISUSED
    assert f"{seconds} is no time to wait" in capsys.readouterr().err


def test_hanging_up_is_told_apart(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang_up(clips: object, args: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(talk, "_talk", hang_up)
    assert run(clip) == talk.INTERRUPTED
