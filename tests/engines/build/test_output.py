"""The folder is there whole, or as it was before."""

import errno
import fcntl
import shutil
from collections import namedtuple

import pytest

from engines.build.output import new_folder
from engines.build.steps import BuildError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "models" / "built"


def build(out, content="new", *, force=False, needed=0, reads=()):
    with new_folder(out, force=force, needed_bytes=needed, reads=reads) as folder:
        assert folder.parent == out.parent
        (folder / "config.json").write_text("{}")
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


def test_only_a_model_is_replaced(out):
    out.mkdir(parents=True)
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(BuildError, match=r"holds no model .*--force does not replace it"):
        build(out, force=True)
    assert (out / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("read", [".", "source", "texts.jsonl"])
def test_what_a_build_reads_is_not_replaced_by_it(out, read):
    build(out, "old")
    with pytest.raises(BuildError, match="which the build reads, and would be replaced"):
        build(out, force=True, reads=[out / read])
    assert (out / "file").read_text() == "old"


def test_behind_a_link_the_folder_itself_is_replaced(out):
    build(out, "old")
    link = out.with_name("link")
    link.symlink_to(out)
    build(link, force=True)
    assert link.is_symlink()
    assert (out / "file").read_text() == "new"
    assert {path.name for path in out.parent.iterdir()} == {"built", "link"}


@pytest.mark.parametrize("moment", ["building", "moving", "clearing"])
def test_what_a_killed_build_left_is_cleared_by_the_next_and_never_taken_for_whole(out, moment):
    left = out.with_name(".built.building")
    stepped_aside = out.with_name(".built.building.old")
    (left / "shards").mkdir(parents=True)
    (left / "half").write_text("half")
    if moment != "building":
        stepped_aside.mkdir()
        (stepped_aside / "file").write_text("older")
    if moment == "clearing":
        build(out, "old")
        stepped_aside.mkdir(exist_ok=True)
    build(out, force=True)
    assert {path.name for path in out.iterdir()} == {"config.json", "file"}
    assert (out / "file").read_text() == "new"
    assert [path.name for path in out.parent.iterdir()] == ["built"]


def test_two_builds_of_one_folder_do_not_mix(out):
    with new_folder(out, force=False, needed_bytes=0) as folder:
        (folder / "file").write_text("first")
        with pytest.raises(BuildError, match="another build is making"):
            build(out, "second")
        assert (folder / "file").read_text() == "first"
    assert (out / "file").read_text() == "first"


def test_a_folder_that_moves_into_place_just_now_is_not_emptied(out, monkeypatch):
    """The lock is had in the instant after the other build has renamed what it locks."""
    made, flock = out.with_name(".built.building"), fcntl.flock

    def moves_first(held, how):
        made.rename(out)
        flock(held, how)

    made.mkdir(parents=True)
    (made / "file").write_text("whole")
    monkeypatch.setattr(fcntl, "flock", moves_first)
    with pytest.raises(BuildError, match="another build is making"):
        build(out)
    assert (out / "file").read_text() == "whole"
