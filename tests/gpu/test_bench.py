"""The script for GPU machines runs, tiny, where there is none; and believes nothing unchecked."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).with_name("bench.py")


@pytest.fixture
def bench(monkeypatch):
    """The script as a module."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("bench_of_a_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_all_of_it_runs_tiny_on_a_cpu(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPT, "--tiny", "--device", "cpu"],
        env={**os.environ, "OUT": str(tmp_path), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "bench.json").read_bytes())
    assert len(found["checks"]) == 4
    assert all(check["right"] for check in found["checks"].values())
    tables = found["tables"]
    assert [len(rows) for rows in tables.values()][:3] == [3, 2, 3]
    assert all(value >= 0 for rows in tables.values() for row in rows for value in row.values())
    for name in tables:
        assert name in done.stdout
    assert done.stdout.index("exactness first") < done.stdout.index("SNAC, one step")


@pytest.mark.parametrize("error", [1e-3, math.nan, math.inf])
def test_what_is_wrong_is_not_timed(bench, error, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OUT", str(tmp_path))
    run = bench.Bench("cpu", bench.TINY)
    run.check("fine", 1e-5, 1e-5)
    with pytest.raises(SystemExit, match="odd is wrong"):
        run.check("odd", error, 1e-5)
    assert not json.loads((tmp_path / "bench.json").read_bytes())["checks"]["odd"]["right"]
    assert "WRONG: odd" in capsys.readouterr().out


def test_a_decoder_that_is_off_is_found(bench, monkeypatch):
    offline = bench.offline
    monkeypatch.setattr(bench, "offline", lambda *given: offline(*given) + 1e-3)
    with pytest.raises(SystemExit, match="streamed and offline is wrong"):
        bench.check_snac(bench.Bench("cpu", bench.TINY))


def test_a_cache_that_is_off_is_found(bench, monkeypatch):
    whole = bench.Llama.whole
    monkeypatch.setattr(bench.Llama, "whole", lambda self, ids: whole(self, ids.flip(1)))
    with pytest.raises(SystemExit, match="cached and whole is wrong"):
        bench.check_llama(bench.Bench("cpu", bench.TINY))


def test_once_time_is_short_rows_are_left_out_and_said_to_be(bench, monkeypatch, capsys):
    run = bench.Bench("cpu", bench.TINY)
    assert run.has(5, "all")
    run.began -= 330 - 1
    bench.time_crowds(run)
    bench.time_llama(run)
    seen = capsys.readouterr().out
    assert "skipped for lack of time: 2 voices and more (1 s left, 4 wanted)" in seen
    assert "skipped for lack of time: 1 streams and more" in seen
    assert all(rows == [] for rows in run.found["tables"].values())


def test_what_does_not_fit_is_said_and_the_rest_goes_on(bench, monkeypatch, capsys):
    import torch

    def cache(self, streams):
        if streams == 2:
            raise torch.OutOfMemoryError("tried to allocate 15 GiB\nand so on")
        return real(self, streams)

    real = bench.Llama.cache
    monkeypatch.setattr(bench.Llama, "cache", cache)
    run = bench.Bench("cpu", bench.TINY)
    bench.time_llama(run)
    rows = next(iter(run.found["tables"].values()))
    assert [row["streams"] for row in rows] == [1, 4]
    assert "lack of memory: 2 streams (tried to allocate 15 GiB)" in capsys.readouterr().out


def test_a_machine_without_a_gpu_is_told_what_it_can_do(bench, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["bench.py"])
    with pytest.raises(SystemExit, match="--tiny --device cpu"):
        bench.main()


@pytest.mark.gpu
@pytest.mark.slow
def test_it_ends_within_six_minutes_on_a_gpu(tmp_path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, timeout=360)
    assert done.returncode == 0
