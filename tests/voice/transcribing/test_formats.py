"""Transcripts in their formats, and files that are whole or not there."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines.ports import Segment
from pipelines.transcription.captions import Utterance
from voice.transcribing.formats import SUFFIXES, body, for_people, write_whole
from voice.wire.audio_api import TranscriptionForm

HEARD = [
    Utterance("Hello there.", (Segment("Hello there.", 500, 1_700),), "en", ""),
    Utterance("", (), None, "noise"),
    Utterance("Bye.", (Segment("Bye.", 3_000, 3_400),), "en", "loop"),
]


def asked(form: Any, *granularities: Any) -> TranscriptionForm:
    return TranscriptionForm(
        "", response_format=form, timestamp_granularities=granularities or ("segment",)
    )


def test_text_is_one_line_for_programs_and_a_line_an_utterance_for_people() -> None:
    assert body(asked("text"), HEARD, 4_000) == b"Hello there. Bye.\n"
    assert for_people(asked("text"), HEARD, 4_000) == b"Hello there.\nBye.\n"


def test_subtitles_are_the_same_for_both() -> None:
    assert body(asked("srt"), HEARD, 4_000).startswith(b"1\n00:00:00,500 --> 00:00:01,700\nHello")
    assert for_people(asked("vtt"), HEARD, 4_000).startswith(b"WEBVTT\n\n00:00:00.500")


@pytest.mark.parametrize("form", ["json", "verbose_json"])
def test_json_has_words_where_they_are_asked_for(form: str) -> None:
    plain = json.loads(for_people(asked(form), HEARD, 4_000))
    timed = json.loads(body(asked(form, "segment", "word"), HEARD, 4_000))
    assert "words" not in plain
    assert [word["word"] for word in timed.pop("words")] == ["Hello", "there.", "Bye."]
    assert timed == plain
    assert plain["suspicion"] == "noise, loop"


def test_every_format_has_a_file_name_of_its_own() -> None:
    assert len(set(SUFFIXES.values())) == len(SUFFIXES)
    for form in SUFFIXES:
        assert for_people(asked(form), HEARD, 4_000)


def test_files_are_written_in_folders_that_are_made_and_over_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_whole({path: b"old"})
    write_whole({path: b"new", tmp_path / "b.srt": b""})
    assert (path.read_bytes(), (tmp_path / "b.srt").read_bytes()) == (b"new", b"")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a", "b.srt", "b.txt"]


def test_a_name_may_be_as_long_as_any(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125 + ".srt")
    write_whole({path: b"1"})
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_where_one_cannot_be_written_none_is(tmp_path: Path) -> None:
    blocked = tmp_path / "b.srt"
    blocked.mkdir()
    (tmp_path / "b.txt").write_bytes(b"old")
    with pytest.raises(OSError, match="Is a directory") as raised:
        write_whole({tmp_path / "b.txt": b"new", blocked: b"new"})
    assert raised.value.filename == str(blocked)
    assert (tmp_path / "b.txt").read_bytes() == b"old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b.srt", "b.txt"]
