"""What was probably meant by a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], where: str = "", cutoff: float = 0.5) -> str:
    """A sentence to put behind another: `` Did you mean WHERE+NAME?``, or all that are known where
    none is as like ``name`` as ``cutoff`` (from 0 to 1) wants it."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return f" Did you mean {where}{near[0]}?" if near else f" Known: {', '.join(names)}"
