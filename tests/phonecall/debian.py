"""A Debian of its own with Asterisk and phones in it, made once in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import filelock
import platformdirs

SUITE: Final = "sid"
PACKAGES: Final = ("asterisk", "sip-tester", "baresip-core")
TOOLS: Final = {
    "mmdebstrap": "mmdebstrap",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
}
APART: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""What is begun like this dies with whoever began it, with all its processes and mounts."""

BUILD_S: Final = 900


class PhoneCallError(Exception):
    """No call can be placed here; the message says why, and what to do."""


def cache() -> Path:
    """Where the root and what the last run left are kept."""
    return platformdirs.user_cache_path("antiphon") / "phonecall"


def check_machine() -> None:
    """Raises PhoneCallError where this machine cannot do it."""
    if sys.platform != "linux":
        raise PhoneCallError("phone calls are placed in Linux namespaces: run it on Linux")
    if os.geteuid() != 0:
        raise PhoneCallError(
            "only root may make namespaces and mount in them: run it as root, or in a container"
            " that is privileged"
        )
    missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if missing:
        raise PhoneCallError(f"not installed: apt-get install {' '.join(missing)}")
    tried = subprocess.run(
        (*APART, "--net", "true"), capture_output=True, text=True, timeout=30, check=False
    )
    if tried.returncode:
        raise PhoneCallError(
            f"no namespaces can be made here ({tried.stderr.strip()}): a container has to be"
            " privileged for that"
        )


def debian(root: Path) -> Path:
    """The root folder of that Debian below ``root``; made where it is not there: two minutes,
    400 MB. Raises PhoneCallError."""
    told = f"{SUITE} {' '.join(PACKAGES)}"
    folder = root / f"{SUITE}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
    root.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(root / "lock"):
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _build(partial)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return folder


def _build(folder: Path) -> None:
    sys.stderr.write(f"building Debian {SUITE} with {', '.join(PACKAGES)} (two minutes) …\n")
    command = [*APART, "timeout", str(BUILD_S), "mmdebstrap", "--mode=root", "--variant=apt"]
    command += [f"--include={','.join(PACKAGES)}"]
    # The archive may be a snapshot, whose promise of how long it holds is over.
    command += ['--aptopt=Acquire::Check-Valid-Until "false"', SUITE, str(folder)]
    told = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as building:
        assert building.stderr is not None
        for line in building.stderr:
            sys.stderr.write(f"  {line}" if line.startswith("I: ") else "")
            told.append(line)
    if building.returncode:
        raise PhoneCallError(
            f"Debian cannot be built: {''.join(told)[-2_000:].strip()}\n"
            "Is Debian's archive reachable, and is there 1 GB to spare?"
        )
