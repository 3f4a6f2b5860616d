import os
import subprocess
import sys

import pytest

from loadtest.machine import Gpus, Tree, descendants, described

WAITING = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def family():
    """A process that waits for the end of its input, and a child of it that does, too."""
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {WAITING!r}], stdin=subprocess.PIPE,"
        " stdout=subprocess.PIPE, text=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True); sys.stdin.read()\n"
        "child.stdin.close(); child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield parent, int(parent.stdout.readline())
    parent.stdin.close()
    parent.wait()
    parent.stdout.close()


def test_a_server_is_all_of_its_processes(family):
    parent, child = family
    assert list(descendants(parent.pid)) == [child]
    state = Tree(parent.pid).state()
    assert state.processes == 2
    assert state.rss_mb > 5
    assert state.cpu_s > 0


def test_a_server_that_is_gone_has_no_state():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    assert Tree(gone.pid).state() is None  # nobody has asked for its exit status yet
    gone.wait()
    assert Tree(gone.pid).state() is None


def test_this_machine_in_words():
    assert described().startswith(f"{os.cpu_count()} cores")


def test_a_machine_without_a_gpu_tells_of_none(nvml):
    assert Gpus().state() == []


def test_gpus_tell_their_memory_and_how_busy_they_are(nvml):
    whole, cut = nvml.h200(mig=False), nvml.h200("1g.18gb")
    whole.busy = 40
    nvml.pretend(gpus=[whole, cut])
    states = Gpus().state()
    assert [state.busy for state in states] == [0.4, None]
    assert "H200" in states[0].name
    assert states[0].total_mib > 100_000


def test_a_gpu_that_was_lost_is_left_out(nvml):
    lost = nvml.h200(mig=False)
    nvml.pretend(gpus=[nvml.h100(mig=False), lost])
    gpus = Gpus()
    lost.faults["nvmlDeviceGetMemoryInfo"] = nvml.NVML_ERROR_GPU_IS_LOST
    assert [state.name for state in gpus.state()] == ["NVIDIA H100 80GB HBM3"]
