"""Sessions of ONNX models: what is no model is told by one of the runtime's errors."""

from pathlib import Path

import pytest

from engines.models import ModelStore
from engines.onnx_sessions import ORT_ERRORS, open_session


def test_what_is_no_model_raises_an_error_of_the_runtime(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    for model in (tmp_path / "model.onnx", tmp_path / "nowhere.onnx", b"no model"):
        with pytest.raises(ORT_ERRORS):
            open_session(model, threads=1)


@pytest.mark.engine
def test_a_file_and_its_bytes_are_the_same_model() -> None:
    [path] = ModelStore().path("smart-turn-v3.2").glob("*.onnx")
    of_file, of_bytes = open_session(path, threads=1), open_session(path.read_bytes(), threads=1)
    assert [each.name for each in of_file.get_inputs()] == ["input_features"]
    assert [each.shape for each in of_bytes.get_inputs()] == [
        each.shape for each in of_file.get_inputs()
    ]
