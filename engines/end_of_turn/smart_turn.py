"""smart-turn v3.2 (github.com/pipecat-ai/smart-turn, BSD-2): has the caller finished, by the sound?

A Whisper tiny encoder with one output, in int8: it hears the last eight seconds of the turn and
goes by melody and pace, in 23 languages. It misses some ends and takes some pauses for one, so
its word is to be weighed, not obeyed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.asr.logmel import HOP, RATE, WINDOW, log_mel
from engines.audio import Pcm
from engines.models import ModelStore
from engines.onnx_sessions import ORT_ERRORS, open_session
from engines.ports import EndOfTurn, EngineError, FloatArray, Priority, TurnRequest
from engines.workers import Workers

WEIGHTS_FILE: Final = "smart-turn-v3.2-cpu.onnx"
SAMPLES: Final = 8 * RATE
_NAME: Final = "smart-turn"
_INPUT: Final = "input_features"
_VARIANCE_FLOOR: Final = 1e-7  # that of transformers' WhisperFeatureExtractor


@dataclass(frozen=True, slots=True)
class Options:
    """``model``: a name of the model store, or the path of a folder. ``threads``: of one
    judgement; a second saves a few milliseconds."""

    model: str = "smart-turn-v3.2"
    threads: int = 1


def create(options: Options, models: ModelStore) -> EndOfTurn:
    """The judge; ``warm_up`` loads the model (9 MB). Raises EngineError where it is missing."""
    return SmartTurn(options, models.path(options.model) / WEIGHTS_FILE)


class SmartTurn:
    """An ``EndOfTurn`` in one worker thread, one turn after the other."""

    def __init__(self, options: Options, weights: Path) -> None:
        self._options = options
        self._weights = weights
        self._session: Any = None
        self._workers = Workers(_NAME)

    async def warm_up(self) -> None:
        """Load the model and judge silence once. Raises EngineError (``unavailable``)."""
        self._session = await self._workers.run(
            Priority.FINAL, _load, self._weights, self._options.threads
        )
        await self._workers.run(Priority.FINAL, self._judge, Pcm.silence(1000, RATE))

    async def close(self) -> None:
        """Free the model, once the turn that it may still be judging is done."""
        self._workers.close()
        await self._workers.wait_closed()
        self._session = None

    @asynccontextmanager
    async def open(self, request: TurnRequest) -> AsyncIterator[AsyncIterator[float]]:
        """One probability. Raises EngineError (``bad_request``) for a rate other than 16 kHz."""
        if request.pcm.rate != RATE:
            raise EngineError(
                _NAME,
                "bad_request",
                f"the audio has {request.pcm.rate} samples a second, the model hears {RATE}: "
                "resample it first (engines.vad.resampling)",
            )
        if self._session is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: await warm_up() first")
        async with aclosing(self._judgements(request.pcm)) as judgements:
            yield judgements

    async def _judgements(self, pcm: Pcm) -> AsyncGenerator[float, None]:
        yield await self._workers.run(Priority.FINAL, self._judge, pcm)

    def _judge(self, pcm: Pcm) -> float:
        try:
            (probabilities,) = self._session.run(None, {_INPUT: features(pcm)[np.newaxis]})
        except ORT_ERRORS as error:
            raise EngineError(_NAME, "failed", f"the model failed: {error}") from error
        return float(probabilities[0, 0])


def features(pcm: Pcm) -> FloatArray:
    """What the model hears, (80, 800) float32, of ``pcm`` at 16 kHz: its last eight seconds with
    silence before them, of mean 0 and variance 1, as Whisper's log-mel.

    The silence is part of what is normalised: so the model was trained.
    """
    heard: FloatArray = np.zeros(SAMPLES, np.float32)
    last = pcm.floats()[-SAMPLES:]
    heard[SAMPLES - len(last) :] = last
    heard -= heard.mean()
    heard /= np.sqrt(heard.var() + np.float32(_VARIANCE_FLOOR))
    # The last frame reaches past the end, where Whisper's front end puts a mirror.
    mirrored = np.pad(heard, (0, WINDOW // 2), mode="reflect")
    return log_mel(mirrored, SAMPLES // HOP)


def _load(weights: Path, threads: int) -> Any:
    try:
        session = open_session(weights, threads)
    except ORT_ERRORS as error:
        raise EngineError(
            _NAME, "unavailable", f"cannot load {weights} ({error}): pull the model again"
        ) from error
    inputs = [(each.name, each.shape[1:]) for each in session.get_inputs()]
    if inputs != [(_INPUT, [80, 800])]:
        raise EngineError(
            _NAME,
            "unavailable",
            f"{weights} takes {inputs}, not {_INPUT} of 80 by 800: it is not smart-turn v3",
        )
    return session
