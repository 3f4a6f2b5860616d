"""Environments of the peers' own, and what runs in them.

Each is a virtual environment in the user's cache folder, made once from a list of pinned
packages; the bots and their script are copied beside it, so that nothing of this project's own
environment gets into theirs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

_HERE: Final = Path(__file__).parent
_INSTALL_S: Final = 1_800
_END_S: Final = 10
_DONE: Final = "complete"


class PeerError(Exception):
    """A peer cannot be installed or started; the message says why, and what to look at."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another framework: ``requirements`` are the packages of its environment, ``bot`` the
    module that is run in it."""

    name: str
    bot: str
    requirements: Path

    @property
    def version(self) -> str:
        """Of the framework, by its own requirements."""
        packages = self.requirements.read_text("utf-8").split()
        pins = dict(each.split("==") for each in packages if "==" in each)
        return pins.get(self.name, "")


PEERS: Final = (
    Peer("pipecat-ai", "pipecat_bot", _HERE / "pipecat.txt"),
    Peer("livekit-agents", "livekit_bot", _HERE / "livekit.txt"),
)


def cache() -> Path:
    """Where environments are kept."""
    return platformdirs.user_cache_path("antiphon") / "peers"


def make(peer: Peer, root: Path) -> Path:
    """The folder of the peer's environment under ``root``, with the bots in it. Raises
    PeerError."""
    folder = environment(peer.name, peer.requirements, root)
    _copy_bots(folder / "bots")
    return folder


def environment(name: str, requirements: Path, root: Path) -> Path:
    """The folder of a virtual environment under ``root`` that has these packages and no others;
    made where it is not there. Minutes, and up to half a gigabyte. Raises PeerError."""
    told = requirements.read_bytes() + sys.version.encode()
    folder = root / f"{name}-{hashlib.sha256(told).hexdigest()[:12]}"
    if not (folder / _DONE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        sys.stderr.write(f"installing {name} into {folder} …\n")
        venv.create(folder, with_pip=True)
        _install(name, requirements, folder)
        (folder / _DONE).touch()
    return folder


def _install(name: str, requirements: Path, folder: Path) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode:
        raise PeerError(
            f"{name} cannot be installed: {done.stderr.strip()[-2_000:]}\n"
            f"Try it by hand: {' '.join(command)}"
        )


def _copy_bots(folder: Path) -> None:
    package = folder / "loadtest" / "peers"
    package.mkdir(parents=True, exist_ok=True)
    for file in _HERE.glob("*.py"):
        shutil.copy(file, package)
    (folder / "loadtest" / "__init__.py").touch()


def command_of(peer: Peer, folder: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """How the peer's bot is started in its environment, and with which variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = kept | {"PYTHONPATH": str(folder / "bots"), "OMP_NUM_THREADS": "1"}
    return (str(folder / "bin" / "python"), "-m", f"loadtest.peers.{peer.bot}"), variables


class Bot:
    """A process that prints READY and its address, on one core if one is named.

    Raises PeerError where it ends before that.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str] | None, core: int | None
    ) -> None:
        self.process = subprocess.Popen(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        assert self.process.stdout is not None
        ready = next((line for line in self.process.stdout if line.startswith("READY")), None)
        if ready is None:
            code = self._end()
            raise PeerError(f"{' '.join(command)} ended with {code} before it was ready: see above")
        self.port = int(ready.strip().rpartition(":")[2])

    def __enter__(self) -> Bot:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self._end()

    def _end(self) -> int:
        """Wait until it has ended; its exit status."""
        assert self.process.stdout is not None
        with self.process.stdout:
            try:
                return self.process.wait(timeout=_END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                return self.process.wait()

    @property
    def cpu_s(self) -> float:
        """CPU seconds so far of all its threads, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def rss_mb(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
