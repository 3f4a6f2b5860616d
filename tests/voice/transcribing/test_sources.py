"""What files are there, and what their transcripts are called."""

import os
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.media.reading import MediaError
from tests.pipelines.media.making import contained, video_only, wav
from voice.transcribing.sources import (
    Source,
    SourceError,
    check_regular,
    find,
    name_outputs,
    reason_of,
)

TEXT = (".txt",)


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_folder_is_looked_through_by_what_is_in_its_files(tmp_path: Path) -> None:
    put(tmp_path / "b.wav", wav())
    put(tmp_path / "deep/er/notes.txt", contained("mp4", "aac"))
    put(tmp_path / "deep/er/readme.md", b"# words\n")
    put(tmp_path / "deep/cover", b"\xff\xd8\xff\xe0" + bytes(200))
    put(tmp_path / ".hidden/a.wav", wav())
    put(tmp_path / "._b.wav", b"resources")
    found = find([tmp_path])
    assert [source.path for source in found.sources] == [
        tmp_path / "b.wav",
        tmp_path / "deep/er/notes.txt",
    ]
    assert [str(source.within) for source in found.sources] == ["b.wav", "deep/er/notes.txt"]
    assert found.sources[0].seems_s == 1
    assert (found.failures, found.passed_over) == ({}, 2)


def test_what_is_called_a_recording_and_is_none_is_told(tmp_path: Path) -> None:
    put(tmp_path / "good.wav", wav())
    put(tmp_path / "EMPTY.WAV", b"")
    put(tmp_path / "words.mp3", b"words" * 99)
    put(tmp_path / "silent.mp4", video_only())
    failures = find([tmp_path]).failures
    assert {Path(name).name: why.split(":")[0] for name, why in failures.items()} == {
        "EMPTY.WAV": "The file is empty",
        "silent.mp4": "The file has no sound",
        "words.mp3": "The file is of no format that is known here, or its beginning is damaged",
    }


def test_a_file_that_is_named_must_be_a_recording(tmp_path: Path) -> None:
    words = put(tmp_path / "words.txt", b"words")
    missing, pipe, loop = (tmp_path / name for name in ("missing.wav", "pipe.wav", "loop.wav"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    failures = find([words, missing, pipe, loop]).failures
    assert failures.pop(str(words)).startswith("The file is of no format")
    assert failures == {
        str(missing): "there is no such file",
        str(pipe): "it is no plain file",
        str(loop): "Too many levels of symbolic links",
    }


def test_a_folder_without_recordings_is_told(tmp_path: Path) -> None:
    put(tmp_path / "words.txt", b"words")
    found = find([tmp_path])
    assert found.failures == {str(tmp_path): "there is no recording in this folder"}


def test_a_folder_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "good.wav", wav())
    scandir = os.scandir
    (tmp_path / "closed").mkdir()

    def closed(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = find([tmp_path])
    assert found.failures == {
        str(tmp_path / "closed"): "the folder cannot be read: Permission denied"
    }
    assert len(found.sources) == 1


def test_a_file_that_nobody_may_read_is_told(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.wav", wav())
    secret.chmod(0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        assert find([secret]).failures == {str(secret): "Permission denied"}
    finally:
        os.seteuid(before)


def test_each_file_is_heard_once(tmp_path: Path) -> None:
    file = put(tmp_path / "a.wav", wav())
    (tmp_path / "b.wav").symlink_to(file)
    assert len(find([file, tmp_path, tmp_path / "." / "a.wav"]).sources) == 1


def test_a_name_is_told_on_one_line_and_commands_nothing(tmp_path: Path) -> None:
    strange = "a\nb\x1b[31m\u202ec\udcff ö.wav"
    (tmp_path / strange).touch()
    found = find([tmp_path])
    assert list(found.failures) == [rf"{tmp_path}/a\nb\x1b[31m\u202ec\udcff ö.wav"]


def test_looking_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path / f"{name}.wav", wav())
    answers = iter([True, True, False])
    assert len(find([tmp_path], lambda: next(answers)).sources) == 2


def test_a_reason_has_no_name_but_that_of_another_file() -> None:
    x = Path("x")
    assert reason_of(FileNotFoundError(2, "No such file", "x"), x) == "there is no such file"
    assert reason_of(OSError(28, "No space left on device", "x"), x) == "No space left on device"
    assert reason_of(OSError(28, "No space", "out/x"), x) == "out/x: No space"
    assert reason_of(OSError("odd"), x) == "odd"
    assert reason_of(MediaError("empty", "It is empty."), x) == "It is empty"
    with pytest.raises(SourceError):
        check_regular(Path("/"))


# --- names ----------------------------------------------------------------------------------


def named(*files: tuple[str, str]) -> list[str]:
    """(path, its name in the folder that it was found in); a name of nothing is the file's own."""
    sources = [
        Source(Path("/in", path), path, PurePath(within or Path(path).name))
        for path, within in files
    ]
    names = name_outputs(sources, Path("/out"), (".srt", ".txt"))
    return [str(name.relative_to("/out")) for name in names]


def test_a_name_is_as_short_as_it_can_be() -> None:
    assert named(("a/talk.mp3", ""), ("b/other.wav", "")) == ["talk", "other"]
    assert named(("f/x/talk.mp3", "x/talk.mp3"), ("f/talk.mp3", "")) == ["x/talk", "talk"]


def test_files_of_one_name_are_told_apart() -> None:
    assert named(("talk.mp3", ""), ("talk.wav", "")) == ["talk.mp3", "talk.wav"]
    assert named(("a/talk.wav", ""), ("b/talk.wav", "")) == ["a/talk", "b/talk"]
    assert named(("a/Talk.wav", ""), ("b/talk.wav", "")) == ["a/Talk", "b/talk"]
    assert named(("talk.wav", ""), ("talk.txt.wav", "")) == ["talk", "talk.txt"]


def test_no_source_is_written_over(tmp_path: Path) -> None:
    source = Source(tmp_path / "notes.txt", "notes.txt", PurePath("notes.txt"))
    assert name_outputs([source], tmp_path, TEXT) == [tmp_path / "notes.txt"]
    assert name_outputs([source], tmp_path / "out", TEXT) == [tmp_path / "out" / "notes"]


paths = st.lists(
    st.lists(st.sampled_from(["a", "A", "b", "a.wav", "a.mp3", "a.txt"]), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
    unique_by=tuple,
)


@given(paths)
def test_no_two_transcripts_have_one_name(paths: list[list[str]]) -> None:
    sources = [Source(Path("/in", *path), "", PurePath(path[-1])) for path in paths]
    names = name_outputs(sources, Path("/out"), TEXT)
    folded = {str(PurePath(*path)).casefold() for path in paths}
    assert len({str(name).casefold() for name in names}) == len(folded)
