"""Documents in a whole call through the Realtime door: told, cited, replayed."""

from pathlib import Path
from typing import Any

from engines.embedding.scripted import ScriptedEmbedder
from engines.scripted import AsrOptions, ScriptedAsr
from pipelines.memory.indexing import bring_up_to_date
from pipelines.memory.lookup import Documents
from pipelines.memory.settings import MemorySettings
from voice.journal import read
from voice.replay import differences, lines

QUESTION = "when is breakfast served in this house"


class Untold:
    def begin(self, documents: int, size: int) -> None: ...

    def advance(self, size: int, passages: int) -> None: ...


async def test_what_is_told_is_cited_and_the_journal_replays_as_it_was(
    serve: Any, tmp_path: Path
) -> None:
    folder, index, journals = (tmp_path / name for name in ("house", "house.index", "journals"))
    folder.mkdir()
    (folder / "meals.md").write_text("# Meals\nBreakfast is served from seven to ten.\n")
    (folder / "cars.md").write_text("# Cars\nPark behind the barn.\n")
    embedder = ScriptedEmbedder()
    await bring_up_to_date(folder, index, embedder, Untold())
    documents = Documents(MemorySettings(top_k=1), index, embedder)
    await documents.warm_up()
    server = await serve(
        f"journal.dir={journals}",
        asr=ScriptedAsr(AsrOptions(text=QUESTION)),
        knowledge=documents,
    )
    async with server.call() as client:
        await client.take_turn()
        await client.until("response.done")
    asked = [request for request in server.llm.requests if request.max_tokens != 0]
    assert "served from seven to ten" in asked[-1].messages[-1].content
    await server.is_empty()
    server.house.records.close()
    [path] = journals.glob("*.jsonl")
    recorded = read(path)
    assert list(differences(recorded)) == []
    told = [line for line in lines(recorded) if line.title == "reply recalled"]
    assert told
    assert f"words {QUESTION}, outcome found" in told[-1].detail
    assert "source meals.md, place Meals, line 2, score 0." in told[-1].detail
    assert "served from seven" not in path.read_text(), "cited, not copied"
    assert server.house.metrics.recalls.labels("found")._value.get() >= 1
    await documents.close()
