"""What there is in a folder, and what is not to be reached in it."""

import os
from pathlib import Path

import pytest

from pipelines.memory.documents import DocumentError
from pipelines.memory.folders import look_into


def test_documents_are_found_wherever_they_lie_but_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/deep/c.md", ".git/d.txt", ".e.txt", "f.docx", "g.DOCX", "Makefile"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "linked").symlink_to(tmp_path / "a", target_is_directory=True)
    found = look_into(tmp_path)
    assert list(found.documents) == ["b.txt", "a/deep/c.md"]
    assert found.documents["b.txt"].size == 1
    assert found.ignored == {".docx": 2, "Makefile": 1}
    assert found.failed == {}


def test_what_is_not_to_be_reached_may_still_be_there(tmp_path: Path) -> None:
    (tmp_path / "broken.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "fine.txt").write_text("x")
    found = look_into(tmp_path)
    assert list(found.documents) == ["fine.txt"]
    assert found.failed == {"broken.txt": "cannot be read: No such file or directory"}
    found.failed["locked"] = "cannot be read: Permission denied"
    assert found.may_have("locked/inner.txt")
    assert found.may_have("broken.txt")
    assert found.may_have("fine.txt")
    assert not found.may_have("lockedness.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_folder_that_is_locked_is_told(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0)
    try:
        assert look_into(tmp_path).failed == {"locked": "cannot be read: Permission denied"}
    finally:
        locked.chmod(0o700)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, told in (("file", "Not a directory"), ("gone", "No such file")):
        with pytest.raises(DocumentError, match=f"{name}: cannot be read: {told}"):
            look_into(tmp_path / name)


def test_names_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(odd, "w") as file:
        file.write("x")
    assert list(look_into(tmp_path).documents) == ["caf?.txt"]
