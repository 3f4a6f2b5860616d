"""Documents are asked off the loop, and an index that takes the old one's place is taken up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engines.embedding.scripted import Options, ScriptedEmbedder
from engines.ports import EngineError, Priority
from pipelines.memory.indexing import bring_up_to_date
from pipelines.memory.lookup import Documents
from pipelines.memory.settings import MemorySettings
from pipelines.memory.store import Index


class Quiet:
    def begin(self, documents: int, size: int) -> None: ...

    def advance(self, size: int, passages: int) -> None: ...


class House:
    def __init__(self, root: Path) -> None:
        self.folder, self.index = root / "documents", root / "house.index"
        self.folder.mkdir()
        self.embedder = ScriptedEmbedder()

    async def update(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.folder / f"{name}.txt").write_text(text, "utf-8")
        await bring_up_to_date(self.folder, self.index, self.embedder, Quiet())


@pytest.fixture
async def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    await made.update(
        meals="Breakfast is served from seven to ten.",
        cars="Park your car behind the house.",
        dogs="Dogs sleep in the stable.",
    )
    return made


@pytest.fixture
async def ask(house: House) -> AsyncIterator[Callable[..., Any]]:
    """``await ask(words)``: the sources of what is found; settings on the first time."""
    opened: list[Documents] = []

    async def ask(words: str, **settings: Any) -> list[str]:
        if not opened:
            opened.append(Documents(MemorySettings(**settings), house.index, house.embedder))
            await opened[0].warm_up()
        found = await opened[0].find(words, "call_1", Priority.FINAL)
        return [each.source for each in found]

    yield ask
    for documents in opened:
        await documents.close()


async def test_the_best_come_first_and_no_more_than_are_asked_for(ask: Any) -> None:
    assert await ask("is breakfast served from seven", top_k=2, min_score=-1.0) == [
        "meals.txt",
        *(await ask("is breakfast served from seven"))[1:],
    ]
    assert len(await ask("park the car")) == 2


async def test_what_is_hardly_alike_is_not_told(ask: Any) -> None:
    assert await ask("park your car behind the house", min_score=0.5) == ["cars.txt"]
    assert await ask("quarterly figures of xylophones") == []


async def test_neither_half_runs_on_the_loops_thread(
    house: House, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    threads: set[int] = set()
    really = Index.nearest

    def note(self: Index, *arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return really(self, *arguments)

    monkeypatch.setattr(Index, "nearest", note)
    await ask("breakfast")
    assert threads
    assert threading.get_ident() not in threads


async def test_a_new_index_is_taken_up_with_the_next_look_up(house: House, ask: Any) -> None:
    assert "sauna.txt" not in await ask("the sauna opens at six", min_score=0.1)
    await house.update(sauna="The sauna opens at six.")
    assert (await ask("the sauna opens at six"))[0] == "sauna.txt"


async def test_an_index_of_no_use_does_not_end_the_one_in_use(
    house: House, ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    before = await ask("breakfast")
    rubbish = house.index.with_name("rubbish")
    rubbish.write_bytes(b"no index at all" * 99)
    rubbish.replace(house.index)
    assert await ask("breakfast") == before
    assert await ask("breakfast") == before
    assert caplog.text.count("the index in use goes on") == 1
    house.index.unlink()
    assert await ask("breakfast") == before
    other = ScriptedEmbedder(Options(dimensions=32))
    await bring_up_to_date(house.folder, house.index, other, Quiet())
    assert await ask("breakfast") == before
    assert "scripted-32" in caplog.text


async def test_an_index_of_another_embedder_is_refused_at_the_start(house: House) -> None:
    other = ScriptedEmbedder(Options(dimensions=32))
    documents = Documents(MemorySettings(), house.index, other)
    with pytest.raises(EngineError, match=r"scripted-64 \(64 .*run `voice index` again") as refused:
        await documents.warm_up()
    assert refused.value.code == "unavailable"
    with pytest.raises(EngineError, match="no index is open"):
        await documents.find("hello there", "", Priority.FINAL)
    await documents.close()


async def test_an_index_that_is_not_there_is_told_with_the_command(house: House) -> None:
    documents = Documents(MemorySettings(), house.index.with_name("gone"), house.embedder)
    with pytest.raises(EngineError, match="is not there: make it by `voice index DIR`"):
        await documents.warm_up()
    await documents.close()


async def test_an_embedder_that_fails_is_told(house: House) -> None:
    documents = Documents(MemorySettings(), house.index, house.embedder)
    await documents.warm_up()
    house.embedder._options = Options(fail_code="failed")
    with pytest.raises(EngineError, match="told to fail"):
        await documents.find("hello there", "", Priority.FINAL)
    await documents.close()


async def test_a_look_up_that_nobody_waits_for_can_be_left(house: House) -> None:
    documents = Documents(MemorySettings(), house.index, house.embedder)
    await documents.warm_up()
    task = asyncio.create_task(documents.find("breakfast", "", Priority.SPECULATIVE))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await documents.find("breakfast", "", Priority.FINAL)
    await documents.close()
