"""The stock clients: what each needs, where that is kept, and how it is started."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadtest.peers.environments import PeerError, environment

HERE = Path(__file__).parent / "clients"
INSTALL_S = 600
STEPS = ("spoken turn", "barge-in", "tool call", "text turn")


@dataclass(frozen=True)
class StockClient:
    """A client as it is published: ``script`` is run in an environment of its own."""

    name: str
    script: str
    version: str
    steps: Sequence[str] = STEPS
    folder: Path | None = None

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def installed(self, root: Path) -> StockClient:
        """The same, with what it needs under ``root``; made where it is not there. Raises
        PeerError."""
        if self.script.endswith(".mjs"):
            return replace(self, folder=_node_environment(root))
        return replace(self, folder=environment(self.name, HERE / f"{self.name}.txt", root))

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """How it is started, and with which variables: none of this project's own."""
        assert self.folder is not None, "install it first"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        if self.script.endswith(".mjs"):
            return ("node", str(self.folder / self.script)), kept
        return (str(self.folder / "bin" / "python"), str(HERE / self.script)), kept


CLIENTS = (
    StockClient(
        "openai",
        "stock_openai.py",
        "3.57.0",
        (*STEPS, "out of band", "image", "transcription", "client secret"),
    ),
    StockClient("openai-agents", "stock_agents.py", "0.24.0"),
    StockClient("livekit-plugins-openai", "stock_livekit.py", "1.8.9", (*STEPS, "transcription")),
    StockClient("pipecat-ai", "stock_pipecat.py", "1.14.0", (*STEPS, "transcription")),
    StockClient("agents-realtime", "stock_agents.mjs", "0.20.0"),
)


def _node_environment(root: Path) -> Path:
    """A folder with the packages of package-lock.json and the script beside them, where node looks
    for what it imports."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise PeerError("agents-realtime needs node and npm, which are not installed")
    lock = (HERE / "package-lock.json").read_bytes()
    folder = root / f"agents-realtime-{hashlib.sha256(lock).hexdigest()[:12]}"
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        sys.stderr.write(f"installing agents-realtime into {folder} …\n")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        command = [npm, "ci", "--silent", "--no-audit", "--no-fund"]
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if ended.returncode:
            raise PeerError(f"agents-realtime cannot be installed: {ended.stderr.strip()[-2000:]}")
        done.touch()
    shutil.copy(HERE / "stock_agents.mjs", folder)
    return folder
