"""The folder is there whole, or as it was before."""

import errno
import shutil
from collections import namedtuple

import pytest

from engines.build.output import new_folder
from engines.build.steps import BuildError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "models" / "built"


def build(out, content="new", *, force=False, needed=0):
    with new_folder(out, force=force, needed_bytes=needed) as folder:
        assert folder.parent == out.parent
        (folder / "file").write_text(content)


def test_it_is_seen_only_once_it_is_whole(out):
    with new_folder(out, force=False, needed_bytes=0) as folder:
        (folder / "file").write_text("new")
        assert not out.exists()
    assert (out / "file").read_text() == "new"
    assert [path.name for path in out.parent.iterdir()] == ["built"]


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_a_build_that_is_stopped_leaves_nothing(out, stopped):
    with pytest.raises(stopped), new_folder(out, force=False, needed_bytes=0) as folder:
        (folder / "half").write_text("half")
        raise stopped
    assert list(out.parent.iterdir()) == []


def test_what_is_there_stays_unless_it_is_forced(out):
    build(out, "old")
    with pytest.raises(BuildError, match=r"is there already.*--force"):
        build(out)
    assert (out / "file").read_text() == "old"
    build(out, force=True)
    assert (out / "file").read_text() == "new"
    assert [path.name for path in out.parent.iterdir()] == ["built"]


def test_an_empty_folder_is_free(out):
    out.mkdir(parents=True)
    build(out)
    assert (out / "file").exists()


def test_the_old_one_stays_where_a_forced_build_fails(out):
    build(out, "old")
    with pytest.raises(ZeroDivisionError), new_folder(out, force=True, needed_bytes=0):
        raise ZeroDivisionError
    assert (out / "file").read_text() == "old"


def test_the_old_one_comes_back_where_the_new_cannot_take_its_place(out, monkeypatch):
    build(out, "old")
    with (
        pytest.raises(BuildError, match="cannot build"),
        new_folder(out, force=True, needed_bytes=0) as folder,
    ):
        shutil.rmtree(folder)
    assert (out / "file").read_text() == "old"


def test_a_file_is_no_folder(out):
    out.parent.mkdir()
    out.write_text("")
    with pytest.raises(BuildError, match="is a file: name a folder"):
        build(out, force=True)


def test_a_disk_without_room_is_refused_before_anything_is_written(out, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(5 << 20))
    build(out, needed=5 << 20)
    with pytest.raises(BuildError, match="5 MiB free, and the build writes up to 6"):
        build(out, force=True, needed=6 << 20)


def full_disk(kind):
    if kind == "system":
        return OSError(errno.ENOSPC, "No space left on device")
    error = type("SafetensorError", (Exception,), {})
    return error("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("kind", ["system", "safetensors"])
def test_a_disk_that_fills_is_told_and_emptied(out, kind):
    with (
        pytest.raises(BuildError, match=r"the disk of .*built is full: make room"),
        new_folder(out, force=False, needed_bytes=0) as folder,
    ):
        (folder / "half").write_text("half")
        raise full_disk(kind)
    assert list(out.parent.iterdir()) == []


def test_a_place_that_may_not_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot build .*see to it"):
        build(tmp_path / "file" / "built")


def test_errors_of_the_system_that_are_of_no_file_are_not_reworded(out):
    with (
        pytest.raises(OSError, match=r"^broken$"),
        new_folder(out, force=False, needed_bytes=0),
    ):
        raise OSError("broken")
