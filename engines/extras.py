"""How the packages are got that only some features need.

No command names the project as one of an index: it is on none, and whoever registers its name
there is somebody else.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, TypeAlias

Extra: TypeAlias = Literal["orpheus", "build", "traces", "files", "diarize", "pdf"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_CUDA: Final = (
    "torch brings CUDA with it, several GB; without a GPU, install the CPU build of it before, as"
    " pytorch.org tells"
)


def install_command(*packages: str) -> str:
    """What a person types to have these packages, in the Python that runs this."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def how_to_install(extra: Extra) -> str:
    """The command for an extra of pyproject.toml, and what it fetches that is large."""
    large = "" if extra in ("traces", "files", "pdf") else f" ({_CUDA})"
    return f"`{_command(extra, _ROOT)}`{large}"


def _command(extra: str, root: Path) -> str:
    """From the checkout in ``root``; where there is none, by the packages' own names."""
    if (root / "pyproject.toml").is_file():
        return install_command("-e", f"{root}[{extra}]")
    marked = re.compile(rf"extra == ['\"]{extra}['\"]")
    lines = [line for line in metadata.requires("antiphon") or () if marked.search(line)]
    return install_command(*(line.partition(";")[0].strip() for line in lines))
