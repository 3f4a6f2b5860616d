"""Tiny checkpoints to build from, and steps that remember."""

import pytest

from loadtest import tiny_orpheus, tiny_whisper


class Told:
    """Steps that were taken, with what was counted, and lines that were said."""

    def __init__(self):
        self.done, self.lines, self.running = {}, [], None

    def begin(self, what, unit, total):
        assert self.running is None, f"{what} began in the middle of {self.running}"
        self.running = what
        self.done[what] = [0, total, unit]

    def advance(self, amount):
        self.done[self.running][0] += amount

    def end(self):
        assert self.running is not None
        self.running = None

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def told():
    return Told()


@pytest.fixture(scope="session")
def orpheus(tmp_path_factory):
    """An Orpheus that is tiny and random, but sure of what it predicts, so that errors show."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    folder = tiny_orpheus.make(tmp_path_factory.mktemp("orpheus") / "tiny")
    path = folder / "model.safetensors"
    generator = torch.Generator().manual_seed(7)
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if "norm" not in name:
            tensor.normal_(std=0.3, generator=generator)
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def whisper(tmp_path_factory):
    return tiny_whisper.write(tmp_path_factory.mktemp("whisper"))
