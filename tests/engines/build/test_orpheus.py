"""``voice build orpheus`` end to end on a tiny model; a result that is wrong is not kept."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from engines.build import fp8
from engines.build import orpheus as under_test
from engines.build.manifest import MANIFEST, verify_manifest
from engines.build.orpheus import OrpheusBuild, build_orpheus
from engines.build.steps import BuildError
from engines.tts.orpheus_tokens import ids_of

pytestmark = pytest.mark.torch


@pytest.fixture
def build(orpheus, tmp_path):
    return OrpheusBuild(model=str(orpheus), out=tmp_path / "built", samples=3, frames=2, held_out=2)


def test_an_fp8_folder_is_built_verified_and_alike_each_time(build, told, tmp_path):
    manifest = build_orpheus(build, told)
    assert verify_manifest(build.out) == manifest
    assert set(manifest.files) == {
        "config.json", "generation_config.json", "hf_quant_config.json", "model.safetensors",
        "tokenizer.json",
    }  # fmt: skip
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(manifest.source.files)
    assert manifest.files["tokenizer.json"] == manifest.source.files["tokenizer.json"]
    assert manifest.versions["nvidia-modelopt"]
    assert (manifest.calibration.sequences, manifest.fidelity.sequences) == (3, 2)
    assert 0 < manifest.fidelity.mean_kl < 0.1
    assert manifest.fidelity.agreement > 0.7
    assert all(path.stat().st_mode & 0o044 for path in build.out.iterdir())
    assert list(told.done) == [
        "hash the source", "generate", "predict with the source", "calibrate",
        "predict with the result", "hash the result",
    ]  # fmt: skip
    again = replace(build, out=tmp_path / "again")
    build_orpheus(again)
    assert (again.out / MANIFEST).read_bytes() == (build.out / MANIFEST).read_bytes()


def test_16_bits_are_written_as_they_are(build):
    manifest = build_orpheus(replace(build, precision="bf16"))
    assert manifest.calibration is None
    assert manifest.fidelity.mean_kl == 0
    assert manifest.fidelity.agreement == 1
    assert json.loads((build.out / "config.json").read_bytes())["torch_dtype"] == "bfloat16"
    assert {t.dtype for t in load_file(build.out / "model.safetensors").values()} == {
        torch.bfloat16
    }


def test_recorded_speech_is_calibrated_on(build, tmp_path):
    path = tmp_path / "recorded.jsonl"
    rows = [{"text": f"Number {n}.", "tokens": ids_of(range(n, n + 7))} for n in range(5)]
    path.write_text("\n".join(map(json.dumps, rows)))
    manifest = build_orpheus(replace(build, calibrate=path))
    assert manifest.calibration.generated == 0
    assert manifest.calibration.texts == str(path)


def spoil(monkeypatch, change):
    """Let the exporter write something else than it should."""
    export = fp8.export

    def spoiled(model, config, folder, steps):
        export(model, config, folder, steps)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    monkeypatch.setattr(fp8, "export", spoiled)


def test_a_scale_that_is_wrong_is_found_and_nothing_is_kept(build, monkeypatch):
    def change(tensors):
        tensors["model.layers.0.mlp.down_proj.weight_scale"] *= 8

    spoil(monkeypatch, change)
    with pytest.raises(BuildError, match="too far from its source"):
        build_orpheus(build)
    assert list(build.out.parent.iterdir()) == []


def test_a_tensor_that_is_missing_is_found_and_nothing_is_kept(build, monkeypatch):
    spoil(monkeypatch, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(BuildError, match=r"model\.norm.weight is missing"):
        build_orpheus(build)
    assert list(build.out.parent.iterdir()) == []


def test_a_stricter_limit_refuses_what_another_takes(build):
    with pytest.raises(BuildError, match=r"at most 1e-09"):
        build_orpheus(replace(build, max_kl=1e-9))


def test_ctrl_c_leaves_nothing(build, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fp8, "export", stop)
    with pytest.raises(KeyboardInterrupt):
        build_orpheus(build)
    assert list(build.out.parent.iterdir()) == []


@pytest.mark.parametrize("option", ["samples", "frames", "held_out"])
def test_numbers_that_make_no_sense_are_refused(build, option):
    with pytest.raises(BuildError, match=f"--{option.replace('_', '-')} has to be 1 or more"):
        build_orpheus(replace(build, **{option: 0}))


def copied(orpheus, tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for path in orpheus.iterdir():
        if path.is_file():
            (folder / path.name).symlink_to(path)
    return folder


def test_a_llama_that_cannot_speak_is_refused(build, orpheus, tmp_path):
    folder = copied(orpheus, tmp_path)
    config = json.loads((orpheus / "config.json").read_bytes()) | {"vocab_size": 128_256}
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BuildError, match="vocab_size = 128256, and this build needs at least 1569"):
        build_orpheus(replace(build, model=str(folder)))


@pytest.mark.parametrize(
    ("name", "message"),
    [("tokenizer.json", "is no tokenizer"), ("model.safetensors", "cannot be loaded on cpu")],
)
def test_a_file_that_is_damaged_is_told(build, orpheus, tmp_path, name, message):
    folder = copied(orpheus, tmp_path)
    (folder / name).unlink()
    (folder / name).write_text("{}")
    with pytest.raises(BuildError, match=message):
        build_orpheus(replace(build, model=str(folder)))


def test_a_package_that_is_missing_is_told_before_anything_is_fetched(build, monkeypatch):
    def missing(steps):
        raise BuildError("building needs modelopt", "unavailable")

    monkeypatch.setattr(fp8, "load_modelopt", missing)
    monkeypatch.setattr(under_test, "locate", None)
    with pytest.raises(BuildError, match="needs modelopt"):
        build_orpheus(replace(build, model="owner/name"))


@pytest.mark.parametrize(
    "changed",
    [{"seed": -1}, {"seed": 2**64}, {"max_kl": float("nan")}, {"min_agreement": 2.0}],
)
def test_a_number_out_of_bounds_is_refused_before_anything_is_read(build, changed):
    with pytest.raises(BuildError, match="has to be from 0 to") as caught:
        build_orpheus(replace(build, model="/nowhere", **changed))
    assert caught.value.code == "bad_request"


def test_a_build_never_replaces_its_own_source(build, orpheus):
    with pytest.raises(BuildError, match="which the build reads"):
        build_orpheus(replace(build, out=orpheus, force=True, precision="bf16"))
    assert (orpheus / "model.safetensors").exists()


def test_a_source_that_lacks_weights_is_refused(build, orpheus, tmp_path):
    lacking = tmp_path / "lacking"
    shutil.copytree(orpheus, lacking)
    config = json.loads((lacking / "config.json").read_bytes())
    (lacking / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(BuildError, match=r"lack 9 of the weights .*is it a whole checkpoint"):
        build_orpheus(replace(build, model=str(lacking), precision="bf16"))
    assert not build.out.exists()
