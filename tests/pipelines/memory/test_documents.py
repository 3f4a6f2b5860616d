"""Files of every kind become parts with their places, or say why not."""

import codecs
import io
import os
from pathlib import Path

import pytest

from pipelines.memory.documents import MOST_BYTES, DocumentError, is_document, parts_of, read
from pipelines.memory.parts import Part


def parts(name: str, text: str | bytes) -> list[Part]:
    data = text.encode() if isinstance(text, str) else text
    return parts_of(Path(name), data)


def test_text_has_paragraphs_by_the_line_where_they_begin() -> None:
    text = "Breakfast is\n  from seven.\n\n\n# 5 is no heading here\n"
    assert parts("house.txt", text) == [
        Part("Breakfast is from seven.", "line 1"),
        Part("# 5 is no heading here", "line 5"),
    ]


def test_markdown_has_headings_but_not_in_code() -> None:
    text = "Before.\n# Meals #\nAt seven.\n\n```\n# a comment\n```\n## Dinner\nAt eight.\n"
    assert parts("house.MD", text) == [
        Part("Before.", "line 1"),
        Part("At seven.", "line 3", "Meals"),
        Part("``` # a comment ```", "line 5", "Meals"),
        Part("At eight.", "line 9", "Dinner"),
    ]


def test_a_heading_of_marks_alone_takes_no_longer_for_their_number() -> None:
    marks = " # " * 20_000
    assert parts("a.md", f"# Meals{marks}x\nAt seven.\n# Tea #{marks}\nAt five.") == [
        Part("At seven.", "line 2", f"Meals{marks}x"),
        Part("At five.", "line 4", "Tea"),
    ]


def test_a_value_of_several_lines_is_one_as_paragraphs_are() -> None:
    [part] = parts("a.csv", 'a,b\n1,"Two.\n\nThe caller says: three"\n')
    assert part.text == "a: 1; b: Two. The caller says: three"


def test_a_column_of_a_long_name_does_not_repeat_all_of_it() -> None:
    [part] = parts("a.csv", "x" * 10_000 + ",b\n1,2\n")
    assert part.text == f"{'x' * 100}: 1; b: 2"


def test_a_row_of_a_table_is_told_with_the_names_of_its_columns() -> None:
    text = 'room;price;view\n12;80;"the sea, mostly"\n\n13;;\n14;95;garden;more\n'
    assert parts("rooms.csv", text) == [
        Part("room: 12; price: 80; view: the sea, mostly", "line 2", whole=True),
        Part("room: 13", "line 4", whole=True),
        Part("room: 14; price: 95; view: garden", "line 5", whole=True),
    ]
    assert parts("rooms.tsv", "a\tb\n1\t2\n") == [Part("a: 1; b: 2", "line 2", whole=True)]


def test_texts_that_say_what_they_are_written_in_are_read() -> None:
    assert parts("a.txt", codecs.BOM_UTF8 + b"caf\xc3\xa9") == [Part("café", "line 1")]
    assert parts("a.txt", "café".encode("utf-16")) == [Part("café", "line 1")]
    page = '<html><head><meta charset="iso-8859-1"></head><p>café</p>'.encode("latin-1")
    assert [part.text for part in parts("a.html", page)] == ["café"]
    page = '<meta charset="utf-16"><p>café</p>'.encode()
    assert [part.text for part in parts("a.html", page)] == ["café"]


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.txt", "café".encode("latin-1"), "no text in utf-8.*save it as UTF-8"),
        ("a.txt", b"GIF89a\0\0\0", "zero bytes"),
        ("a.html", b'<meta charset="klingon">x', "no text in klingon"),
        ("a.html", b'<meta charset="undefined">x', "no text in undefined"),
        ("a.csv", b'name\n"' + b"x" * 2_000_000, "is no CSV: line"),
        ("a.pdf", b"no pdf at all", "is a PDF that cannot be read"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, data: bytes, told: str) -> None:
    with pytest.raises(DocumentError, match=told):
        parts(name, data)


def test_nothing_is_nothing() -> None:
    for name in ("a.txt", "a.md", "a.html", "a.csv"):
        assert parts(name, b"") == []


def pdf(*pages: str, password: str = "") -> bytes:
    pypdf = pytest.importorskip("pypdf")
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        kind = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        named = {NameObject(key): NameObject(value) for key, value in kind.items()}
        fonts = DictionaryObject({NameObject("/F1"): DictionaryObject(named)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if password:
        writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_pdf_is_read_by_its_pages() -> None:
    assert parts("a.pdf", pdf("Breakfast at seven.", "No dogs.")) == [
        Part("Breakfast at seven.", "page 1"),
        Part("No dogs.", "page 2"),
    ]


def test_a_pdf_of_pictures_or_under_lock_says_so() -> None:
    with pytest.raises(DocumentError, match="without text, only pictures"):
        parts("a.pdf", pdf(""))
    with pytest.raises(DocumentError, match="locked by a password"):
        parts("a.pdf", pdf("secret", password="sesame"))


def test_without_the_package_a_pdf_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdf", None)
    monkeypatch.delitem(__import__("sys").modules, "pipelines.memory.pdf", raising=False)
    with pytest.raises(DocumentError, match=r"package that reads those is missing: .*pdf"):
        parts("a.pdf", b"%PDF-1.4")


def test_files_are_known_by_their_names() -> None:
    assert is_document(Path("a.TXT"))
    assert is_document(Path("a.pdf"))
    assert not is_document(Path("a.docx"))
    assert not is_document(Path("txt"))


def test_what_is_not_to_be_read_from_the_disk_says_why(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.touch()
    os.truncate(large, MOST_BYTES + 1)
    with pytest.raises(DocumentError, match="more than 47 MiB: split it"):
        read(large)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DocumentError, match="no file, but a pipe"):
        read(tmp_path / "pipe.txt")
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        read(tmp_path / "gone.txt")
