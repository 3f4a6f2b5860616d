"""Asterisk in its root, between phones at one address of ours and a server at another.

Everything here runs in namespaces of its own (``run``): what is mounted, and what is started, is
gone with the process that did it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.phonecall.debian import PhoneCallError

ETC: Final = Path(__file__).parent / "etc"
ADDRESS: Final = "10.99.1.1"
"""Of the phones and of Asterisk: baresip takes none that begins with 127."""

EMPTY: Final = (
    *("acl", "calendar", "ccss", "cdr", "cdr_custom", "cel", "cel_custom", "cli", "cli_aliases"),
    *("cli_permissions", "codecs", "dnsmgr", "extconfig", "features", "indications", "manager"),
    *("res_parking", "stasis", "udptl"),
)
"""Files that Asterisk looks for, and complains of where they are not there."""

_RUN = "run/antiphon"
_ASTERISK: Final = ("asterisk", "-C", f"/{_RUN}/etc/asterisk.conf")
_BOOT_S: Final = 60
_END_S: Final = 10


def wire_up() -> None:
    """Give this network namespace its addresses. Nothing leads out of it."""
    for told in (
        "link set lo up",
        "link add phones type veth peer name exchange",
        f"address add {ADDRESS}/24 dev phones",
        "link set phones up",
        "link set exchange up",
    ):
        _done(("ip", *told.split()))


class Root:
    """A Debian root that nothing is written to but what is forgotten afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        at = str(folder)
        _done(("mount", "--bind", at, at))
        _done(("mount", "-o", "remount,bind,ro", at))
        for place in ("run", "tmp"):
            _done(("mount", "-t", "tmpfs", "tmpfs", f"{at}/{place}"))
        _done(("mount", "--rbind", "/dev", f"{at}/dev"))
        _done(("mount", "-t", "proc", "proc", f"{at}/proc"))
        self.place("hosts", f"127.0.0.1 localhost {socket.gethostname()}\n")
        self.place("resolv.conf", "")

    def place(self, name: str, text: str) -> None:
        """Let /etc/``name`` be this."""
        file = self.scratch(name) / "file"
        file.write_text(text, "utf-8")
        _done(("mount", "--bind", str(file), str(self.folder / "etc" / name)))

    def scratch(self, name: str) -> Path:
        """A folder that is /run/``name`` inside."""
        folder = self.folder / "run" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self, *words: str) -> Sequence[str]:
        """How this is run inside."""
        return ("chroot", str(self.folder), *words)


class Asterisk:
    """The exchange: ready once ``running`` gives it."""

    def __init__(self, root: Root) -> None:
        self.root = root

    def ask(self, words: str) -> str:
        """What its command line answers; empty while it does not."""
        command = self.root.command(*_ASTERISK, "-rx", words)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_BOOT_S, check=False
        ).stdout.strip()

    @property
    def channels(self) -> int:
        """How many are open."""
        told = self.ask("core show channels count").split()
        return int(told[0]) if told and told[0].isdecimal() else -1


@contextmanager
def running(root: Root, log: Path) -> Iterator[Asterisk]:
    """Asterisk with the configuration in etc/. Raises PhoneCallError."""
    folder = root.scratch("antiphon") / "etc"
    shutil.copytree(ETC, folder)
    for name in EMPTY:
        (folder / f"{name}.conf").touch()
    asterisk = Asterisk(root)
    with (
        log.open("wb") as told,
        subprocess.Popen(
            root.command(*_ASTERISK, "-f"), stdin=subprocess.DEVNULL, stdout=told, stderr=told
        ) as process,
    ):
        try:
            _wait_booted(asterisk, process, log)
            yield asterisk
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_booted(asterisk: Asterisk, process: subprocess.Popen[bytes], log: Path) -> None:
    control = asterisk.root.folder / _RUN / "asterisk.ctl"
    for _ in range(_BOOT_S * 10):
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            if control.exists() and "fully booted" in asterisk.ask("core waitfullybooted"):
                return
        else:
            raise PhoneCallError(f"Asterisk ended with {process.returncode}: see {log}")
    raise PhoneCallError(f"Asterisk has not started within {_BOOT_S} s: see {log}")


def _done(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise PhoneCallError(f"{' '.join(command)}: {ended.stderr.strip()}")
