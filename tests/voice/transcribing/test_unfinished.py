"""What is kept of a file that is not whole yet."""

import io
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, Segment, Transcript, Word
from voice.transcribing.unfinished import (
    HIDDEN,
    Identity,
    Remembering,
    Unfinished,
    UnfinishedError,
    clear,
    key_of,
    write_all,
)

IDENTITY = Identity(3, 4, "head")
SETTINGS = {"recogniser": "whisper", "setting of the recogniser": f"{HIDDEN}1"}
SAID = Transcript("a", "en", (Segment("a", 0, 9, -0.5, words=(Word("a", 0, 9, 0.5),)),), "loop")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "talk.jsonl"


def opened(path: Path, *, resume: bool = True, **changed: Any) -> Unfinished:
    given = {"identity": IDENTITY, "settings": SETTINGS} | changed
    return Unfinished.open(path, given["identity"], given["settings"], resume=resume)


def left(path: Path, *sounds: str) -> None:
    kept = opened(path, resume=False)
    for sound in sounds:
        kept.keep(sound, SAID)
    kept.close()


def test_what_was_kept_is_there_later(path: Path) -> None:
    left(path, "1", "2")
    kept = opened(path)
    assert kept.known == {"1": SAID, "2": SAID}
    assert kept.whole_ms is None
    kept.keep("3", SAID)
    kept.end(3_000)
    kept.close()
    kept = opened(path)
    assert (sorted(kept.known), kept.whole_ms, kept.lost) == (["1", "2", "3"], 3_000, "")
    kept.close()


def test_nothing_is_kept_of_what_was_never_heard(path: Path) -> None:
    opened(path).close()
    assert not path.exists()


def test_beginning_anew_leaves_the_old_until_there_is_something_new(path: Path) -> None:
    left(path, "1")
    opened(path, resume=False).close()
    assert opened_and_closed(path) == ["1"]
    left(path, "2")
    assert opened_and_closed(path) == ["2"]


def opened_and_closed(path: Path) -> list[str]:
    kept = opened(path)
    kept.close()
    return list(kept.known)


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_a_run_that_was_killed_while_it_wrote_loses_that_line_alone(path: Path, cut: int) -> None:
    left(path, "1", "2")
    path.write_bytes(path.read_bytes()[:-cut])
    kept = opened(path)
    assert "2" not in kept.known
    kept.keep("3", SAID)
    kept.close()
    assert [sound for sound in opened_and_closed(path) if sound != "1"] == ["3"]


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{}\n", b'{"type":"whole","lasts_ms":1}\n', b"\n"])
def test_what_is_no_such_file_is_begun_anew(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    kept = opened(path)
    assert (kept.known, kept.whole_ms) == ({}, None)
    kept.close()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"identity": Identity(3, 5, "head")}, "the file has changed since"),
        ({"identity": Identity(3, 4, "other")}, "the file has changed since"),
        (
            {"settings": SETTINGS | {"recogniser": "moonshine"}},
            "it was begun with another recogniser, whisper, and now it is moonshine",
        ),
        (
            {"settings": SETTINGS | {"setting of the recogniser": f"{HIDDEN}2"}},
            "it was begun with another setting of the recogniser.",
        ),
        ({"settings": SETTINGS | {"language": "de"}}, "another language, none, and now it is de"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason_and_left(
    path: Path, changed: Any, why: str
) -> None:
    left(path, "1")
    with pytest.raises(UnfinishedError, match="--resume cannot go on") as refused:
        opened(path, **changed)
    assert why in str(refused.value)
    assert opened_and_closed(path) == ["1"]


def test_another_version_is_refused(path: Path) -> None:
    left(path, "1")
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(UnfinishedError, match="another version"):
        opened(path)


def test_two_runs_are_not_at_one_file(path: Path) -> None:
    first = opened(path)
    with pytest.raises(UnfinishedError, match="another `voice transcribe` is at this file"):
        opened(path)
    first.keep("1", SAID)
    first.close()
    assert opened_and_closed(path) == ["1"]


def test_a_full_disk_costs_the_going_on_and_nothing_else(path: Path) -> None:
    left(path, "1")
    size = path.stat().st_size
    kept = opened(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        kept.keep("2", SAID)
        kept.keep("3", SAID)
        kept.end(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(kept.known) == ["1", "2", "3"]
    assert kept.lost == f"{path}: File too large"
    kept.close()
    assert opened_and_closed(path) == ["1"]


def test_a_folder_that_cannot_be_made_costs_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = opened(tmp_path / "file" / "talk.jsonl")
    kept.keep("1", SAID)
    assert kept.known == {"1": SAID}
    assert "File exists" in kept.lost or "Not a directory" in kept.lost
    kept.close()


def test_a_part_that_was_written_is_followed_by_the_rest() -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data[:2]))

    file = Slow()
    write_all(file, b"12345")
    assert file.getvalue() == b"12345"


def test_what_is_dropped_or_cleared_is_gone_with_its_folder(tmp_path: Path) -> None:
    kept_in = tmp_path / "kept"
    paths = [kept_in / "1", kept_in / "2"]
    for path in paths:
        left(path, "x")
    other = kept_in / "other"
    other.touch()
    clear(paths, kept_in)
    assert list(kept_in.iterdir()) == [other]
    other.unlink()
    clear(paths, kept_in)
    assert not kept_in.exists()
    assert tmp_path.exists()
    kept = opened(paths[0])
    kept.keep("1", SAID)
    kept.drop()
    assert not paths[0].exists()


def test_what_another_run_has_begun_with_is_not_cleared(path: Path) -> None:
    kept = opened(path)
    kept.keep("1", SAID)
    clear([path], path.parent)
    kept.close()
    assert opened_and_closed(path) == ["1"]


def test_a_file_that_another_run_has_just_done_away_with_is_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(path, "1")
    locks = iter([path.unlink, lambda: None])
    monkeypatch.setattr("voice.transcribing.unfinished.fcntl.flock", lambda *_: next(locks)())
    kept = opened(path)
    kept.keep("2", SAID)
    kept.close()
    monkeypatch.undo()
    assert opened_and_closed(path) == ["2"]


def test_a_file_is_known_by_its_size_its_time_and_its_head(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one")
    with file.open("rb") as opened:
        first = Identity.of(opened)
        assert opened.tell() == 0
    file.write_bytes(b"two")
    os.utime(file, ns=(first.modified_ns, first.modified_ns))
    with file.open("rb") as opened:
        second = Identity.of(opened)
    assert (first.size, first.modified_ns) == (second.size, second.modified_ns)
    assert first != second


# --- what a recogniser is asked for ---------------------------------------------------------


class Asked:
    def __init__(self) -> None:
        self.requests: list[AsrRequest] = []

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        self.requests.append(request)
        yield self._say()

    async def _say(self) -> AsyncIterator[Transcript]:
        yield Transcript(f"said {len(self.requests)}")


async def said(asr: Any, request: AsrRequest) -> str:
    async with asr.open(request) as transcripts:
        return " ".join([transcript.text async for transcript in transcripts])


async def test_nothing_is_asked_twice_and_all_is_kept(path: Path) -> None:
    sounds = [AsrRequest(Pcm(np.full(99, level, np.int16), 16_000)) for level in (1, 2)]
    kept, asked, told = opened(path), Asked(), list[str]()
    asr = Remembering(asked, kept, lambda: told.append("new"))  # type: ignore[arg-type]
    heard = [await said(asr, request) for request in (sounds[0], sounds[1], sounds[0])]
    assert heard == ["said 1", "said 2", "said 1"]
    assert told == ["new", "new"]
    kept.close()
    later = opened(path)
    asr = Remembering(asked, later, lambda: told.append("new"))  # type: ignore[arg-type]
    assert await said(asr, sounds[1]) == "said 2"
    assert len(asked.requests) == 2
    await asr.warm_up()
    await asr.close()
    later.close()


def test_the_same_sound_asked_for_in_another_way_is_another() -> None:
    sound = Pcm(np.ones(9, np.int16), 16_000)
    keys = {
        key_of(AsrRequest(sound)),
        key_of(AsrRequest(sound, "de")),
        key_of(AsrRequest(sound, None, "words")),
        key_of(AsrRequest(sound, word_times=True)),
        key_of(AsrRequest(sound, call="other")),
    }
    assert len(keys) == 4
