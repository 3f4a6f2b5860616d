"""A folder is brought into an index: only what changed is read, and a stop costs little."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.embedding.scripted import Options, ScriptedEmbedder
from engines.ports import EmbeddingRequest, EngineError, Priority
from pipelines.memory.documents import DocumentError
from pipelines.memory.indexing import Outcome, bring_up_to_date
from pipelines.memory.store import Index
from pipelines.memory.writing import PART


class Noting(ScriptedEmbedder):
    """Notes what it is asked; fails at its n-th request of texts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Options(**options))
        self.texts: list[str] = []
        self.batches = 0
        self.fails_at = -1

    def open(self, request: Any) -> Any:
        if request.texts != ("hello",):
            assert request.priority is Priority.BATCH
            assert request.cut
            self.texts += request.texts
            self.batches += 1
            if self.batches == self.fails_at:
                raise EngineError("embedder", "failed", "it broke")
        return super().open(request)


class Told:
    def __init__(self) -> None:
        self.began: tuple[int, int] | None = None
        self.size = self.passages = 0

    def begin(self, documents: int, size: int) -> None:
        self.began = documents, size

    def advance(self, size: int, passages: int) -> None:
        self.size += size
        self.passages += passages


class House:
    """A folder, and its index."""

    def __init__(self, root: Path) -> None:
        self.folder, self.index = root / "documents", root / "house.index"
        self.folder.mkdir()
        self.embedder = Noting()
        self.told = Told()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    async def update(self) -> Outcome:
        self.embedder, self.told = Noting(), Told()
        return await bring_up_to_date(self.folder, self.index, self.embedder, self.told)

    def find(self, words: str, most: int = 3) -> list[str]:
        async def embedded() -> Any:
            async with ScriptedEmbedder().open(EmbeddingRequest((words,))) as stream:
                return (await anext(stream)).vectors[0]

        index = Index(self.index)
        try:
            return [found.source for found in index.nearest(asyncio.run(embedded()), most)]
        finally:
            index.close()


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    made.write("meals.md", "# Meals\nBreakfast is from seven to ten.\n\n# Dinner\nAt eight.\n")
    made.write("cars/park.txt", "Park behind the house.\n")
    made.write("empty.txt", "\n\n")
    return made


def counts(outcome: Outcome) -> tuple[int, int, int, int]:
    return outcome.added, outcome.changed, outcome.unchanged, outcome.removed


async def test_a_folder_is_indexed_once_and_then_only_what_changes(house: House) -> None:
    outcome = await house.update()
    assert counts(outcome) == (3, 0, 0, 0)
    assert (outcome.documents, outcome.passages, outcome.embedded) == (3, 3, 3)
    assert "Meals\nBreakfast is from seven to ten." in house.embedder.texts
    size = sum(path.stat().st_size for path in house.folder.rglob("*.*"))
    assert house.told.began == (3, size)
    assert (house.told.size, house.told.passages) == (size, 3)

    outcome = await house.update()
    assert counts(outcome) == (0, 0, 3, 0)
    assert house.embedder.texts == []
    assert house.told.began == (0, 0)

    house.write("cars/park.txt", "Park in front of the house.\n")
    house.write("new.txt", "Dogs are welcome.")
    (house.folder / "meals.md").unlink()
    outcome = await house.update()
    assert counts(outcome) == (1, 1, 1, 1)
    assert sorted(house.embedder.texts) == ["Dogs are welcome.", "Park in front of the house."]
    assert (outcome.documents, outcome.passages) == (3, 2)


async def test_a_file_that_was_only_touched_is_not_embedded_again(house: House) -> None:
    await house.update()
    os.utime(house.folder / "meals.md", (1, 1))
    outcome = await house.update()
    assert counts(outcome) == (0, 0, 3, 0)
    assert house.embedder.texts == []
    outcome = await house.update()
    assert house.told.began == (0, 0), "its new time is known"


async def test_long_documents_are_cut_over_batches_and_short_ones_share_them(
    house: House,
) -> None:
    for n in range(70):
        house.write(f"short/{n:02}.txt", f"Note number {n}.")
    rows = "\n".join(f"row,{n}" for n in range(150))
    house.write("table.csv", f"name,value\n{rows}\n")
    outcome = await house.update()
    assert outcome.passages == outcome.embedded == 3 + 70 + 150
    assert house.embedder.batches == 4
    assert house.told.passages == outcome.passages
    assert (await house.update()).unchanged == outcome.documents


async def test_what_cannot_be_read_is_told_and_keeps_what_is_known_of_it(house: House) -> None:
    await house.update()
    (house.folder / "meals.md").write_bytes(b"caf\xe9")
    house.write("bad.txt", "x\0y")
    outcome = await house.update()
    assert set(outcome.failed) == {"meals.md", "bad.txt"}
    assert counts(outcome) == (0, 0, 2, 0)
    assert outcome.documents == 3
    assert outcome.passages == 3, "the old words of meals.md"
    assert set((await house.update()).failed) == {"meals.md", "bad.txt"}, "told again"


async def test_files_that_are_no_documents_are_counted(house: House) -> None:
    house.write("letter.docx", "x")
    assert (await house.update()).ignored == {".docx": 1}


async def test_what_fails_leaves_the_index_as_it_was_and_what_is_done_beside_it(
    house: House,
) -> None:
    await house.update()
    before = house.index.read_bytes()
    rows = "\n".join(f"row,{n}" for n in range(150))
    house.write("a.csv", f"name,value\n{rows}\n")
    house.write("z.csv", f"name,value\n{rows}\n")
    embedder = Noting()
    embedder.fails_at = 4
    with pytest.raises(EngineError, match="it broke"):
        await bring_up_to_date(house.folder, house.index, embedder, Told())
    assert house.index.read_bytes() == before
    assert house.index.with_name(house.index.name + PART).exists()
    outcome = await house.update()
    assert len(house.embedder.texts) == 150, "a.csv was all in"
    assert outcome.passages == 303


async def test_a_stop_leaves_nothing_locked(house: House) -> None:
    house.write("a.csv", "name,value\n" + "\n".join(f"row,{n}" for n in range(300)))
    waits = asyncio.Event()

    class Hanging(ScriptedEmbedder):
        @asynccontextmanager
        async def open(self, request: Any) -> AsyncIterator[Any]:
            if len(request.texts) > 1:
                waits.set()
                await asyncio.Event().wait()
            async with super().open(request) as stream:
                yield stream

    indexing = bring_up_to_date(house.folder, house.index, Hanging(), Told())
    task = asyncio.create_task(indexing)
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not house.index.exists()
    outcome = await house.update()
    assert outcome.passages == 303


async def test_another_model_reads_all_again_and_says_why(house: House) -> None:
    await house.update()
    outcome = await bring_up_to_date(
        house.folder, house.index, ScriptedEmbedder(Options(dimensions=32)), Told()
    )
    assert counts(outcome) == (3, 0, 0, 0)
    assert "scripted-64" in outcome.anew


async def test_an_empty_folder_is_refused_and_the_index_stays(house: House) -> None:
    await house.update()
    before = house.index.read_bytes()
    for path in house.folder.rglob("*.*"):
        path.unlink()
    with pytest.raises(DocumentError, match=r"has no documents \(\.txt"):
        await house.update()
    assert house.index.read_bytes() == before


async def test_an_index_of_another_folder_is_not_written_over(house: House) -> None:
    await house.update()
    before = house.index.read_bytes()
    other = house.folder.parent / "other"
    other.mkdir()
    (other / "bakery.md").write_text("It opens at six.")
    house.folder = other
    with pytest.raises(DocumentError, match=r"such as cars/park\.txt: name another file by -o"):
        await house.update()
    assert house.index.read_bytes() == before


def test_what_is_indexed_is_found(house: House) -> None:
    asyncio.run(house.update())
    assert house.find("breakfast from seven", 1) == ["meals.md"]
    assert house.find("park the car behind the house", 1) == ["cars/park.txt"]
