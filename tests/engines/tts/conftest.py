"""Stand-ins for what Orpheus speaks through: a language model that is a script, and a codec whose
sound tells which frame it came from."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.ports import EngineError, Load
from engines.tts.orpheus_tokens import CODES, FIRST_AUDIO, FRAME_SAMPLES

HANG = object()


class ScriptedTokens:
    """A TokenSource: ``script(request)`` gives the chunks of each; HANG waits for ever, an
    exception is raised. A request's tokens are those after its prompt, as a model's would be."""

    def __init__(self, script):
        self.script = script
        self.requests = []
        self.open_now = 0
        self.read_chunks = 0
        self.asked = asyncio.Event()

    async def warm_up(self):
        pass

    async def close(self):
        pass

    @asynccontextmanager
    async def open(self, request):
        self.requests.append(request)
        self.open_now += 1
        self.asked.set()
        tokens = self._play(request)
        try:
            yield tokens
        finally:
            await tokens.aclose()
            self.open_now -= 1

    async def _play(self, request):
        for step in self.script(request):
            if step is HANG:
                await asyncio.Event().wait()
            if isinstance(step, Exception):
                raise step
            await asyncio.sleep(0)
            self.read_chunks += 1
            yield tuple(step)

    def goes_on(self, frames, chunk=7):
        """From now on: ``frames`` for each request, a resumed one from where it stopped."""
        tokens = [FIRST_AUDIO + p * CODES + c for frame in frames for p, c in enumerate(frame)]

        def script(request):
            made = sum(token >= FIRST_AUDIO for token in request.prompt)
            left = tokens[made:][: request.max_tokens]
            return [left[start : start + chunk] for start in range(0, len(left), chunk)]

        self.script = script


class SoundingCodec:
    """A Codec: frame n sounds as 2048 samples of its first code / 8192, two frames late."""

    delay = 2

    def __init__(self, slots=8):
        self.slots = slots
        self.seeds = []
        self.open_now = 0
        self.deadlines = []
        self.decoded = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.decoding = asyncio.Event()

    def load(self):
        return Load(speaking=self.open_now, batch=3, step_ms=1.5)

    @asynccontextmanager
    async def open(self, seed):
        if self.open_now >= self.slots:
            raise EngineError("snac", "unavailable", "no slot is free")
        self.seeds.append(seed)
        self.open_now += 1
        try:
            yield _Sounding(self)
        finally:
            self.open_now -= 1


class _Sounding:
    def __init__(self, codec):
        self._codec = codec
        self._late = []

    async def decode(self, frame, deadline_ms):
        codec = self._codec
        codec.deadlines.append(deadline_ms)
        codec.decoding.set()
        await codec.hold.wait()
        codec.decoded += 1
        self._late.append(np.full(FRAME_SAMPLES, frame[0] / 8192, np.float32))
        due = self._late[: -codec.delay]
        self._late = self._late[-codec.delay :]
        return np.concatenate(due) if due else np.zeros(0, np.float32)

    async def finish(self, deadline_ms):
        self._codec.deadlines.append(deadline_ms)
        return np.concatenate([np.zeros(0, np.float32), *self._late])


@pytest.fixture
def hang():
    """In a script: nothing more ever comes."""
    return HANG


@pytest.fixture
def tokens():
    """A ScriptedTokens without a word."""
    return ScriptedTokens(lambda request: [])


@pytest.fixture
def codec():
    """A SoundingCodec of 8 slots."""
    return SoundingCodec()


@pytest.fixture
def heard():
    """A function: which frames' first codes an audio of whole frames is made of."""

    def codes(samples):
        frames = np.asarray(samples).reshape(-1, FRAME_SAMPLES)
        assert (frames == frames[:, :1]).all(), "a frame is cut"
        return [round(level / 32767 * 8192) for level in frames[:, 0].tolist()]

    return codes
