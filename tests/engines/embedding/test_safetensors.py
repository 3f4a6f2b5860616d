"""Weights are read as the reference writes them."""

import numpy as np
import pytest

from engines.embedding.safetensors import read_floats


def test_arrays_come_back_as_the_reference_wrote_them(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(1)
    written = {
        "a.weight": rng.normal(size=(3, 5)).astype(np.float32),
        "b": rng.normal(size=7).astype(np.float32),
        "places": np.arange(4, dtype=np.int64),
    }
    path = tmp_path / "model.safetensors"
    reference.save_file(written, path, {"format": "pt"})
    read = read_floats(path)
    assert set(read) == {"a.weight", "b"}
    for name, values in read.items():
        np.testing.assert_array_equal(values, written[name])


@pytest.mark.parametrize(
    "content", [b"\x05", b"not weights at all", b"\xff" * 32, b"\x02\0\0\0\0\0\0\0[]"]
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        read_floats(path)
