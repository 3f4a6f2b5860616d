"""Where a SNAC's weights come from, and what is said where they do not."""

import json
from pathlib import Path

import pytest
import torch

from engines.ports import EngineError
from engines.tts.snac_weights import CONFIG_24KHZ, TINY, load_snac, random_snac

pytestmark = pytest.mark.torch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG_24KHZ, **TINY}))
    torch.save(random_snac(**TINY).state_dict(), tmp_path / "pytorch_model.bin")
    return tmp_path


def test_a_folder_is_read(folder: Path) -> None:
    loaded, made = load_snac(folder).state_dict(), random_snac(**TINY).state_dict()
    assert loaded.keys() == made.keys()
    assert all(torch.equal(loaded[name], made[name]) for name in made)


@pytest.mark.parametrize("name", ["config.json", "pytorch_model.bin"])
def test_a_file_that_is_missing_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(EngineError, match=f"{name} is missing") as caught:
        load_snac(folder)
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize("name", ["config.json", "pytorch_model.bin"])
def test_a_file_that_is_damaged_is_told(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"nothing that can be read")
    with pytest.raises(EngineError, match="fetch its two files again"):
        load_snac(folder)


def test_a_name_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import snac

    made = random_snac(**TINY)
    asked: list[str] = []

    def from_pretrained(name: str) -> snac.SNAC:
        asked.append(name)
        if "missing" in name:
            raise OSError("offline")
        return made

    monkeypatch.setattr(snac.SNAC, "from_pretrained", from_pretrained)
    assert load_snac("some/snac") is made
    with pytest.raises(EngineError, match="cannot be had from the hub: offline"):
        load_snac("missing/snac")
    assert asked == ["some/snac", "missing/snac"]


def test_random_weights_are_those_of_the_seed() -> None:
    first, again, other = (random_snac(seed, **TINY).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
