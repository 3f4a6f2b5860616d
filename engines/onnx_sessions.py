"""How the small ONNX models run here: on a few threads of the CPU, and quietly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort

ORT_ERRORS: Final = (
    ort.Fail,
    ort.InvalidArgument,
    ort.InvalidGraph,
    ort.InvalidProtobuf,
    ort.NoSuchFile,
    ort.NotImplemented,
    ort.RuntimeException,
)
"""All that the runtime raises; they share no base but Exception."""


def open_session(model: Path | bytes, threads: int) -> Any:
    """An ``onnxruntime.InferenceSession`` of a file or of its bytes, each step on ``threads``.

    Raises one of ORT_ERRORS where it is no model.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # spinning threads would take the cores from the LLM and the voice: twice the CPU, no gain
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # errors are raised: they need not be printed as well
    source = str(model) if isinstance(model, Path) else model
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
