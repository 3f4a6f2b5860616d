"""A SNAC from a folder, from the hub, from a seed; and what is said where there is none."""

import json
import sys

import pytest
import torch

from engines.ports import EngineError
from engines.tts import snac_weights
from engines.tts.snac_weights import CONFIG_24KHZ, HUB_NAME, TINY, load_snac, random_snac

pytestmark = pytest.mark.torch


@pytest.fixture
def folder(tmp_path):
    model = random_snac(3, **TINY)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG_24KHZ, **TINY}))
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    return tmp_path


def states_equal(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_a_folder_gives_the_model_that_was_saved(folder):
    loaded = load_snac(folder)
    assert states_equal(loaded, random_snac(3, **TINY))
    assert not loaded.training


def test_a_seed_gives_always_the_same_and_disturbs_nobody():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = random_snac(3, **TINY)
    assert torch.equal(torch.rand(3), expected)
    assert states_equal(first, random_snac(3, **TINY))
    assert not states_equal(first, random_snac(4, **TINY))


@pytest.mark.parametrize("missing", ["config.json", "pytorch_model.bin"])
def test_a_folder_that_lacks_a_file_is_told_which(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(EngineError, match=rf"{missing} is missing: give a folder") as refused:
        load_snac(folder)
    assert refused.value.code == "unavailable"


class Trap:
    """Unpickled, it would run what it likes."""

    def __reduce__(self):
        return sys.exit, (3,)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("config.json", lambda path: path.write_text("{")),
        ("config.json", lambda path: path.write_text('{"no_such": 1}')),
        ("config.json", lambda path: path.write_text(json.dumps(CONFIG_24KHZ))),
        ("pytorch_model.bin", lambda path: path.write_bytes(b"")),
        ("pytorch_model.bin", lambda path: path.write_bytes(b"no weights")),
        ("pytorch_model.bin", lambda path: torch.save({"x": Trap()}, path)),
    ],
)
def test_a_damaged_folder_is_refused(folder, file, damage):
    damage(folder / file)
    with pytest.raises(EngineError, match="no SNAC that can be read") as refused:
        load_snac(str(folder))
    assert refused.value.code == "failed"


def test_any_other_name_is_asked_of_the_hub(monkeypatch):
    asked = []
    monkeypatch.setattr(
        snac_weights.snac.SNAC, "from_pretrained", lambda name: asked.append(name) or "a model"
    )
    assert load_snac() == "a model"
    assert asked == [HUB_NAME]


@pytest.mark.parametrize("error", [OSError("no route"), ImportError("no module")])
def test_without_a_hub_it_says_what_to_give(monkeypatch, error):
    def refuse(name):
        raise error

    monkeypatch.setattr(snac_weights.snac.SNAC, "from_pretrained", refuse)
    with pytest.raises(EngineError, match="give a folder that holds") as refused:
        load_snac("some/where")
    assert refused.value.code == "unavailable"
    assert "some/where" in refused.value.message
