"""What runs in faster-whisper's environment, with a pretended faster-whisper."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from loadtest.peers.faster_whisper_file import Memory, hear, resident_mb


class Pipeline:
    asked: dict[str, Any]

    def __init__(self, model: Any) -> None:
        Pipeline.asked = dict(model)

    def transcribe(self, file: str, **options: Any) -> tuple[Any, None]:
        Pipeline.asked |= {"file": file, **options}
        return iter([SimpleNamespace(text=" One. "), SimpleNamespace(text=" Two.")]), None


def test_the_pipeline_is_asked_for_what_the_arguments_say() -> None:
    pretended = SimpleNamespace(
        WhisperModel=lambda folder, **options: {"folder": folder, **options},
        BatchedInferencePipeline=Pipeline,
    )
    told = hear(pretended, ["folder", "a.wav", "2", "int8", "5", "8", "en"])
    assert told["text"] == "One. Two."
    assert Pipeline.asked == {
        "folder": "folder",
        "device": "cpu",
        "compute_type": "int8",
        "cpu_threads": 2,
        "file": "a.wav",
        "language": "en",
        "beam_size": 5,
        "batch_size": 8,
    }
    assert told["took_s"] >= 0 <= told["above_mb"]


def test_memory_is_the_most_that_was_held_meanwhile() -> None:
    if not resident_mb():
        return
    with Memory() as memory:
        held = np.ones(8_000_000)
        while memory.most < memory.before + held.nbytes / 2e6:
            pass
    assert memory.above_mb > 30
