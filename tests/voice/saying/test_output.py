"""Where it goes, and in what format."""

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from voice.saying.output import chapter_marks, target
from voice.saying.text import SayError

BOOK = chapters(blocks("# Der Anfang: *neu*\n\na\n\n# 第二章\n\nb\n\n# ...\n\nc"))


def asked(out: str | None, form: str | None = None, **how: bool) -> Any:
    usual = {"by_chapter": False, "to_terminal": False}
    return target(out, form, **(usual | how))


def refused(out: str | None, form: str | None = None, **how: bool) -> SayError:
    with pytest.raises(SayError) as error:
        asked(out, form, **how)
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.mp3", "mp3"), ("a.OPUS", "opus"), ("a.ogg", "opus"), ("a.wav", "wav"), ("a.flac", "flac")],
)
def test_a_name_tells_the_format(tmp_path: Path, name: str, form: str) -> None:
    found = asked(str(tmp_path / name))
    assert (found.path, found.form) == (tmp_path / name, form)
    assert found.partial == tmp_path / f"{name}.part"
    [output] = found.outputs(BOOK)
    assert (output.path, len(output.chapters)) == (tmp_path / name, 3)


def test_a_format_that_is_said_goes_with_any_other_name(tmp_path: Path) -> None:
    assert asked(str(tmp_path / "a"), "flac").form == "flac"
    assert asked(str(tmp_path / "a.ogg"), "opus").form == "opus"
    assert "and --format says flac" in str(refused(str(tmp_path / "a.mp3"), "flac"))
    for name in ("a", "a.wma", "a.docx"):
        error = refused(str(tmp_path / name))
        assert (error.status, ".mp3, .opus" in str(error)) == (2, True)


def test_standard_output_but_no_terminal() -> None:
    for out in ("-", None):
        assert (asked(out).path, asked(out).form, asked(out, "wav").form) == (None, "mp3", "wav")
        assert "a terminal is no place for it: -o speech.mp3" in str(refused(out, to_terminal=True))
        assert "name a folder" in str(refused(out, by_chapter=True))


def test_a_folder_has_a_numbered_file_for_each_chapter(tmp_path: Path) -> None:
    found = asked(str(tmp_path / "book"), by_chapter=True)
    assert [output.path.name for output in found.outputs(BOOK)] == [
        "01-der-anfang-neu.mp3",
        "02-第二章.mp3",
        "03.mp3",
    ]
    assert found.partial == tmp_path / "book" / "unfinished.part"
    many = [BOOK[2]] * 120
    assert found.outputs(many)[0].path.name == "001.mp3"
    assert len(found.outputs(chapters(blocks(f"# {'ß' * 99}\n\na")))[0].path.name.encode()) < 100


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path: Path) -> None:
    error = refused(str(tmp_path / "book.opus"), by_chapter=True)
    assert str(error).endswith("-o book --format opus")
    (tmp_path / "there").write_text("")
    assert "-o is a folder" in str(refused(str(tmp_path / "there"), by_chapter=True))
    assert "add --chapters" in str(refused(str(tmp_path)))
    assert "mkdir -p" in str(refused(str(tmp_path / "none" / "a.mp3")))
    assert "is no file" in str(refused("/dev/null", "mp3"))


def test_a_format_whose_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "av", raising=False)
    importing = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name == "av":
            raise ImportError(name)
        return importing(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setitem(sys.modules, "av", None)
    assert "AAC needs a package" in str(refused(str(tmp_path / "a.aac")))


def test_marks_are_as_ffmpeg_reads_them() -> None:
    assert chapter_marks(["One; a=b", ""], [0, 1_500], 2_000).splitlines() == [
        ";FFMETADATA1",
        *("[CHAPTER]", "TIMEBASE=1/1000", "START=0", "END=1500", r"title=One\; a\=b"),
        *("[CHAPTER]", "TIMEBASE=1/1000", "START=1500", "END=2000", "title=2"),
    ]
