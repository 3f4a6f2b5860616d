"""What a setting takes, in the words of who sets it."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import Meta

_KINDS: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_BOUNDS: Final = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def wanted(hint: Any) -> str:
    """What a value of this type is: ``a whole number from 0 to 65535``; empty where there are no
    words for it."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{wanted(parts[0])}{_bounds(parts[1])}" if isinstance(parts[1], Meta) else ""
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (Union, UnionType):
        kinds = [wanted(part) for part in parts if part is not NoneType]
        return " or ".join(kinds) if all(kinds) else ""
    if origin is tuple and (part := wanted(parts[0])):
        return f"a list{'' if parts[-1] is ... else f' of {len(parts)}'}, each of it {part}"
    return _KINDS.get(hint, "")


def _bounds(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {_plain(meta.ge)} to {_plain(meta.le)}"
    told = [f"{words} {_plain(value)}" for name, words in _BOUNDS.items()
            if (value := getattr(meta, name)) is not None]  # fmt: skip
    return f" {' and '.join(told)}" if told else ""


def _plain(bound: float) -> float:
    """``typing`` takes bounds that are equal, 1 and 1.0, for the same, whichever comes first."""
    return int(bound) if bound == int(bound) else bound
