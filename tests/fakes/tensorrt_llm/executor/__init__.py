"""Errors and results."""

from __future__ import annotations

import traceback

from tensorrt_llm.executor.result import CompletionOutput
from tensorrt_llm.executor.utils import RequestError

__all__ = ["CompletionOutput", "CppExecutorError", "RequestError"]


class CppExecutorError(RuntimeError):
    """The executor itself failed; it shuts down."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message
        self.stack_trace = traceback.format_exc()
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message}\nStack trace:\n{self.stack_trace}"
