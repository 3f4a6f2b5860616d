"""Which models engines are set to, and whether those are there."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from engines.catalogue import Model, ModelFile
from engines.models import ModelStore
from voice.model_states import ModelState, model_states


@dataclass(frozen=True)
class Options:
    model: str
    other: str = ""
    threads: int = 1


def test_models_of_the_store_folders_and_names_of_others(tmp_path: Path) -> None:
    file = ModelFile("a.bin", 7, hashlib.sha256(b"weights").hexdigest(), (b"weights",))
    models = ModelStore(tmp_path, {"known": Model("known", "a test", "MIT", (file,))})

    def state(model: str) -> list[ModelState]:
        return list(model_states(Options("somebody/else", model), models))[1:]

    assert state("known") == [ModelState("known", "missing")]
    models.pull(["known"])
    assert state("known") == [ModelState("known", "ready")]
    (tmp_path / "known" / "a.bin").write_bytes(b"weighty!")
    assert state("known") == [ModelState("known", "damaged")]
    for name, expected in (
        (str(tmp_path), "folder"),
        (f"{tmp_path}/gone", "no folder"),
        ("somebody/else", "named"),
    ):
        assert list(model_states(Options(name), models)) == [ModelState(name, expected)]
