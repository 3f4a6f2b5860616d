"""A step ends however it ends, and what a build lacks is named with the way to get it."""

import pytest

from engines.build.steps import BuildError, Quiet, needs, require_device, require_within, step
from engines.ports import EngineError


def test_a_step_is_over_even_where_it_fails(told):
    with pytest.raises(RuntimeError), step(told, "hash", "B", 3):
        told.advance(2)
        raise RuntimeError
    assert told.running is None
    assert told.done == {"hash": [2, 3, "B"]}


def test_nobody_has_to_look():
    with step(Quiet(), "hash", "B", 3):
        Quiet().advance(3)
        Quiet().say("done")


def test_a_package_that_is_not_there_is_named_with_the_extra_that_brings_it():
    with pytest.raises(
        EngineError, match=r"needs no_such_package .*pip install -e .*\[build\]"
    ) as raised:
        needs("no_such_package.quantization")
    assert raised.value.code == "unavailable"
    assert str(raised.value) == raised.value.message


@pytest.mark.torch
def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    require_device("cpu")
    with pytest.raises(BuildError, match="no cuda:1 here"):
        require_device("cuda:1")


@pytest.mark.parametrize("device", ["meta", "nonsense", "cuda:x", ""])
def test_what_is_no_device_to_build_on_is_refused(device):
    with pytest.raises(BuildError, match="take cpu, cuda or cuda:N") as caught:
        require_device(device)
    assert caught.value.code == "bad_request"


@pytest.mark.parametrize("value", [-1, 2.5, float("nan")])
def test_a_number_has_its_bounds(value):
    require_within("max-kl", 0, 0, 2)
    require_within("max-kl", 2, 0, 2)
    with pytest.raises(BuildError, match=r"--max-kl is .*, and has to be from 0 to 2"):
        require_within("max-kl", value, 0, 2)
