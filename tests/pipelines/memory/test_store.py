"""What is found is what brute force finds, and what is no index says so."""

import os
from pathlib import Path

import apsw
import numpy as np
import pytest

from engines.ports import EngineError
from pipelines.memory.passages import Passage
from pipelines.memory.store import Index, failures, identity_of
from pipelines.memory.writing import State, Writing

PASSAGES, DIMENSIONS, ASKED, MOST = 10_000, 384, 50, 10


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """10,000 passages in 500 bundles, as texts of a house are."""
    path = tmp_path_factory.mktemp("large") / "index"
    rng = np.random.default_rng(11)
    bundles = rng.normal(size=(500, DIMENSIONS))
    drawn = bundles[rng.integers(0, 500, PASSAGES)] + 1.2 * rng.normal(size=(PASSAGES, DIMENSIONS))
    vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    writing = Writing(path, "m", DIMENSIONS)
    for at in range(0, PASSAGES, 500):
        writing.begin(f"{at}")
        cut = [Passage(f"{at + n}", f"line {n}") for n in range(500)]
        writing.add(f"{at}", cut, vectors[at : at + 500])
        writing.finish(f"{at}", State(1, 1, "d"))
    writing.put_in_place()
    return path, vectors


def test_recall_against_brute_force_is_one_at_10_000_passages(
    large: tuple[Path, np.ndarray],
) -> None:
    path, vectors = large
    index = Index(path)
    assert index.counts == (20, PASSAGES)
    rng = np.random.default_rng(12)
    asked = vectors[rng.integers(0, PASSAGES, ASKED)] + 0.05 * rng.normal(size=(ASKED, DIMENSIONS))
    asked = (asked / np.linalg.norm(asked, axis=1, keepdims=True)).astype(np.float32)
    for vector in asked:
        likeness = vectors @ vector
        best = set(np.argsort(-likeness)[:MOST])
        found = index.nearest(vector, MOST)
        assert {int(each.text) for each in found} == best
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        np.testing.assert_allclose(scores, np.sort(likeness)[::-1][:MOST], atol=1e-5)
    index.close()


def test_an_index_in_use_that_is_written_over_in_its_place_ends_no_server(tmp_path: Path) -> None:
    path = tmp_path / "index"
    writing = Writing(path, "m", DIMENSIONS)
    writing.begin("a")
    vectors = np.eye(400, DIMENSIONS, dtype=np.float32)
    writing.add("a", [Passage(f"{n}", "line 1") for n in range(400)], vectors)
    writing.finish("a", State(1, 1, "d"))
    writing.put_in_place()
    index = Index(path)
    assert index.nearest(vectors[3], 1)[0].text == "3"
    os.truncate(path, 20_000)  # as cp and scp begin
    with pytest.raises(EngineError, match="is no index"):
        index.nearest(vectors[3], 1)
    index.close()


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "index", "m", 4)
    writing.put_in_place()
    assert Index(tmp_path / "index").nearest(np.ones(4, np.float32), 3) == ()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "is not there: make it by `voice index DIR`"),
        (lambda path: path.write_bytes(b"no database" * 200), "is no index"),
        (lambda path: path.mkdir(), "cannot be read|is no index"),
        (lambda path: apsw.Connection(str(path)).execute("CREATE TABLE a (b)"), "another version"),
    ],
)
def test_what_is_no_index_says_so(tmp_path: Path, make: object, told: str) -> None:
    path = tmp_path / "index"
    make(path)  # type: ignore[operator]
    with pytest.raises(EngineError, match=told) as refused:
        Index(path)
    assert refused.value.code == "unavailable"
    assert str(path) in str(refused.value)


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the disk is full: make room"), failures(tmp_path):
        raise apsw.FullError("database or disk is full")


def test_another_file_is_known_by_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_text("a")
    before = identity_of(path)
    assert identity_of(path) == before
    (tmp_path / "new").write_text("b")
    (tmp_path / "new").replace(path)
    assert identity_of(path) != before
