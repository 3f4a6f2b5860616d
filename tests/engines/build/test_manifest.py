"""A manifest knows each byte of its folder, and nothing of when or where it was made."""

import hashlib

import pytest

from engines.build.manifest import (
    MANIFEST,
    Fidelity,
    FileRecord,
    Manifest,
    Source,
    record,
    verify_manifest,
    versions,
    write_manifest,
)
from engines.ports import EngineError

FIDELITY = Fidelity(sequences=1, positions=7, mean_kl=0.001, worst_kl=0.01, agreement=1.0)


@pytest.fixture
def built(tmp_path):
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(1000))
    source = Source("OWNER/NAME", "abc", {"config.json": FileRecord(2, "00")})
    files = record(folder.iterdir(), "hash")
    write_manifest(folder, Manifest("orpheus", "fp8", source, versions(), files, FIDELITY))
    return folder


def test_a_folder_is_what_its_manifest_says(built):
    manifest = verify_manifest(built)
    assert manifest.kind == "orpheus"
    assert manifest.source.revision == "abc"
    assert manifest.files["model.safetensors"] == FileRecord(
        1000, hashlib.sha256(bytes(1000)).hexdigest()
    )
    assert manifest.versions["antiphon"]


def test_a_folder_without_a_manifest_is_nobodys_business(tmp_path):
    assert verify_manifest(tmp_path) is None


def test_the_same_build_has_the_same_manifest_byte_by_byte(built):
    first = (built / MANIFEST).read_bytes()
    write_manifest(built, verify_manifest(built))
    assert (built / MANIFEST).read_bytes() == first
    assert str(built).encode() not in first


def test_one_altered_bit_is_found_by_who_reads_every_byte(built):
    content = bytearray(1000)
    content[500] = 1
    (built / "model.safetensors").write_bytes(content)
    with pytest.raises(EngineError, match=r"model\.safetensors is damaged or was altered.*again"):
        verify_manifest(built)
    assert verify_manifest(built, thorough=False) is not None


def test_another_size_is_found_at_a_glance(built):
    (built / "model.safetensors").write_bytes(bytes(999))
    with pytest.raises(EngineError, match="has 999 bytes, and was built with 1000"):
        verify_manifest(built, thorough=False)


def test_a_missing_file_is_found(built):
    (built / "config.json").unlink()
    with pytest.raises(EngineError, match=r"config\.json cannot be read \(No such file"):
        verify_manifest(built)


def test_weights_that_nobody_built_are_refused(built):
    (built / "notes.txt").write_text("mine")
    assert verify_manifest(built) is not None
    (built / "model-00002.safetensors").write_bytes(b"x")
    with pytest.raises(EngineError, match=r"model-00002.safetensors is not of this build"):
        verify_manifest(built)


@pytest.mark.parametrize("content", ["", "[]", '{"kind": 1}', "no JSON"])
def test_a_manifest_that_is_none_is_told(built, content):
    (built / MANIFEST).write_text(content)
    with pytest.raises(EngineError, match=r"cannot be read.*build the folder again"):
        verify_manifest(built)


def test_a_manifest_of_a_later_version_is_told(built):
    path = built / MANIFEST
    text = path.read_text()
    path.write_text(text.replace("{", '{"manifest_format": 2,', 1))
    with pytest.raises(EngineError, match="format 2, and this version reads 1"):
        verify_manifest(built)


def test_hashing_tells_how_far_it_is(built, told):
    record(built.iterdir(), "hash", told)
    done, total, unit = told.done["hash"]
    assert (done, unit) == (total, "B")
    assert total > 1002
