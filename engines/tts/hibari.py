"""hibari: one English voice at 24 kHz, a hundred times faster than speech on one thread.

Its weights come inside its package. A sentence is synthesised as a whole, which for eight words
takes 20 ms, so there is nothing to gain from smaller pieces.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engines.audio import Pcm
from engines.models import verify_file
from engines.ports import EngineError, Priority, SpeechRequest
from engines.tts.silence import pause_after, trim
from engines.workers import Workers

if TYPE_CHECKING:
    from engines.models import ModelStore

_log = logging.getLogger(__name__)

_NAME: Final = "hibari"
_RATE: Final = 24_000
_SLOWEST, _FASTEST = 0.5, 2.0
_WEIGHTS: Final = {  # of hibari-tts 0.2.1
    "hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    "oov.onnx": "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
}
_REHEARSAL: Final = "Hello. On the 3rd of May, 12 people paid $9.99 for a zorblatt, didn't they?"
"""Has something for each part that hibari loads when it first needs it."""


@dataclass(frozen=True, slots=True)
class Options:
    """``threads``: of one synthesis; a second brings nothing for a phrase. ``workers``: phrases
    synthesised at the same time."""

    threads: int = 1
    workers: int = 1


def create(options: Options, models: ModelStore) -> Hibari:  # noqa: ARG001 - the plug-in contract
    """The plug-in contract: loads nothing yet."""
    return Hibari(options)


class Hibari:
    """A Tts. It has one voice, which speaks whatever voice is asked for."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._workers = Workers(_NAME, options.workers)
        self._model: Any = None
        self._told = False

    async def warm_up(self) -> None:
        """Load and speak once. Raises EngineError where a file is not the one it should be."""
        self._model = await self._workers.run(Priority.FINAL, _load, self._options.threads)
        async with self.open(SpeechRequest(_REHEARSAL)) as chunks:
            async for _ in chunks:
                pass

    async def close(self) -> None:
        """Free the model, once what it may still be doing is done: a process must not end while
        a thread is in native code."""
        self._workers.close()
        await self._workers.wait_closed()
        self._model = None

    def open(self, request: SpeechRequest) -> AbstractAsyncContextManager[AsyncIterator[Pcm]]:
        """Speak: one Pcm for each sentence, none for what cannot be spoken.

        The speed is held within 0.5 and 2.0. Iterating raises EngineError.
        """
        if request.voice not in (None, _NAME) and not self._told:
            self._told = True
            _log.info("hibari has one voice, which speaks for %r and any other", request.voice)
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: SpeechRequest) -> AsyncGenerator[AsyncIterator[Pcm], None]:
        speech = self._workers.stream(request.priority, lambda: self._speak(request))
        async with aclosing(speech):
            yield speech

    def _speak(self, request: SpeechRequest) -> Iterator[Pcm]:
        """In a worker: the sentences of ``request``, one after the other."""
        model = self._model
        if model is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: call warm_up first")
        speed = min(max(request.speed, _SLOWEST), _FASTEST)
        try:
            for phonemes in model.phonemize(request.text):
                if not any(map(str.isalpha, phonemes)):
                    continue
                samples = model.from_ids(model.ids(phonemes), speed, _noise_of(phonemes))
                spoken = trim(samples, _RATE, pause_after(phonemes) / speed)
                if len(spoken):
                    yield Pcm.from_floats(spoken, _RATE)
        except (RuntimeError, ValueError, LookupError) as error:
            raise EngineError(
                _NAME, "failed", f"cannot speak {request.text[:80]!r}: {error}"
            ) from error


def _noise_of(phonemes: str) -> np.random.Generator:
    """The breath of a voice, drawn so that the same sentence always sounds the same."""
    return np.random.default_rng(zlib.crc32(phonemes.encode()))


def _load(threads: int) -> Any:
    import hibari
    import onnxruntime

    assets = Path(hibari.__file__).parent / "assets"
    for name, sha256 in _WEIGHTS.items():
        verify_file(assets / name, sha256)
    model = hibari.Hibari()
    # Its own session would let idle threads spin, on cores that the other engines want.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model.sess = onnxruntime.InferenceSession(
        str(assets / "hibari.onnx"), options, providers=["CPUExecutionProvider"]
    )
    return model
