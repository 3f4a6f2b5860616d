"""``voice build whisper`` end to end on a tiny model."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from engines.asr.whisper_checkpoint import read
from engines.build.manifest import verify_manifest
from engines.build.steps import BuildError
from engines.build.whisper import NEEDED, WhisperBuild, build_whisper
from engines.models import ModelStore

pytestmark = pytest.mark.torch


@pytest.fixture
def build(whisper, tmp_path):
    return WhisperBuild(model=str(whisper), out=tmp_path / "built")


@pytest.fixture
def copy(whisper, tmp_path):
    """A copy of the source, to be spoilt."""
    folder = tmp_path / "source"
    folder.mkdir()
    for path in whisper.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_a_folder_is_built_that_the_engine_reads(build, told, whisper):
    manifest = build_whisper(build, told)
    assert verify_manifest(build.out) == manifest
    assert manifest.precision == "fp16"
    assert 0 < manifest.fidelity.mean_kl < 1e-4
    assert manifest.fidelity.agreement > 0.98
    assert manifest.calibration is None
    weights = load_file(build.out / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert read("whisper_trtllm", str(build.out), ModelStore()).vocabulary is not None
    source = json.loads((whisper / "config.json").read_bytes())
    built = json.loads((build.out / "config.json").read_bytes())
    assert built.pop("torch_dtype") == "float16"
    source.pop("dtype")
    assert built == source
    assert all(path.stat().st_mode & 0o044 for path in build.out.iterdir())
    assert told.done["predict with the result"] == [2, 2, "clips"]


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_the_engine_needs_is_missed_at_once(build, copy, name):
    (copy / name).unlink()
    with pytest.raises(BuildError, match=f"{name} is missing, a file that the engine needs"):
        build_whisper(replace(build, model=str(copy)))


@pytest.mark.parametrize("value", [1e6, torch.nan])
def test_weights_that_16_bits_cannot_hold_are_refused(build, copy, value):
    path = copy / "model.safetensors"
    tensors = load_file(path)
    tensors["model.encoder.conv1.bias"][3] = value
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(BuildError, match=r"conv1\.bias has values beyond 16 bits.*its own folder"):
        build_whisper(replace(build, model=str(copy)))
    assert not build.out.exists()


def test_weights_that_are_none_are_told(build, copy):
    (copy / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(BuildError, match=r"cannot be loaded on cpu.*is it a whole"):
        build_whisper(replace(build, model=str(copy)))


def test_another_model_is_refused(build, orpheus):
    with pytest.raises(BuildError, match="describes a llama, and this build takes a whisper"):
        build_whisper(replace(build, model=str(orpheus)))


def test_a_limit_that_16_bits_do_not_keep_is_refused(build):
    with pytest.raises(BuildError, match="too far from its source"):
        build_whisper(replace(build, max_kl=1e-12))
    assert not build.out.exists()


def test_rules_that_cannot_be_read_are_refused(whisper, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(whisper, broken)
    (broken / "generation_config.json").write_text('{"suppress_tok')
    with pytest.raises(BuildError, match=r"generation_config\.json cannot be read.*fetch it again"):
        build_whisper(WhisperBuild(model=str(broken), out=tmp_path / "out"))
