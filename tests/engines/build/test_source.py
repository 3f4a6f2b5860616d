"""Where a build starts: each folder and name that is no whole checkpoint is told apart."""

import json

import httpx
import pytest

from engines.build.source import locate, require_config
from engines.build.steps import BuildError


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of two parts."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 9}))
    (tmp_path / "tokenizer.json").write_text("{}")
    index = {
        "weight_map": {
            "a": "model-1.safetensors",
            "b": "model-2.safetensors",
            "c": "model-1.safetensors",
        }
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for part in (1, 2):
        (tmp_path / f"model-{part}.safetensors").write_bytes(bytes(part))
    (tmp_path / "optimizer.pt").write_bytes(bytes(100))
    return tmp_path


def test_a_folder_is_taken_as_it_is(folder, told, tmp_path):
    found = locate(str(folder), "", "llama", told)
    assert [path.name for path in found.weights] == ["model-1.safetensors", "model-2.safetensors"]
    assert found.bytes == 3
    found.require("tokenizer.json")
    source = found.describe(told)
    assert set(source.files) == {
        "config.json", "tokenizer.json", "model-1.safetensors", "model-2.safetensors"
    }  # fmt: skip
    assert source.name == str(folder)
    (tmp_path / "built").mkdir()
    found.copy_beside(tmp_path / "built")
    assert [path.name for path in (tmp_path / "built").iterdir()] == ["tokenizer.json"]


def spoil(folder, name, content):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "config.json is missing, the model's description"),
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "[]", "should hold a JSON object"),
        ("config.json", '{"model_type": "qwen3"}', "describes a qwen3, and this build takes a ll"),
        ("config.json", "{}", "describes a model of no type"),
        (
            "config.json",
            '{"model_type": "llama", "quantization_config": {}}',
            "quantised already: start from the model in 16 or 32 bits",
        ),
        ("model-2.safetensors", None, "model-2.safetensors is missing, a part that"),
        ("model.safetensors.index.json", None, "model.safetensors is missing, the weights"),
        ("tokenizer.json", None, "tokenizer.json is missing, a file that the engine needs"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(folder, told, name, content, message):
    spoil(folder, name, content)
    with pytest.raises(BuildError, match=message):
        found = locate(str(folder), "", "llama", told)
        found.require("tokenizer.json")
        assert found.weights


def test_a_model_that_is_too_small_is_told(folder, told):
    found = locate(str(folder), "", "llama", told)
    require_config(found, [("vocab_size", 9)])
    with pytest.raises(BuildError, match="has vocab_size = 9, and this build needs at least 10"):
        require_config(found, [("vocab_size", 10)])
    with pytest.raises(BuildError, match="has layers = None"):
        require_config(found, [("layers", 1)])


def test_a_folder_has_no_revision(folder, told):
    with pytest.raises(BuildError, match="--revision is of the hub: leave it out"):
        locate(str(folder), "main", "llama", told)


@pytest.mark.parametrize("name", ["./nothing", "/no/where", "nothing", "a/b/c", "~/nothing"])
def test_a_name_that_is_no_folder_nor_of_the_hub_is_told(told, name):
    with pytest.raises(BuildError, match=r"there is no folder .*OWNER/NAME"):
        locate(name, "", "llama", told)


# --- the hub --------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    """Answers instead of the hub, with what it is told to; remembers what it was asked."""
    import huggingface_hub

    asked = []

    def answer_with(outcome):
        def snapshot_download(name, **options):
            asked.append((name, options))
            if isinstance(outcome, Exception):
                raise outcome
            return str(outcome)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return asked

    return answer_with


def test_a_name_is_fetched_with_nothing_that_is_not_needed(folder, told, hub):
    snapshot = folder / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    for path in [*folder.iterdir()]:
        if path.is_file():
            path.rename(snapshot / path.name)
    asked = hub(snapshot)
    found = locate("canopylabs/orpheus-3b-0.1-ft", "main", "llama", told)
    assert (found.name, found.revision) == ("canopylabs/orpheus-3b-0.1-ft", "0123abcd")
    [(name, options)] = asked
    assert name == "canopylabs/orpheus-3b-0.1-ft"
    assert options["revision"] == "main"
    assert not any(pattern.endswith((".bin", ".pt")) for pattern in options["allow_patterns"])
    assert told.lines == ["fetching canopylabs/orpheus-3b-0.1-ft from the hub"]


def hub_error(name):
    from huggingface_hub import errors

    response = httpx.Response(403, request=httpx.Request("GET", "https://hub.invalid/x"))
    return getattr(errors, name)("refused", response=response)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("GatedRepoError", "unauthorized", "given out on conditions: accept them .*hf auth login"),
        ("RepositoryNotFoundError", "bad_request", "the hub knows no owner/name"),
        ("RevisionNotFoundError", "bad_request", "owner/name has no revision 'v9'"),
        ("HfHubHTTPError", "unavailable", r"cannot be had from the hub \(refused"),
    ],
)
def test_what_the_hub_refuses_is_told_with_what_to_do(told, hub, name, code, message):
    hub(hub_error(name))
    with pytest.raises(BuildError, match=message) as raised:
        locate("owner/name", "v9", "llama", told)
    assert raised.value.code == code


def test_a_hub_that_cannot_be_reached_is_told(told, hub):
    hub(ConnectionError("no route to host\nand a page of advice"))
    with pytest.raises(BuildError, match=r"\(no route to host\).*goes on where it stopped"):
        locate("owner/name", "", "llama", told)


def test_a_full_cache_is_no_fault_of_the_hub(told, hub):
    hub(OSError(28, "No space left on device", "cache/blob"))
    with pytest.raises(OSError, match="No space left"):
        locate("owner/name", "", "llama", told)


@pytest.mark.parametrize("weight_map", [[], {}, {"a": 3, "b": "x"}, None])
def test_an_index_that_names_no_weights_is_refused(folder, told, weight_map):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(BuildError, match=r"index\.json names no files of weights: fetch it again"):
        _ = locate(str(folder), "", "llama", told).weights
