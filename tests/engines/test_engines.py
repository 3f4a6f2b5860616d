"""What holds for the package of engines as a whole."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from engines.asr import moonshine, whisper
from engines.models import ModelMissing, ModelStore
from engines.vad import silero


def test_onnxruntime_leaves_nothing_behind_in_the_cache(tmp_path: Path) -> None:
    homes = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    environment = {**os.environ, **homes}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    command = [sys.executable, "-c", "import engines.asr.moonshine"]
    subprocess.run(command, env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("engine", [moonshine, whisper, silero], ids=lambda engine: engine.__name__)
def test_a_model_that_is_missing_is_told_before_any_is_loaded(
    engine: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(ModelMissing, match=f"voice models pull .* --folder {tmp_path}"):
        engine.create(engine.Options(), ModelStore(tmp_path))
