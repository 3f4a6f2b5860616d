"""What went wrong, where several tasks have failed together."""

from __future__ import annotations

from typing import TypeVar, cast

T = TypeVar("T", bound=Exception)


def cause_of(group: BaseExceptionGroup[T]) -> T:
    """What went wrong first, and all else followed."""
    failure: BaseException = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return cast(T, failure)
