"""``voice transcribe`` and files that nobody wishes for: each costs itself a line, and no other."""

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.media.making import contained, video_only, wav
from tests.voice.test_transcribe_cli import _ones_own_cache as _ones_own_cache
from tests.voice.test_transcribe_cli import transcribe
from tests.voice.transcribing.test_batch import speech
from voice.transcribing.sources import Found, find

NOISE = np.random.default_rng(1).integers(0, 256, 200_000, np.uint8).tobytes()


def garbled(data: bytes) -> bytes:
    """Its beginning, and then nothing that makes sense."""
    return data[: len(data) // 4] + NOISE[: len(data) - len(data) // 4]


BAD = {
    "noise.mp3": (NOISE, "The file "),
    "words.wav": (b"these are words, and no sound at all", "The file "),
    "empty.wav": (b"", "The file is empty: it has no bytes"),
    "no-samples.wav": (wav([]), "The file has no sound: not a single sample is in it"),
    "corrupt.flac": (garbled(contained("flac", "flac", 20)), "The file ends too early: "),
    "corrupt.mp4": (garbled(contained("mp4", "aac", 20)), "The file "),
    "cut.wav": (wav(np.zeros(32_000))[:-9_000], "The file ends too early: its header says"),
    "cut.mkv": (contained("matroska", "aac", 60)[:-200_000], "The file ends too early: "),
    "cut.mp4": (contained("mp4", "aac", 20)[:-2_000], "The file "),
    "video.mp4": (video_only(), "The file has no sound: there is video in it and no audio"),
    "0hz.wav": (wav(rate=0), "The file's header says that it has no samples a second"),
    "1hz.wav": (wav(rate=1), "The file says that it has 1 samples a second"),
}

GOOD = {
    "192khz.wav": wav(np.full(192_000, 5_000), 192_000),
    "seven-one.wav": wav(np.full(8 * 48_000, 5_000), 48_000, 8),
    "variable.mp3": contained("mp3", "libmp3lame", 5, write_xing="0"),
    "film.mkv": contained("matroska", "libopus"),
    "really-an-mp4.wav": contained("mp4", "aac"),
    "really-a-wav.mp3": wav(np.full(16_000, 5_000)),
    "no-suffix": contained("ogg", "libopus"),
}


def put(folder: Path, files: dict[str, bytes]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_no_text(name: str, tmp_path: Path, capfd: Any) -> None:
    data, told = BAD[name]
    [path] = put(tmp_path / "in", {name: data})
    assert transcribe(path) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"voice transcribe: {path}: {told}")
    assert err.count("\n") == 1
    assert not (tmp_path / "cache/antiphon/unfinished").exists()


@pytest.mark.parametrize("name", GOOD)
def test_a_strange_file_is_heard(name: str, tmp_path: Path, capfd: Any) -> None:
    [path] = put(tmp_path / "in", {name: GOOD[name]})
    assert transcribe(path) == 0
    assert capfd.readouterr().out.startswith("w")


def test_all_of_them_in_one_folder(tmp_path: Path, capfd: Any) -> None:
    put(tmp_path / "in", GOOD | {name: data for name, (data, _) in BAD.items()})
    out = tmp_path / "out"
    assert transcribe(tmp_path / "in", "--output", out, "--quiet") == 1
    err = capfd.readouterr().err.splitlines()
    listed = err[err.index(f"{len(BAD)} failed:") + 1 :]
    assert {line.split(":")[0].strip() for line in listed} == {
        str(tmp_path / "in" / name) for name in BAD
    }
    assert sorted(path.name for path in out.glob("*")) == sorted(
        [*(f"{Path(name).stem}.txt" for name in GOOD), ".unfinished"]
    )


def test_what_is_not_there_or_no_file_at_all(tmp_path: Path, capfd: Any) -> None:
    good = speech(tmp_path / "good.wav", 40)
    pipe, empty, loop = (tmp_path / name for name in ("pipe.wav", "folder.wav", "loop.wav"))
    os.mkfifo(pipe)
    empty.mkdir()
    loop.symlink_to(loop)
    missing, out = tmp_path / "missing.wav", tmp_path / "out"
    files = (missing, pipe, empty, loop, "/dev/zero", good)
    assert transcribe(*files, "--output", out, "--quiet") == 1
    err = capfd.readouterr().err.splitlines()
    assert err[err.index("5 failed:") + 1 :] == [
        f"  {missing}: there is no such file",
        f"  {pipe}: it is no plain file",
        f"  {empty}: there is no recording in this folder",
        f"  {loop}: Too many levels of symbolic links",
        "  /dev/zero: it is no plain file",
    ]
    assert (out / "good.txt").read_text() == "w40\n"


def test_files_of_one_name_in_different_folders(tmp_path: Path) -> None:
    for folder, level in (("a", 40), ("b", 50)):
        (tmp_path / "in" / folder).mkdir(parents=True)
        speech(tmp_path / "in" / folder / "talk.wav", level)
    whole, apart = tmp_path / "whole", tmp_path / "apart"
    assert transcribe(tmp_path / "in", "--output", whole) == 0
    assert transcribe(tmp_path / "in/a", tmp_path / "in/b", "--output", apart) == 0
    for out in (whole, apart):
        assert (out / "a/talk.txt").read_text() == "w40\n"
        assert (out / "b/talk.txt").read_text() == "w50\n"


def test_transcripts_among_the_recordings_are_no_recordings(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    speech(folder / "a.wav", 40)
    speech(folder / "a.flac", 50)
    for _ in range(2):
        assert transcribe(folder, "--output", folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.flac",
        "a.flac.txt",
        "a.wav",
        "a.wav.txt",
    ]


def test_a_full_disk_costs_the_files_that_do_not_fit(tmp_path: Path, capfd: Any) -> None:
    long = speech(tmp_path / "long.wav", *range(40, 80))
    short = speech(tmp_path / "short.wav", 40)
    out = tmp_path / "out"
    options = ("--output", out, "--format", "verbose_json", "--format", "text")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, limits[1]))
    try:
        assert transcribe(long, short, *options) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    told = f"{long}: {out}/long.verbose.json: File too large"
    assert capfd.readouterr().err.splitlines()[-2:] == ["1 failed:", f"  {told}"]
    names = sorted(path.name for path in out.iterdir())
    assert names == [".unfinished", "short.txt", "short.verbose.json"]
    assert transcribe(long, short, *options, "--resume") == 0
    assert "short.wav: 0:02 of sound, whole before" in capfd.readouterr().err
    assert (out / "long.txt").read_text().split() == [f"w{level}" for level in range(40, 80)]
    assert not (out / ".unfinished").exists()


def test_a_file_that_vanishes_before_its_turn(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    here, gone = [speech(tmp_path / f"{n}.wav", n) for n in (40, 50)]

    def find_and_lose(*named: Any) -> Found:
        found = find(*named)
        gone.unlink()
        return found

    monkeypatch.setattr("voice.transcribe_cli.find", find_and_lose)
    assert transcribe(here, gone, "--output", tmp_path / "out", "--quiet") == 1
    assert capfd.readouterr().err.endswith(f"  {gone}: there is no such file\n")
    assert (tmp_path / "out/40.txt").exists()
