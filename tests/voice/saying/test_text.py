"""Where the words come from, and what is no text."""

import io
from pathlib import Path

import pytest

from voice.saying.text import MOST_BYTES, SayError, text_of


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def refused(given: str | None, stdin: io.BytesIO | None = None) -> SayError:
    with pytest.raises(SayError) as error:
        text_of(given, stdin or io.BytesIO())
    assert "\n" not in str(error.value)
    return error.value


def test_words_files_and_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("Grüße.", "utf-8")
    assert text_of("Good morning.") == "Good morning."
    assert text_of(str(file)) == "Grüße."
    for given in ("-", None):
        assert text_of(given, io.BytesIO(b"piped")) == "piped"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_that_say_what_they_are(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    file = tmp_path / "a.txt"
    file.write_bytes(f"{mark}Grüße".encode(encoding))
    assert text_of(str(file)).removeprefix("\ufeff") == "Grüße"


def test_words_that_no_file_could_be_named() -> None:
    for words in ("a\0b", "x" * 5_000, "two\nlines", "and/or so"):
        assert text_of(words) == words


def test_nothing_given_on_a_terminal() -> None:
    error = refused(None, Terminal(b"never read"))
    assert error.status == 2
    assert "what is to be said?" in str(error)


@pytest.mark.parametrize("name", ["notes.md", "books/one", "/nowhere/a.txt"])
def test_a_file_that_is_not_there(name: str) -> None:
    error = refused(name)
    assert (error.status, str(error).startswith(f"{name}: there is no such file")) == (2, True)


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in str(refused(str(tmp_path)))


@pytest.mark.parametrize("given", ["", "  \n\t", "\ufeff"])
def test_nothing_in_it(given: str) -> None:
    assert "is empty" in str(refused(given))
    assert "standard input: is empty" in str(refused("-", io.BytesIO(given.encode())))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"%PDF-1.7 ...", "is a PDF, not text: pdftotext FILE - | voice say -"),
        (b"PK\x03\x04....", "is a ZIP, as EPUB, DOCX"),
        (b"{\\rtf1 x}", "is RTF"),
        (b"\x7fELF\x02\x01\x01" + bytes(64), "is no text (byte 4 is 0x02)"),
        (b"caf\xe9 au lait", "is not in UTF-8 (byte 3 is 0xe9): iconv"),
    ],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, told: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(data)
    assert str(refused(str(file))).startswith(f"{file}: {told}")


def test_stray_control_characters_do_not_make_it_binary(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"A bell rings\x07 and a page ends\x0c here.")
    assert "bell" in text_of(str(file))


def test_more_than_anybody_reads(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with file.open("wb") as opened:
        opened.truncate(MOST_BYTES + 1)
    assert "more than 64 MiB" in str(refused(str(file)))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.symlink_to(tmp_path / "nothing")
    assert str(refused(str(file))).endswith("cannot be read: No such file or directory")
