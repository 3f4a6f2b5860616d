"""An index is whole or not there, and is nobody else's file."""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from engines.ports import EngineError
from pipelines.memory.passages import Passage
from pipelines.memory.store import Index
from pipelines.memory.writing import PART, State, Writing, _locked

DIMENSIONS = 8
RNG = np.random.default_rng(5)


def vectors(count: int) -> np.ndarray:
    drawn = RNG.normal(size=(count, DIMENSIONS)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def write(writing: Writing, source: str, count: int, digest: str = "d") -> np.ndarray:
    made = vectors(count)
    cut = [Passage(f"{source} {n}", f"line {n}") for n in range(count)]
    writing.begin(source)
    writing.add(source, cut, made)
    writing.finish(source, State(10, 20, digest))
    return made


def opened(path: Path, model: str = "m") -> Writing:
    return Writing(path, model, DIMENSIONS)


def test_what_was_written_is_found_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "an index?.db"
    writing = opened(path)
    made = write(writing, "a/b.md", 5)
    assert not path.exists()
    writing.put_in_place()
    assert not path.with_name(path.name + PART).exists()
    index = Index(path)
    assert (index.model, index.dimensions, index.counts) == ("m", DIMENSIONS, (1, 5))
    best, second = index.nearest(made[3], 2)
    assert (best.source, best.place, best.text) == ("a/b.md", "line 3", "a/b.md 3")
    assert best.score == pytest.approx(1, abs=1e-5)
    likeness = sorted(made @ made[3])[-2]
    assert second.score == pytest.approx(likeness, abs=1e-5)
    index.close()


def test_a_document_that_comes_again_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    assert writing.begin("a") is False
    write(writing, "a", 3, "old")
    write(writing, "b", 2)
    assert writing.begin("a") is True
    write(writing, "a", 1, "new")
    writing.forget(["b", "never"])
    assert writing.known() == {"a": State(10, 20, "new")}
    assert writing.counts() == (1, 1)
    writing.close()


def test_what_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    write(writing, "a", 3)
    writing.begin("half")
    writing.add("half", [Passage("x", "line 1")], vectors(1))
    writing.close()
    assert not path.exists()
    again = opened(path)
    assert again.anew == ""
    assert again.known() == {"a": State(10, 20, "d"), "half": State(0, 0, "")}
    again.close()


def test_an_index_in_use_is_not_touched_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    made = write(writing, "a", 3)
    writing.put_in_place()
    index = Index(path)
    before = path.read_bytes()
    writing = opened(path)
    writing.forget(["a"])
    write(writing, "b", 4)
    assert path.read_bytes() == before
    writing.put_in_place()
    assert index.nearest(made[0], 1)[0].source == "a", "who has it open goes on with it"
    index.close()
    assert Index(path).counts == (1, 4)


@pytest.mark.parametrize(
    ("model", "dimensions", "told"),
    [("other", DIMENSIONS, "those of the model m"), ("m", 4, "of another version")],
)
def test_vectors_of_another_model_are_of_no_use(
    tmp_path: Path, model: str, dimensions: int, told: str
) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    write(writing, "a", 3)
    writing.put_in_place()
    again = Writing(path, model, dimensions)
    assert told in again.anew
    assert again.known() == {}
    again.close()


def test_rubbish_beside_the_index_is_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.with_name(path.name + PART).write_bytes(b"no database at all" * 100)
    writing = opened(path)
    write(writing, "a", 1)
    writing.put_in_place()
    assert Index(path).counts == (1, 1)


def test_what_is_damaged_beside_the_index_gives_way_to_the_index(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    write(writing, "a", 30)
    writing.put_in_place()
    part = path.with_name(path.name + PART)
    part.write_bytes(path.read_bytes()[:20_000])  # as a full disk leaves it
    writing = opened(path)
    assert (writing.anew, writing.counts()) == ("", (1, 30))
    writing.close()


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    write(writing, "a", 300)
    writing.put_in_place()
    data = bytearray(path.read_bytes())
    data[8_192:-8_192] = bytes(len(data) - 16_384)
    path.write_bytes(data)
    writing = opened(path)
    assert (writing.anew, writing.counts()) == ("it is damaged", (0, 0))
    write(writing, "a", 1)
    writing.put_in_place()
    assert Index(path).counts == (1, 1)


def test_who_waits_for_a_file_that_is_put_in_place_writes_another(tmp_path: Path) -> None:
    path = tmp_path / "index"
    part = path.with_name(path.name + PART)
    part.touch()
    real, put = fcntl.flock, list[Path]()

    def flock(file: BinaryIO, how: int) -> None:
        if not put:
            put.append(part.replace(path))  # by another, since this one opened it
        real(file, how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        locked = _locked(part)
    assert os.path.samestat(os.fstat(locked.fileno()), part.stat())
    locked.close()


@pytest.mark.parametrize("data", [b"my diary\n" * 200, b""])
def test_a_file_that_is_no_index_is_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(data)
    with pytest.raises(EngineError, match=r"is there and is no index: name another file by -o"):
        opened(path)
    assert path.read_bytes() == data


def test_two_cannot_write_the_same(tmp_path: Path) -> None:
    first = opened(tmp_path / "index")
    with pytest.raises(EngineError, match="another `voice index` is writing it"):
        opened(tmp_path / "index")
    first.close()
    opened(tmp_path / "index").close()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere.*cannot be read or written: No such file"):
        opened(tmp_path / "nowhere" / "index")


def test_the_room_of_what_has_gone_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = opened(path)
    for n in range(40):
        write(writing, f"{n}", 150)
    writing.put_in_place()
    full = path.stat().st_size
    writing = opened(path)
    writing.forget([f"{n}" for n in range(40) if n % 10])
    kept = writing.counts()
    writing.put_in_place()
    assert path.stat().st_size < full / 2
    index = Index(path)
    assert index.counts == kept == (4, 600)
    assert {found.source for found in index.nearest(vectors(1)[0], 600)} == {"0", "10", "20", "30"}
