"""Environments of the peers: whole, pinned, apart; and processes that do not get ready."""

import re
import sys
from pathlib import Path

import pytest

from loadtest.peers.environments import PEERS, Bot, Peer, PeerError, command_of, make

CHILD = "import signal; print('READY http://127.0.0.1:77', flush=True); signal.pause()"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_package_is_pinned_and_none_needs_a_gpu(peer: Peer) -> None:
    lines = [line for line in peer.requirements.read_text().splitlines() if line[:1] != "#"]
    assert f"{peer.name}=={peer.version}" in lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert [line for line in lines if re.match("torch|nvidia|cuda|triton", line)] == []


def test_a_process_is_ready_when_it_says_so() -> None:
    with Bot((sys.executable, "-c", CHILD), None, None) as bot:
        assert bot.port == 77
        assert bot.rss_mb > 1
        assert bot.cpu_s >= 0
    assert bot.process.returncode is not None


def test_a_process_that_ends_before_it_is_ready_is_told_of() -> None:
    with pytest.raises(PeerError, match="ended with 3"):
        Bot((sys.executable, "-c", "raise SystemExit(3)"), None, None)


def test_nothing_of_our_own_environment_gets_into_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/ours")
    monkeypatch.setenv("PYTHONPATH", "/ours")
    command, variables = command_of(PEERS[0], tmp_path)
    assert command[0] == str(tmp_path / "bin" / "python")
    assert variables["PYTHONPATH"] == str(tmp_path / "bots")
    assert "PYTHONHOME" not in variables


@pytest.mark.slow
def test_an_environment_is_made_once_and_one_that_failed_is_made_anew(tmp_path: Path) -> None:
    requirements = tmp_path / "mine.txt"
    requirements.write_text("./nowhere.whl\n")
    peer = Peer("mine", "script", requirements)
    for _ in range(2):
        with pytest.raises(PeerError, match="mine cannot be installed"):
            make(peer, tmp_path)
    requirements.write_text("# nothing\n")
    folder = make(peer, tmp_path)
    made = (folder / "pyvenv.cfg").stat().st_mtime_ns
    assert (folder / "bots" / "loadtest" / "peers" / "script.py").is_file()
    assert make(peer, tmp_path) == folder
    assert (folder / "pyvenv.cfg").stat().st_mtime_ns == made
