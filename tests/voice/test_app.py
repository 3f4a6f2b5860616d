"""From a configuration to a house with warm engines."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.embedding.scripted import ScriptedEmbedder
from engines.models import ModelStore
from engines.placement import Gpu, Inventory
from engines.ports import EngineError, Priority, SpeechRequest
from pipelines.memory.indexing import bring_up_to_date
from voice import app
from voice.app import (
    engine_path,
    open_embedding,
    open_hearing,
    open_house,
    open_speaking,
    warm_up,
)
from voice.config import ConfigError, load

OWN_ENGINE = """
from dataclasses import dataclass

from engines.ports import EngineError, SpeechRequest

@dataclass(frozen=True)
class Options:
    greeting: str = "hello"
    warm: bool = True

class Own:
    rate, window_samples = 16_000, 512

    def __init__(self, options, models):
        self.options, self.models = options, models
        self.closed = False

    async def warm_up(self):
        if not self.options.warm:
            raise EngineError("own", "unavailable", "is cold")

    async def close(self):
        self.closed = True

def create(options, models):
    return Own(options, models)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Puts a module of the user's own where Python finds it; gives its import path."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(name: str, text: str = OWN_ENGINE) -> str:
        package = tmp_path / "my_house"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / f"{name}.py").write_text(text)
        for module in ("my_house", f"my_house.{name}"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return f"my_house.{name}"

    return put


async def refusal(*settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        async with open_house(load(settings=settings, scripted=True)):
            pass
    return str(caught.value)


async def test_engines_of_ones_own_are_made_warmed_and_closed(own_module: Any) -> None:
    path = own_module("engine")
    told: list[str] = []
    settings = [f"{kind}.engine={path}" for kind in ("vad", "asr", "llm", "tts")]
    config = load(settings=[*settings, "llm.greeting=hi", "models_dir=/nowhere"])
    async with open_house(config) as house:
        assert not house.ready
        await warm_up(house, told.append)
        assert house.ready
        engines = house.engines
        assert (engines.llm.engine.options.greeting, engines.asr.engine.options.greeting) == (
            "hi",
            "hello",
        )
        assert str(engines.llm.engine.models.root) == "/nowhere"
        assert not engines.llm.engine.closed
        assert house.metrics.registry.get_sample_value("antiphon_vad_windows") == 0
    assert engines.asr.engine.closed
    assert engines.llm.engine.closed
    assert engines.tts.engine.closed
    assert [line.split()[:2] for line in told] == [["asr", path], ["llm", path], ["tts", path]]


async def test_an_engine_that_stays_cold_leaves_the_house_closed(own_module: Any) -> None:
    path = own_module("engine")
    config = load(
        settings=[f"vad.engine={path}", f"llm.engine={path}", "llm.warm=false"],
        scripted=True,
    )
    config = load(
        settings=[f"vad.engine={path}", f"llm.engine={path}", "llm.warm=false",
                  "asr.engine=scripted", "tts.engine=scripted"]
    )  # fmt: skip
    async with open_house(config) as house:
        with pytest.raises(EngineError, match="is cold"):
            await warm_up(house, lambda line: None)
        assert not house.ready


async def test_files_need_what_hears_and_nothing_else(own_module: Any) -> None:
    path = own_module("engine")
    settings = [f"vad.engine={path}", f"asr.engine={path}", "llm.engine=nothing", "tts.engine=none"]
    settings += ["placement.llm=gpu0", "traces.endpoint=http://127.0.0.1:1"]
    async with open_hearing(load(settings=settings)) as (vad, asr):
        assert vad.rate == 16_000
        assert not asr.closed  # type: ignore[attr-defined]
    assert asr.closed  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"^asr\.engine: there is no nothing"):
        async with open_hearing(load(settings=["asr.engine=nothing"])):
            pass


async def test_what_speaks_can_be_opened_alone(own_module: Any) -> None:
    path = own_module("engine")
    settings = [f"tts.engine={path}", "asr.engine=nothing", "vad.engine=none", "placement.asr=gpu0"]
    async with open_speaking(load(settings=settings)) as tts:
        assert not tts.closed  # type: ignore[attr-defined]
    assert tts.closed  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"^tts\.engine: there is no nothing"):
        async with open_speaking(load(settings=["tts.engine=nothing"])):
            pass


@pytest.mark.parametrize("kind", ["vad", "asr", "llm", "tts"])
async def test_an_engine_that_is_not_there_is_told_with_those_that_are(kind: str) -> None:
    said = await refusal(f"{kind}.engine=nothing")
    assert said.startswith(f"{kind}.engine: there is no nothing. Known: ")
    assert ("silero" if kind == "vad" else "scripted") in said
    assert "ports" not in said


async def test_a_module_of_ones_own_that_is_not_there(own_module: Any) -> None:
    own_module("engine")
    assert "there is no my_house.other" in await refusal("llm.engine=my_house.other")
    assert "there is no nobody.here" in await refusal("llm.engine=nobody.here")


async def test_a_module_in_no_package_is_an_engine_too_after_those_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("parrot_of_mine", "scripted"):
        (tmp_path / f"{name}.py").write_text(OWN_ENGINE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert engine_path("tts", "parrot_of_mine") == "parrot_of_mine"
    assert engine_path("tts", "scripted") == "engines.tts.scripted"
    async with open_house(load(settings=["tts.engine=parrot_of_mine"], scripted=True)) as house:
        tts: Any = house.engines.tts
        assert type(tts.engine).__module__ == "parrot_of_mine"


async def test_a_sibling_that_is_missing_is_not_the_engine_itself(own_module: Any) -> None:
    path = own_module("parrot", "import my_house.par")
    assert await refusal(f"tts.engine={path}") == (
        "tts.engine: my_house.parrot needs the package my_house.par, which is not installed"
    )


async def test_all_that_is_wrong_with_engines_is_told_before_any_is_made(
    own_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice.packages.version_of", lambda name: "")
    monkeypatch.setattr("voice.app.make_engine", None)
    lines = (
        await refusal("asr.engine=moonshin", "llm.delay=1", "tts.engine=orpheus", "tts.voise=leo")
    ).splitlines()
    assert [line.split(":")[0] for line in lines] == ["asr.engine", "llm.delay", "tts.voise"]
    lines = (await refusal("tts.engine=orpheus", "tts.source=transformers")).splitlines()
    assert lines[0].startswith("tts: the packages torch, snac, transformers are missing: `")


async def test_a_module_that_is_no_engine() -> None:
    assert "os.path is no engine: it needs Options and create" in await refusal(
        "llm.engine=os.path"
    )


async def test_a_package_that_an_engine_lacks_is_named(own_module: Any) -> None:
    path = own_module("needy", "import package_that_nobody_has\n")
    said = await refusal(f"tts.engine={path}")
    assert said == (
        f"tts.engine: {path} needs the package package_that_nobody_has, which is not installed"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def create(:", "SyntaxError"),
        ("raise ZeroDivisionError('oh')", "ZeroDivisionError('oh')"),
        ("from os import no_such_thing", "ImportError"),
    ],
)
async def test_a_module_that_cannot_be_imported_is_told(
    own_module: Any, text: str, said: str
) -> None:
    path = own_module("broken", text)
    told = await refusal(f"tts.engine={path}")
    assert told.startswith(f"tts.engine: {path} cannot be imported: {said}")
    assert f"`python -c 'import {path}'` shows where" in told


@pytest.mark.parametrize("name", ["", ".foo", "../x", "a..b", "os.path;"])
async def test_a_name_that_is_none_is_told(name: str) -> None:
    assert (await refusal(f"tts.engine={name}")).startswith(
        f"tts.engine: {name!r} is no name. Known: hibari, orpheus, scripted, or the import path"
    )


async def test_engines_whose_packages_are_missing_are_known_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith(("engines.asr", "engines.tts"))]:
        monkeypatch.delitem(sys.modules, name)
    assert "whisper_transformers" in await refusal("asr.engine=nothing")
    assert "orpheus" in await refusal("tts.engine=nothing")


async def test_an_option_that_an_engine_does_not_have(own_module: Any) -> None:
    path = own_module("engine")
    said = await refusal(f"llm.engine={path}", "llm.greting=x")
    assert said == "llm.greting: there is no such setting. Did you mean llm.greeting?"


async def test_an_engine_that_has_a_place_runs_in_a_process_of_its_own() -> None:
    settings = ["placement.tts=cpu,cpu", "tts.engine=scripted"]
    async with open_house(load(settings=settings, scripted=True)) as house:
        await warm_up(house, lambda _: None)
        tts: Any = house.engines.tts
        pids = {process.pid for process in tts.engine.processes}
        assert len(pids) == 2
        assert os.getpid() not in pids
        async with tts.open(SpeechRequest("One two three.")) as audio:
            assert sum([len(pcm) async for pcm in audio]) == 6_000


async def test_a_placed_engine_s_options_are_checked_before_it_starts() -> None:
    assert "tts.speed: there is no such setting" in await refusal(
        "placement.tts=cpu", "tts.engine=scripted", "tts.speed=2"
    )


async def test_a_place_that_is_not_there_is_told() -> None:
    with pytest.raises(EngineError, match=r"7g\.141gb"):
        async with open_house(load(settings=["placement.tts=7g.141gb"], scripted=True)):
            pass


async def test_places_that_share_a_device_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gpu = Gpu(0, "GPU-a", "NVIDIA L4", 23_000)
    monkeypatch.setattr("engines.placement.inventory", lambda: Inventory((gpu,)))
    config = load(settings=["placement.tts=gpu0", "placement.asr=gpu0"], scripted=True)
    async with open_house(config):
        assert "placement: asr and tts share gpu0" in caplog.text


# --- what tells speakers apart --------------------------------------------------------------


async def test_a_server_starts_without_what_tells_speakers_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engines.diarization.pyannote.importlib.util.find_spec", lambda _: None)
    async with open_house(load(scripted=True)) as house:
        assert house.diarizer is not None
        with pytest.raises(EngineError, match=r"pyannote\.audio"):
            await house.diarizer.warm_up()


async def test_a_house_may_do_without_telling_speakers_apart() -> None:
    async with open_house(load(settings=["diarization.engine=none"], scripted=True)) as house:
        assert house.diarizer is None


async def test_settings_of_what_tells_speakers_apart_are_checked_at_the_start() -> None:
    config = load(settings=["diarization.likenes=0.3"], scripted=True)
    with pytest.raises(ConfigError, match=r"diarization\.likenes: .*likeness"):
        app.check_engines(config)


async def test_the_package_of_what_tells_speakers_apart_is_named_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("voice.packages.version_of", lambda _: "")
    with pytest.raises(ConfigError, match=r"the package pyannote\.audio is missing: .*diarize"):
        app.check_engines(load(scripted=True), ("diarization",))


async def test_documents_are_opened_with_the_house_and_warmed_with_it(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "meals.txt").write_text("Breakfast is from seven to ten.")
    index = tmp_path / "house.index"
    config = load(settings=("vad.engine=silero", f"memory.index={index}"), scripted=True)
    async with open_embedding(config) as embedder:
        await bring_up_to_date(tmp_path / "house", index, embedder, Untold())
    told: list[str] = []
    async with open_house(config) as house:
        await warm_up(house, told.append)
        assert house.engines.knowledge is not None
        [found] = await house.engines.knowledge.find("breakfast is from", "", Priority.FINAL)
        assert found.source == "meals.txt"
        assert house.models[-1] == "antiphon/scripted"
    assert told[-1].startswith(f"memory  {index}  warm in ")


class Untold:
    def begin(self, documents: int, size: int) -> None: ...

    def advance(self, size: int, passages: int) -> None: ...


async def test_an_index_that_is_missing_keeps_the_house_closed(tmp_path: Path) -> None:
    settings = (f"memory.index={tmp_path / 'gone'}",)
    with pytest.raises(EngineError, match="make it by `voice index DIR`"):
        async with open_house(load(settings=settings, scripted=True)):
            pass


async def test_an_index_of_another_embedder_is_told_before_any_model_is_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "meals.txt").write_text("Breakfast is from seven to ten.")
    index = tmp_path / "house.index"
    config = load(settings=(f"memory.index={index}",), scripted=True)
    async with open_embedding(config) as embedder:
        await bring_up_to_date(tmp_path / "house", index, embedder, Untold())
    app.check_index(config)
    app.check_index(load(scripted=True))
    other = ("embedding.engine=minilm", f"memory.index={index}")
    with pytest.raises(EngineError, match=r"is of the embedder .*, and \[embedding\] is all-mini"):
        app.check_index(load(settings=other, scripted=True))


async def test_models_that_are_missing_are_told_together(tmp_path: Path) -> None:
    settings = ("end_of_turn.engine=none", f"models_dir={tmp_path}")
    with pytest.raises(EngineError) as caught:
        async with open_house(load(settings=settings)):
            pass
    assert str(caught.value) == (
        f"silero-vad, moonshine-tiny-en, smollm2-135m are not in {tmp_path}, or are damaged: run"
        f" `voice models pull silero-vad moonshine-tiny-en smollm2-135m --folder {tmp_path}` to"
        " fetch them"
    )


async def test_documents_are_not_for_the_smallest_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load(settings=("llm.engine=smollm2", "memory.index=x"), scripted=True)
    documents = app._documents(config, ScriptedEmbedder())
    assert documents is not None
    await documents.close()
    assert "smollm2 is too small to make use of documents" in caplog.text
    assert '[llm] engine = "openai"' in caplog.text


async def test_only_who_looks_things_up_needs_an_embedder(tmp_path: Path) -> None:
    ours = ("asr", "llm", "tts")
    settings = [f"{kind}.engine=scripted" for kind in ours]
    settings += ["end_of_turn.engine=none", "embedding.model=/nowhere"]
    async with open_house(load(settings=settings)) as house:
        assert house.embedder is None
    with pytest.raises(EngineError, match="/nowhere"):
        app._make_embedder(load(settings=[*settings, "memory.index=x"]), ModelStore())
    with pytest.raises(ConfigError, match=r"memory\.index: nothing is found"):
        load(settings=["embedding.engine=none", "memory.index=x"])
