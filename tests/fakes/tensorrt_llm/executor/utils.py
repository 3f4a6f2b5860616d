"""Errors that requests end with."""

from __future__ import annotations


class RequestError(RuntimeError):
    """One request failed; the engine lives."""


class EngineDeadError(RuntimeError):
    """The engine is dead: pending requests and all later ones get this."""

    def __init__(self, root_cause: BaseException | None = None) -> None:
        message = "Engine has died"
        if root_cause is not None:
            message += f": {type(root_cause).__name__}: {root_cause}"
        super().__init__(message)
        self.root_cause = root_cause
